/* SPDX-License-Identifier: MIT */
/* test_all_tasks.c - limits of all queues together by type and key: how many tasks run at a time,
 * and how many start. */
#include "lib_all_queues.h"

static void type_is_counted_in_all_queues(struct contract *c)
{
    struct qn_leased *runs[8];
    all_put(c, "default", "d0", "slow", NULL);
    all_set(c, QUERN_LIMIT_TYPE, "slow", "2");
    all_put(c, "default", "d1", "quick", NULL);
    all_put(c, "other", "o0", "slow", NULL);
    all_put(c, "other", "o1", "slow", NULL);
    all_put(c, "other", "o2", "quick", NULL);
    assert_int_equal(all_lease(c, "default", runs, "d0 d1"), 2);
    assert_int_equal(all_lease(c, "other", runs + 2, "o0 o2"), 2);
    all_put(c, "new", "n0", "slow", NULL);
    all_put(c, "new", "n1", "quick", NULL);
    assert_int_equal(all_lease(c, "new", runs + 4, "n1"), 1);
    all_assert_listed(c, NULL, "{all}/2/slow 2/2;");
    all_done(c, runs[0]);
    assert_int_equal(all_lease(c, "new", runs, "n0"), 1); /* the first task of that queue */
    assert_int_equal(all_lease(c, "other", runs + 5, ""), 0);
    for (int i = 0; i < 5; i++) {
        all_done(c, runs[i]);
    }
}

static void each_key_is_counted_in_all_queues(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_KEY, "*", "1");
    all_set(c, QUERN_LIMIT_KEY, "big", "3");
    all_put(c, "default", "d0", "t", "acme");
    all_put(c, "default", "d1", "t", "big");
    all_put(c, "default", "d2", "t", "big");
    all_put(c, "other", "o0", "t", "acme");
    all_put(c, "other", "o1", "t", "big");
    all_put(c, "other", "o2", "t", "big");
    all_put(c, "other", "o3", "t", NULL);
    assert_int_equal(all_lease(c, "default", runs, "d0 d1 d2"), 3);
    assert_int_equal(all_lease(c, "other", runs + 3, "o1 o3"), 2);
    all_assert_listed(c, NULL, "{all}/3/* 0/1;{all}/3/big 3/3;");
    all_done(c, runs[0]);
    assert_int_equal(all_lease(c, "other", runs, "o0"), 1);
    for (int i = 0; i < 5; i++) {
        all_done(c, runs[i]);
    }
}

/* Weighted, then in their order. */
static void one_lease_counts_a_type_over_its_queues(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_TYPE, "*", "3");
    contract_put_many(c, "default", "d", 4);
    contract_put_many(c, "other", "o", 4);
    for (int strict = 0; strict < 2; strict++) {
        struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 4},
                                          {.name = "other", .weight = 1, .quota = 4}};
        struct qn_exchange exchange = {.queues = shares,
                                       .queue_count = 2,
                                       .strict = strict != 0,
                                       .room = 8,
                                       .start_count_now = 8};
        assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 3);
        for (int i = 0; i < 3; i++) {
            all_done(c, runs[i]);
        }
    }
}

/* What began before the limit was set counts, too. */
static void runs_of_all_queues_count_when_a_type_gets_its_limit(struct contract *c)
{
    struct qn_leased *runs[8];
    contract_put_many(c, "default", "d", 3);
    contract_put_many(c, "other", "o", 3);
    assert_int_equal(contract_lease(c, "default", 2, runs), 2);
    all_set(c, QUERN_LIMIT_TYPE, "t", "3");
    assert_int_equal(all_lease(c, "other", runs + 2, "o0000"), 1);
    assert_int_equal(all_lease(c, "default", runs + 3, ""), 0);
    all_assert_listed(c, NULL, "{all}/2/t 3/3;");
    assert_int_equal(all_remove(c, QUERN_LIMIT_TYPE, "t"), QUERN_OK);
    all_assert_listed(c, NULL, "");
    assert_int_equal(all_lease(c, "default", runs + 3, "d0002"), 1);
    assert_int_equal(all_lease(c, "other", runs + 4, "o0001 o0002"), 2);
    for (int i = 0; i < 6; i++) {
        all_done(c, runs[i]);
    }
}

static void limit_of_a_type_holds_beside_that_of_its_queue(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_TYPE, "t", "3");
    assert_int_equal(contract_try_limit(c, "default", QUERN_LIMIT_TYPE, "t", "1"), QUERN_OK);
    contract_put_many(c, "default", "d", 3);
    contract_put_many(c, "other", "o", 3);
    assert_int_equal(all_lease(c, "default", runs, "d0000"), 1);
    assert_int_equal(all_lease(c, "other", runs + 1, "o0000 o0001"), 2);
    all_done(c, runs[0]);
    assert_int_equal(all_lease(c, "other", runs, "o0002"), 1);
    all_done(c, runs[1]);
    assert_int_equal(all_lease(c, "default", runs + 1, "d0001"), 1);
    all_done(c, runs[0]);
    assert_int_equal(all_lease(c, "default", runs, ""), 0);
    all_done(c, runs[1]);
    all_done(c, runs[2]);
}

static void queue_whose_first_tasks_have_a_key_is_bound_too(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_KEY, "k", "1");
    all_put(c, "default", "a", "t", "k");
    assert_int_equal(all_lease(c, "default", runs, "a"), 1);
    all_put(c, "new", "b", "t", "k");
    all_put(c, "new", "c", "t", "free");
    assert_int_equal(all_lease(c, "new", runs + 1, "c"), 1);
    all_done(c, runs[0]);
    assert_int_equal(all_lease(c, "new", runs, "b"), 1);
    all_put(c, "default", "d", "t", "k");
    assert_int_equal(all_lease(c, "default", runs + 2, ""), 0);
    all_done(c, runs[0]);
    all_done(c, runs[1]);
}

static void place_of_a_key_that_a_dead_worker_had_comes_back(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true, .is_ahead = true};
    struct qn_leased *runs[8];
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    contract_heartbeat_as(c->broker, &dead);
    all_set(c, QUERN_LIMIT_KEY, "*", "1");
    all_put(c, "default", "a", "t", "k");
    all_put(c, "other", "b", "t", "k");
    assert_int_equal(contract_lease_as(c, &dead, "default", 4, runs), 1);
    assert_int_equal(all_lease(c, "other", runs + 1, ""), 0);
    assert_int_equal(contract_recover(c, "default"), 1);
    assert_int_equal(all_lease(c, "other", runs + 1, "b"), 1);
    qn_leased_free(runs[0]);
    all_done(c, runs[1]);
}

static void end_of_a_run_is_noticed_where_its_key_waits_in_another_queue(struct contract *c)
{
    all_set(c, QUERN_LIMIT_KEY, "*", "1");
    all_assert_end_is_noticed(c);
}

static void starts_of_a_type_share_a_window_and_those_of_a_key_a_bucket(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_TYPE, "t", "3/1m");
    all_set(c, QUERN_LIMIT_KEY, "*", "1/1m burst 2");
    all_put(c, "default", "d0", "t", NULL);
    all_put(c, "default", "d1", "any", "k");
    all_put(c, "other", "o0", "t", NULL);
    all_put(c, "other", "o1", "t", "k");
    all_put(c, "other", "o2", "t", NULL);
    all_put(c, "other", "o3", "any", "k");
    assert_int_equal(all_lease(c, "default", runs, "d1 d0"), 2);
    assert_int_equal(all_lease(c, "other", runs + 2, "o1 o0"), 2);
    assert_true(c->wait_ms > 58000 && c->wait_ms < 62000);
    all_assert_listed(c, NULL, "{all}/2/t 3/3;{all}/3/* 0/1;");
    for (int i = 0; i < 4; i++) {
        all_done(c, runs[i]);
    }
    all_put(c, "new", "n0", "t", NULL);
    all_put(c, "new", "n1", "any", "k");
    all_put(c, "new", "n2", "any", "another");
    assert_int_equal(all_lease(c, "new", runs, "n2"), 1);
    contract_advance(c, 62000);
    assert_int_equal(all_lease(c, "new", runs + 1, "n1 n0"), 2);
    assert_int_equal(all_lease(c, "other", runs + 3, "o2"), 1);
    for (int i = 0; i < 4; i++) {
        all_done(c, runs[i]);
    }
}

static void run_of_a_key_that_did_not_start_returns_its_start(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_KEY, "k", "1/1h");
    all_put(c, "default", "a", "t", "k");
    all_put(c, "other", "b", "t", "k");
    struct qn_leased *run = contract_fetch(c, "default");
    assert_int_equal(all_lease(c, "other", runs, ""), 0);
    const struct qn_outcome given_back = {
        .run = run, .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK};
    assert_int_equal(contract_end(c, &given_back), QN_APPLIED);
    qn_leased_free(run);
    assert_int_equal(all_lease(c, "other", runs, "b"), 1);
    all_done(c, runs[0]);
    assert_int_equal(all_lease(c, "default", runs, ""), 0);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(type_is_counted_in_all_queues),
    CONTRACT_TEST(each_key_is_counted_in_all_queues),
    CONTRACT_TEST(one_lease_counts_a_type_over_its_queues),
    CONTRACT_TEST(runs_of_all_queues_count_when_a_type_gets_its_limit),
    CONTRACT_TEST(limit_of_a_type_holds_beside_that_of_its_queue),
    CONTRACT_TEST(queue_whose_first_tasks_have_a_key_is_bound_too),
    CONTRACT_TEST(place_of_a_key_that_a_dead_worker_had_comes_back),
    CONTRACT_TEST(end_of_a_run_is_noticed_where_its_key_waits_in_another_queue),
    CONTRACT_TEST(starts_of_a_type_share_a_window_and_those_of_a_key_a_bucket),
    CONTRACT_TEST(run_of_a_key_that_did_not_start_returns_its_start),
};

CONTRACT_MAIN(tests)
