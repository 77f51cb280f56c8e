/* SPDX-License-Identifier: MIT */
/* test_pace.c - pauses between attempts: their limits, and how many attempts there are. */
#include "lib_test.h"

#include <string.h>

#include "base/pace.h"

enum { DRAWS = 300 };

/* The longest of many pauses: near the limit, and never above it. */
static int64_t longest(const struct qn_pace *pace, uint32_t failures)
{
    struct qn_random random;
    int64_t most_ms = 0;
    qn_random_init_seed(&random, 7);
    for (int i = 0; i < DRAWS; i++) {
        int64_t ms = qn_pace_next_ms(pace, failures, &random);
        assert_true(ms >= 1);
        most_ms = ms > most_ms ? ms : most_ms;
    }
    return most_ms;
}

static void limits_are_those_that_were_given(void **state)
{
    (void)state;
    static const struct {
        struct qn_pace pace;
        uint32_t failures;
        int64_t limit_ms;
    } cases[] = {
        {{0}, 0, 50},
        {{0}, 1, 100},
        {{0}, 4, 800},
        {{0}, 5, 1000},
        {{0}, UINT32_MAX, 1000},
        {{.start_ms = 200}, 1, 400},
        {{.start_ms = 5000}, 0, 5000},
        {{.start_ms = 5000}, 9, 5000},
        {{.start_ms = 200, .step_ms = 300, .max_ms = 5000}, 0, 200},
        {{.start_ms = 200, .step_ms = 300, .max_ms = 5000}, 3, 1100},
        {{.start_ms = 200, .step_ms = 300, .max_ms = 5000}, 99, 5000},
        {{.step_ms = QN_PACE_MS_MAX, .max_ms = QN_PACE_MS_MAX}, UINT32_MAX, QN_PACE_MS_MAX},
        {{.start_ms = QN_PACE_MS_MAX, .max_ms = QN_PACE_MS_MAX}, UINT32_MAX, QN_PACE_MS_MAX},
        {{.max_ms = 70}, 1, 70},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        int64_t most_ms = longest(&cases[i].pace, cases[i].failures);
        if (most_ms > cases[i].limit_ms || most_ms < cases[i].limit_ms * 9 / 10) {
            fail_msg("case %zu: %lld of %lld ms", i, (long long)most_ms,
                     (long long)cases[i].limit_ms);
        }
    }
}

static void attempts_end_after_as_many_retries_as_there_may_be(void **state)
{
    (void)state;
    const struct qn_pace three = {.retries_max = 3};
    const struct qn_pace any = {0};
    assert_false(qn_pace_ends(&three, 3));
    assert_true(qn_pace_ends(&three, 4));
    assert_false(qn_pace_ends(&any, UINT32_MAX));
}

static void what_one_leaves_open_the_other_says(void **state)
{
    (void)state;
    const struct qn_pace first = {.start_ms = 1, .retries_max = 2};
    const struct qn_pace second = {.start_ms = 3, .step_ms = 4, .max_ms = 5, .retries_max = 6};
    struct qn_pace both = qn_pace_or(&first, &second);
    assert_int_equal(both.start_ms, 1);
    assert_int_equal(both.step_ms, 4);
    assert_int_equal(both.max_ms, 5);
    assert_int_equal(both.retries_max, 2);
}

static void wrong_values_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        struct qn_pace pace;
        const char *words;
    } bad[] = {
        {{.start_ms = -1}, "interval_start_ms is -1"},
        {{.step_ms = -1}, "interval_step_ms is -1"},
        {{.max_ms = QN_PACE_MS_MAX + 1}, "interval_max_ms is 86400001, not 0 to 86400000"},
        {{.start_ms = 20, .max_ms = 10}, "interval_max_ms is 10, less than interval_start_ms, 20"},
        {{.retries_max = UINT32_MAX}, "max_retries is 4294967295"},
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        quern_error err = {0};
        assert_int_equal(qn_pace_check(&bad[i].pace, &err), QUERN_E_INVALID);
        assert_non_null(strstr(err.text, bad[i].words));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(limits_are_those_that_were_given),
    cmocka_unit_test(attempts_end_after_as_many_retries_as_there_may_be),
    cmocka_unit_test(what_one_leaves_open_the_other_says),
    cmocka_unit_test(wrong_values_are_refused_by_name),
};
TEST_MAIN(tests)
