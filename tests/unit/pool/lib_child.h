/* SPDX-License-Identifier: MIT */
/* lib_child.h - a shell command as a child, for the tests of its ends and of its progress. */
#ifndef TESTS_UNIT_POOL_LIB_CHILD_H
#define TESTS_UNIT_POOL_LIB_CHILD_H

#include "lib_test.h"
#include "pool/exec/child.h"
#include "pool/exec/launcher.h"

/* 4096 bytes of stdout, 256 of stderr, 5 s after a cancellation, and nothing that cancels it. */
struct qn_child_spec lib_child_spec(const char *command);
/* The main of a program whose commands are forks of its own at first, and then, in a second round
 * of all tests, of a zygote. */
int lib_child_main_twice(int argc, char **argv, const struct test_group *group);
/* Of the round: NULL in the first. */
struct qn_launcher *lib_child_launcher(void);
/* It must have been started; then qn_child_end_finish. */
struct qn_child_end lib_child_run(const struct qn_child_spec *spec);

#endif
