/* SPDX-License-Identifier: MIT */
/* test_rules.c - the life cycle as a table, and how long a failed task waits. */
#include <string.h>

#include "base/text/number.h"
#include "lib_test.h"
#include "task/lifecycle.h"
#include "task/limits.h"
#include "task/retry.h"

static const quern_task_state all_states[] = {
    QUERN_TASK_ACTIVE,   QUERN_TASK_PENDING,   QUERN_TASK_SCHEDULED,  QUERN_TASK_RETRY,
    QUERN_TASK_ARCHIVED, QUERN_TASK_COMPLETED, QUERN_TASK_AGGREGATING};

static void moves_between_states_are_those_of_the_drawing(void **state)
{
    (void)state;
    /* Rows and columns: active pending scheduled retry archived completed aggregating. */
    static const char *const moves[] = {
        ".p.rac.", /* active: give-back, retry, archive, complete */
        "x...ac.", /* pending: lease, deadline or operator, salvage */
        ".p..a.g", /* scheduled: due, or operator */
        ".p..acg", /* retry: due, operator, salvage */
        ".p.....", /* archived */
        ".p..a..", /* completed */
        ".p..a..", /* aggregating */
    };
    for (size_t from = 0; from < TEST_COUNT(all_states); from++) {
        for (size_t to = 0; to < TEST_COUNT(all_states); to++) {
            bool may = qn_lifecycle_may_become(all_states[from], all_states[to]);
            assert_int_equal(may, moves[from][to] != '.');
        }
        assert_true(qn_lifecycle_may_delete(all_states[from]));
    }
}

static void operators_may_do_what_the_inspector_allows(void **state)
{
    (void)state;
    /* Columns: run archive delete cancel-retry cancel-archive trash restore. */
    static const char *const actions[] = {
        "...cc..", /* active */
        ".ad..t.", /* pending */
        "rad..t.", /* scheduled */
        "rad..t.", /* retry */
        "r.d..t.", /* archived */
        "rad..t.", /* completed */
        "rad..t.", /* aggregating */
    };
    for (size_t i = 0; i < TEST_COUNT(all_states); i++) {
        for (int action = QUERN_ACTION_RUN; action <= QUERN_ACTION_RESTORE; action++) {
            bool may = qn_lifecycle_allows(all_states[i], (quern_action)action);
            assert_int_equal(may, actions[i][action - 1] != '.');
        }
        assert_false(qn_lifecycle_allows(all_states[i], (quern_action)0));
        assert_false(qn_lifecycle_allows(all_states[i], (quern_action)8));
    }
}

static void refusals_name_task_state_and_what_to_do(void **state)
{
    (void)state;
    static const struct {
        quern_action action;
        quern_task_state state;
        const char *id;
        const char *text;
    } cases[] = {
        {QUERN_ACTION_DELETE, QUERN_TASK_ACTIVE, "a",
         "cannot delete task a: it is active; cancel it instead"},
        {QUERN_ACTION_RUN, QUERN_TASK_PENDING, "a", "cannot run task a: it is pending"},
        {QUERN_ACTION_CANCEL_RETRY, QUERN_TASK_RETRY, "a",
         "cannot cancel task a: it is not running (state: retry)"},
        {QUERN_ACTION_CANCEL_ARCHIVE, (quern_task_state)9, "a",
         "cannot cancel task a: it is damaged"},
        {QUERN_ACTION_ARCHIVE, QUERN_TASK_ARCHIVED, NULL, "cannot archive tasks that are archived"},
        {QUERN_ACTION_ARCHIVE, (quern_task_state)0, NULL,
         "cannot archive tasks that are in no state"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        assert_int_equal(qn_lifecycle_refuse(cases[i].action, cases[i].state, cases[i].id, &err),
                         QUERN_E_STATE);
        assert_string_equal(err.text, cases[i].text);
    }
}

static void numbers_that_are_no_state_may_nothing(void **state)
{
    (void)state;
    static const int numbers[] = {-1, 0, 8, 31, 32, 1000};
    for (size_t i = 0; i < TEST_COUNT(numbers); i++) {
        quern_task_state none = (quern_task_state)numbers[i];
        assert_false(qn_lifecycle_may_become(none, QUERN_TASK_PENDING));
        assert_false(qn_lifecycle_may_become(QUERN_TASK_PENDING, none));
        assert_false(qn_lifecycle_may_delete(none));
        assert_false(qn_lifecycle_allows(none, QUERN_ACTION_RUN));
        assert_null(quern_task_state_name(none));
    }
}

static void states_are_spelled_as_asynq_does_and_read_back(void **state)
{
    (void)state;
    static const char *const names[] = {"active",   "pending",   "scheduled",  "retry",
                                        "archived", "completed", "aggregating"};
    for (size_t i = 0; i < TEST_COUNT(all_states); i++) {
        assert_string_equal(quern_task_state_name(all_states[i]), names[i]);
        assert_int_equal(qn_lifecycle_parse(names[i]), all_states[i]);
        assert_int_equal(all_states[i], i + 1); /* asynq's numbers */
    }
    assert_int_equal(qn_lifecycle_parse("Active"), 0);
    assert_int_equal(qn_lifecycle_parse(""), 0);
}

static void every_cause_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = QUERN_CAUSE_NONE; i <= QUERN_CAUSE_BROKER_LOST; i++) {
        assert_non_null(quern_cause_name((quern_cause)i));
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(quern_cause_name((quern_cause)i),
                                    quern_cause_name((quern_cause)j));
        }
    }
    assert_string_equal(quern_cause_name(QUERN_CAUSE_LEASE_EXPIRED), "lease expired");
    assert_null(quern_cause_name((quern_cause)-1));
    assert_null(quern_cause_name((quern_cause)9));
}

struct bounds {
    quern_retry_policy policy;
    int64_t retry_count;
    int64_t low_ms;
    int64_t high_ms;
};

/* Draws until both ends were seen where the range is small, and checks that nothing is outside. */
static void assert_bounds(const struct bounds *bounds, bool both_ends)
{
    struct qn_random random;
    qn_random_init_seed(&random, 11);
    bool saw_low = false;
    bool saw_high = false;
    for (int i = 0; i < 3000; i++) {
        int64_t delay_ms = qn_retry_delay_ms(&bounds->policy, bounds->retry_count, &random);
        if (delay_ms < bounds->low_ms || delay_ms > bounds->high_ms) {
            fail_msg("kind %d, count %lld: %lld ms", (int)bounds->policy.kind,
                     (long long)bounds->retry_count, (long long)delay_ms);
        }
        saw_low = saw_low || delay_ms == bounds->low_ms;
        saw_high = saw_high || delay_ms == bounds->high_ms;
    }
    assert_true(!both_ends || (saw_low && saw_high));
}

static void asynqs_delays_are_exact(void **state)
{
    (void)state;
    static const struct bounds cases[] = {
        {{QN_BACKOFF_ASYNQ, 0, 0, 0}, 0, 15000, 44000},
        {{QN_BACKOFF_ASYNQ, 0, 0, 0}, 1, 16000, 74000},
        {{QN_BACKOFF_ASYNQ, 0, 0, 0}, 5, 640000, 814000},
        {{QN_BACKOFF_ASYNQ, 0, 0, 0}, 10, 10015000, 10334000},
        {{QN_BACKOFF_ASYNQ, 0, 0, 0}, 24, 331791000, 332516000},
        {{QN_BACKOFF_ASYNQ, 0, 0, 0}, -3, 15000, 44000},
        {{QN_BACKOFF_ASYNQ, 0, 0, 0}, 1000, QN_DURATION_MS_MAX, QN_DURATION_MS_MAX},
        {{QN_BACKOFF_ASYNQ, 0, 0, 0}, INT64_MAX, QN_DURATION_MS_MAX, QN_DURATION_MS_MAX},
        {{QN_BACKOFF_DEFAULT, 0, 0, 0}, 0, 15000, 44000},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_bounds(&cases[i], true);
    }
    struct qn_random random;
    qn_random_init_seed(&random, 1);
    for (int i = 0; i < 1000; i++) { /* whole seconds, in steps of n + 1 */
        assert_int_equal((qn_retry_delay_ms(&cases[2].policy, 5, &random) - 640000) % 6000, 0);
    }
}

static void fixed_delays_are_fixed(void **state)
{
    (void)state;
    static const struct bounds cases[] = {
        {{QN_BACKOFF_FIXED, 0, 0, 0}, 0, 1000, 1000},
        {{QN_BACKOFF_FIXED, 0, 1, 0}, 9, 1, 1},
        {{QN_BACKOFF_FIXED, 0, 250, 0}, INT64_MAX, 250, 250},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_bounds(&cases[i], true);
    }
}

static void exponential_delays_have_full_jitter_and_a_cap(void **state)
{
    (void)state;
    static const struct bounds small[] = {
        {{QN_BACKOFF_EXPONENTIAL, 0, 10, 1000}, 0, 0, 10},
        {{QN_BACKOFF_EXPONENTIAL, 0, 10, 1000}, 1, 0, 20},
        {{QN_BACKOFF_EXPONENTIAL, 0, 10, 1000}, 4, 0, 160},
        {{QN_BACKOFF_EXPONENTIAL, 0, 10, 100}, 4, 0, 100},
        {{QN_BACKOFF_EXPONENTIAL, 0, 1, 3}, 1, 0, 2},
        {{QN_BACKOFF_EXPONENTIAL, 0, 7, 7}, 60, 0, 7},
    };
    static const struct bounds large[] = {
        {{QN_BACKOFF_EXPONENTIAL, 0, 0, 0}, 0, 0, 1000},
        {{QN_BACKOFF_EXPONENTIAL, 0, 0, 0}, 11, 0, 2048000},
        {{QN_BACKOFF_EXPONENTIAL, 0, 0, 0}, 12, 0, 3600000},
        {{QN_BACKOFF_EXPONENTIAL, 0, 0, 0}, INT64_MAX, 0, 3600000},
        {{QN_BACKOFF_EXPONENTIAL, 0, 1, QN_DURATION_MS_MAX}, 10000, 0, QN_DURATION_MS_MAX},
    };
    for (size_t i = 0; i < TEST_COUNT(small); i++) {
        assert_bounds(&small[i], true);
    }
    for (size_t i = 0; i < TEST_COUNT(large); i++) {
        assert_bounds(&large[i], false);
    }
}

static void jitter_is_spread_over_the_whole_range(void **state)
{
    (void)state;
    const quern_retry_policy policy = {.kind = QN_BACKOFF_EXPONENTIAL, .base_ms = 1000};
    struct qn_random random;
    size_t counts[4] = {0};
    qn_random_init_seed(&random, 4);
    for (int i = 0; i < 40000; i++) {
        int64_t delay_ms = qn_retry_delay_ms(&policy, 2, &random);
        counts[delay_ms == 4000 ? 3 : delay_ms / 1000]++;
    }
    for (size_t i = 0; i < 4; i++) {
        assert_in_range(counts[i], 9500, 10500);
    }
}

static void wrong_policies_are_refused(void **state)
{
    (void)state;
    static const struct {
        quern_retry_policy policy;
        const char *reason;
    } cases[] = {
        {{4, 0, 0, 0}, "kind 4 is unknown"},
        {{-1, 0, 0, 0}, "kind -1 is unknown"},
        {{QN_BACKOFF_FIXED, 1, 0, 0}, "reserved"},
        {{QN_BACKOFF_FIXED, 0, -1, 0}, "base_ms must be from 0 to 100 years, not -1"},
        {{QN_BACKOFF_EXPONENTIAL, 0, 5, -7}, "cap_ms must be from 0 to 100 years, not -7"},
        {{QN_BACKOFF_FIXED, 0, QN_DURATION_MS_MAX + 1, 0}, "base_ms must be"},
        {{QN_BACKOFF_EXPONENTIAL, 0, 1, INT64_MAX}, "cap_ms must be"},
        {{QN_BACKOFF_EXPONENTIAL, 0, 10, 9}, "cap_ms (9) must not be below base_ms (10)"},
        {{QN_BACKOFF_EXPONENTIAL, 0, 0, 999}, "cap_ms (999) must not be below base_ms (1000)"},
        {{QN_BACKOFF_EXPONENTIAL, 0, 3600001, 0}, "cap_ms (3600000) must not be below"},
        {{QN_BACKOFF_FIXED, 0, 5, 5}, "cap_ms is for the kind exponential"},
        {{QN_BACKOFF_DEFAULT, 0, 5, 0}, "base_ms and cap_ms are for"},
        {{QN_BACKOFF_ASYNQ, 0, 0, 5}, "base_ms and cap_ms are for"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        assert_int_equal(qn_retry_policy_check(&cases[i].policy, &err), QUERN_E_INVALID);
        if (strstr(err.text, cases[i].reason) == NULL) {
            fail_msg("case %zu: %s", i, err.text);
        }
    }
    static const quern_retry_policy right[] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {2, 0, 0, 0},
                                               {2, 0, 1, 0}, {3, 0, 0, 0}, {3, 0, 5, 5}};
    for (size_t i = 0; i < TEST_COUNT(right); i++) {
        quern_error err = {0};
        assert_ok(qn_retry_policy_check(&right[i], &err), err);
    }
}

static void first_policy_that_is_set_wins(void **state)
{
    (void)state;
    const quern_retry_policy silent = {0};
    const quern_retry_policy fixed = {.kind = QN_BACKOFF_FIXED};
    const quern_retry_policy growing = {.kind = QN_BACKOFF_EXPONENTIAL, .base_ms = 5};
    quern_retry_policy got = qn_retry_policy_resolve(&silent, &fixed, &growing);
    assert_int_equal(got.kind, QN_BACKOFF_FIXED);
    assert_int_equal(got.base_ms, 1000);
    got = qn_retry_policy_resolve(&growing, &fixed, &silent);
    assert_int_equal(got.kind, QN_BACKOFF_EXPONENTIAL);
    assert_int_equal(got.base_ms, 5);
    assert_int_equal(got.cap_ms, 3600000);
    got = qn_retry_policy_resolve(&silent, NULL, &fixed);
    assert_int_equal(got.kind, QN_BACKOFF_FIXED);
    got = qn_retry_policy_resolve(NULL, &silent, NULL);
    assert_int_equal(got.kind, QN_BACKOFF_ASYNQ);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(moves_between_states_are_those_of_the_drawing),
    cmocka_unit_test(operators_may_do_what_the_inspector_allows),
    cmocka_unit_test(refusals_name_task_state_and_what_to_do),
    cmocka_unit_test(numbers_that_are_no_state_may_nothing),
    cmocka_unit_test(states_are_spelled_as_asynq_does_and_read_back),
    cmocka_unit_test(every_cause_has_a_name_of_its_own),
    cmocka_unit_test(asynqs_delays_are_exact),
    cmocka_unit_test(fixed_delays_are_fixed),
    cmocka_unit_test(exponential_delays_have_full_jitter_and_a_cap),
    cmocka_unit_test(jitter_is_spread_over_the_whole_range),
    cmocka_unit_test(wrong_policies_are_refused),
    cmocka_unit_test(first_policy_that_is_set_wins),
};

TEST_MAIN(tests)
