/* SPDX-License-Identifier: MIT */
/* lib_hex.h - bytes written as hexadecimal digits, for golden messages. */
#ifndef TESTS_UNIT_LIB_HEX_H
#define TESTS_UNIT_LIB_HEX_H

#include "message/asynq/asynq.h"

/* In the arena; fails the test when hex is not pairs of digits. */
struct qn_bytes test_from_hex(struct qn_arena *arena, const char *hex);
void test_assert_hex(struct qn_bytes bytes, const char *hex);

#endif
