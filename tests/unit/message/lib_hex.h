/* SPDX-License-Identifier: MIT */
/* lib_hex.h - bytes written as hexadecimal digits, for golden messages, and the arena of a test. */
#ifndef TESTS_UNIT_LIB_HEX_H
#define TESTS_UNIT_LIB_HEX_H

#include "message/asynq/asynq.h"
#include "quern/status.h"

/* Fresh for each test that has these fixtures. */
extern struct qn_arena arena;
extern quern_error err;
int hex_start(void **state);
int hex_finish(void **state);

/* In the memory given; fails the test when hex is not pairs of digits. */
struct qn_bytes test_from_hex(struct qn_arena *memory, const char *hex);
void test_assert_hex(struct qn_bytes bytes, const char *hex);

#endif
