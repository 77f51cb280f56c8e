/* SPDX-License-Identifier: MIT */
/* test_judge.c - what the judge of limits (lib_limit_judge.h) must not overlook. */
#include "lib_limit_judge.h"
#include "lib_test.h"

#include "base/clock.h"

#define S_NS INT64_C(1000000000)

/* Class 0 is bound by a limit of 2 at a time, kind 1
 * by one of 2 starts a second, kind 2 by the same with a burst of 1. */
static void judge_finds_what_is_too_much_and_what_is_wasted(void **state)
{
    (void)state;
    const int64_t ms = QN_NS_PER_MS;
    struct limit_event events[] = {
        {.at_ns = 1 * ms, .kind = 0, .change = 1},
        {.at_ns = 9 * ms, .kind = 0, .change = 1},
        {.at_ns = 9 * ms, .kind = 0, .change = -1, .done = true},
        {.at_ns = 11 * ms, .kind = 0, .change = 1},
        {.at_ns = 1 * ms, .kind = 1, .change = 1},
        {.at_ns = 2 * ms, .kind = 1, .change = 1},
        {.at_ns = 999 * ms, .kind = 1, .change = 1},
        {.at_ns = 1 * ms, .kind = 2, .change = 1},
        {.at_ns = 500 * ms, .kind = 2, .change = 1},
        {.at_ns = 1001 * ms, .kind = 2, .change = 1},
        {.at_ns = 1501 * ms, .kind = 2, .change = 1},
        {.at_ns = 1900 * ms, .kind = 0, .change = -1, .done = true},
    };
    const uint32_t puts[] = {9, 9, 9, 0};
    struct limit_span stop = {.from_ns = 5 * ms, .until_ns = 7 * ms};
    struct limit_record record = {.events = events,
                                  .count = TEST_COUNT(events),
                                  .puts = puts,
                                  .excluded = &stop,
                                  .excluded_count = 1};
    struct limit_rule running = {.kinds = 1, .alone = 1, .count = 2};
    const struct limit_rule window = {.kinds = 2, .alone = 2, .count = 2, .period_ns = S_NS};
    const struct limit_rule bucket = {
        .kinds = 4, .alone = 4, .count = 2, .period_ns = S_NS, .burst = 1};
    limit_judge_sort(events, TEST_COUNT(events));
    struct limit_verdict verdict = limit_judge(&record, &running);
    assert_int_equal(verdict.most, 2);
    assert_false(verdict.exceeded);
    /* 1 ran from 1 to 11 ms, of which 2 do not count, and 2 until 1900. */
    assert_true(verdict.use > 0.997 && verdict.use < 0.999);
    running.count = 1;
    assert_true(limit_judge(&record, &running).exceeded);
    assert_true(limit_judge(&record, &window).exceeded);
    assert_true(limit_judge(&record, &bucket).exceeded);
    record.lag_ns = 3 * ms;
    assert_false(limit_judge(&record, &window).exceeded);
    assert_false(limit_judge(&record, &bucket).exceeded);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(judge_finds_what_is_too_much_and_what_is_wasted),
};

TEST_MAIN(tests)
