/* SPDX-License-Identifier: MIT */
/* test_starts.c - how many tasks start in a period: sliding windows and token buckets. */
#include "lib_limits.h"

#include <string.h>

static void put_numbered(struct contract *c, const char *prefix, const char *key, int count)
{
    char id[32];
    for (int i = 0; i < count; i++) {
        (void)snprintf(id, sizeof id, "%s%d", prefix, i);
        limits_put(c, id, NULL, key);
    }
}

/* How many may start now; they are done at once. */
static int start_all(struct contract *c)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t count = contract_lease(c, "default", QN_BATCH_MAX, runs);
    for (size_t i = 0; i < count; i++) {
        contract_finish(c, runs[i], QN_DONE);
    }
    return (int)count;
}

static void window_starts_no_more_than_its_limit(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "3/1m");
    put_numbered(c, "a", NULL, 10);
    assert_int_equal(start_all(c), 3);
    assert_int_equal(limits_used(c, QUERN_LIMIT_QUEUE, "", true), 3);
    assert_int_equal(start_all(c), 0);
    contract_advance(c, 59000);
    assert_int_equal(start_all(c), 0);
    contract_advance(c, 2000);
    assert_int_equal(start_all(c), 3);
    assert_int_equal(start_all(c), 0);
    limits_finish();
}

static void lease_reports_when_the_next_may_start(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "*", "2/1m burst 2");
    put_numbered(c, "a", "k", 5);
    assert_int_equal(start_all(c), 2);
    assert_int_equal(start_all(c), 0);
    int64_t wait_ms = c->wait_ms;
    assert_true(wait_ms > 29000);
    assert_true(wait_ms <= 30000);
    contract_advance(c, wait_ms - 100);
    assert_int_equal(start_all(c), 0);
    contract_advance(c, 100);
    assert_int_equal(start_all(c), 1);
    limits_finish();
}

static void bucket_gives_its_burst_and_then_its_rate(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_TYPE, "t", "60/1m burst 5");
    put_numbered(c, "a", NULL, 40);
    assert_int_equal(start_all(c), 5);
    for (int i = 0; i < 10; i++) {
        contract_advance(c, 1000);
        assert_int_equal(start_all(c), 1);
    }
    contract_advance(c, 3600000);
    assert_int_equal(start_all(c), 5);
    limits_finish();
}

static void each_key_has_a_rate_of_its_own(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "*", "1/1m");
    limits_set(c, QUERN_LIMIT_KEY, "c", "2/1m");
    put_numbered(c, "a", "a", 3);
    put_numbered(c, "b", "b", 3);
    put_numbered(c, "c", "c", 3);
    put_numbered(c, "n", NULL, 2);
    limits_lease(c, 20, "a0 b0 c0 n0 c1 n1");
    limits_lease(c, 20, "");
    contract_advance(c, 62000);
    limits_lease(c, 20, "a1 b1 c2");
    limits_finish();
}

static void limit_of_runs_and_of_starts_hold_together(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "2");
    limits_set(c, QUERN_LIMIT_QUEUE, "", "3/1m");
    put_numbered(c, "a", NULL, 6);
    limits_lease(c, 9, "a0 a1");
    limits_done(c, "a0");
    limits_done(c, "a1");
    limits_lease(c, 9, "a2");
    limits_done(c, "a2");
    limits_lease(c, 9, "");
    contract_advance(c, 62000);
    limits_lease(c, 9, "a3 a4");
    limits_finish();
}

static void run_given_back_before_its_start_returns_it(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "2/1m");
    limits_set(c, QUERN_LIMIT_KEY, "*", "2/1m burst 2");
    put_numbered(c, "a", "k", 4);
    limits_lease(c, 9, "a0 a1");
    contract_advance(c, 100);
    limits_give_back(c, "a0");
    assert_int_equal(limits_used(c, QUERN_LIMIT_QUEUE, "", true), 1);
    limits_lease(c, 9, "a0");
    limits_end(c, "a1", QN_GIVE_BACK); /* this one had started */
    limits_lease(c, 9, "");
    limits_finish();
}

static void turned_clock_gives_one_window_at_most(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "3/1m");
    put_numbered(c, "a", NULL, 20);
    assert_int_equal(start_all(c), 3);
    contract_jump(c, -3600000);
    assert_int_equal(start_all(c), 0);
    contract_advance(c, 62000); /* nor is it stuck for an hour */
    assert_int_equal(start_all(c), 3);
    contract_jump(c, 7200000);
    assert_true(start_all(c) <= 3);
    contract_advance(c, 62000);
    assert_int_equal(start_all(c), 3);
    limits_finish();
}

static void changed_rate_counts_what_has_started(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "5/1m");
    put_numbered(c, "a", NULL, 20);
    assert_int_equal(start_all(c), 5);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "7/1m");
    assert_int_equal(start_all(c), 2);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "2/1m");
    assert_int_equal(start_all(c), 0);
    contract_advance(c, 62000);
    assert_int_equal(start_all(c), 2);
    limits_remove(c, QUERN_LIMIT_QUEUE, "");
    assert_int_equal(start_all(c), 11);
    limits_finish();
}

static void count_of_a_rate_is_dropped_when_it_is_over(struct contract *c)
{
    const char *const queue = "default";
    size_t removed = 0;
    quern_error err = {0};
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "*", "1/1m");
    put_numbered(c, "a", "a", 1);
    put_numbered(c, "b", "b", 1);
    assert_int_equal(start_all(c), 2);
    contract_advance(c, 62000);
    assert_ok(qn_broker_prune(c->broker, (struct qn_upkeep){{&queue, 1}, 100}, &removed, &err),
              err);
    put_numbered(c, "x", "a", 2);
    assert_int_equal(start_all(c), 1);
    limits_finish();
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(window_starts_no_more_than_its_limit),
    CONTRACT_TEST(lease_reports_when_the_next_may_start),
    CONTRACT_TEST(bucket_gives_its_burst_and_then_its_rate),
    CONTRACT_TEST(each_key_has_a_rate_of_its_own),
    CONTRACT_TEST(limit_of_runs_and_of_starts_hold_together),
    CONTRACT_TEST(run_given_back_before_its_start_returns_it),
    CONTRACT_TEST(turned_clock_gives_one_window_at_most),
    CONTRACT_TEST(changed_rate_counts_what_has_started),
    CONTRACT_TEST(count_of_a_rate_is_dropped_when_it_is_over),
};

CONTRACT_MAIN(tests)
