/* SPDX-License-Identifier: MIT */
/* test_clock_jump.c - which changes of a clock are jumps, and for how long they are remembered. */
#include "base/clock_jump.h"

#include "lib_test.h"

#define JUMP_MS 1000
#define WITHIN_MS 5000

static void first_reading_is_no_jump(void **state)
{
    (void)state;
    struct qn_clock_jump jump = {0};
    qn_clock_jump_note(&jump, 10, 5000000, JUMP_MS);
    assert_true(jump.seen);
    assert_int_equal(jump.offset_ms, 4999990);
    assert_false(qn_clock_jump_is_recent(&jump, 10, WITHIN_MS));
}

static void jump_in_either_direction_is_remembered_for_a_while(void **state)
{
    (void)state;
    static const int64_t changes[] = {JUMP_MS + 1, -JUMP_MS - 1};
    for (size_t i = 0; i < TEST_COUNT(changes); i++) {
        struct qn_clock_jump jump = {0};
        qn_clock_jump_note(&jump, 10, 100010, JUMP_MS);
        qn_clock_jump_note(&jump, 20, 100020 + changes[i], JUMP_MS);
        assert_true(qn_clock_jump_is_recent(&jump, 20 + WITHIN_MS - 1, WITHIN_MS));
        assert_false(qn_clock_jump_is_recent(&jump, 20 + WITHIN_MS, WITHIN_MS));
        assert_int_equal(jump.offset_ms, 100000 + changes[i]);
    }
}

static void drift_becomes_a_jump_unless_the_offset_follows(void **state)
{
    (void)state;
    struct qn_clock_jump kept = {0};
    struct qn_clock_jump followed = {0};
    for (int64_t i = 0; i <= 3; i++) {
        qn_clock_jump_note(&kept, i, 100000 + i * 400, JUMP_MS);
        qn_clock_jump_note_ahead(&followed, i, 100000 + i * 400, JUMP_MS);
    }
    assert_true(kept.jumped);
    assert_false(followed.jumped);
    assert_int_equal(followed.offset_ms, 101197);
}

static void only_a_jump_ahead_counts_where_that_is_requested(void **state)
{
    (void)state;
    struct qn_clock_jump jump = {0};
    qn_clock_jump_note_ahead(&jump, 1, 100001, JUMP_MS);
    qn_clock_jump_note_ahead(&jump, 2, 2, JUMP_MS);
    assert_false(jump.jumped);
    qn_clock_jump_note_ahead(&jump, 3, 3 + JUMP_MS + 1, JUMP_MS);
    assert_true(jump.jumped);
    assert_int_equal(jump.jumped_at_boot_ms, 3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(first_reading_is_no_jump),
    cmocka_unit_test(jump_in_either_direction_is_remembered_for_a_while),
    cmocka_unit_test(drift_becomes_a_jump_unless_the_offset_follows),
    cmocka_unit_test(only_a_jump_ahead_counts_where_that_is_requested),
};

TEST_MAIN(tests)
