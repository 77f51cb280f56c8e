/* SPDX-License-Identifier: MIT */
/* test_all_queues.c - limits of all queues together: how many tasks run at a time, and how many
 * start, whichever queue they are of. */
#include "lib_all_queues.h"

/* --- How many run ---------------------------------------------------------------------- */

static void tasks_of_all_queues_share_a_limit(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_QUEUE, "", "3");
    contract_put_many(c, "default", "d", 2);
    contract_put_many(c, "other", "o", 3);
    assert_int_equal(all_lease(c, "default", runs, "d0000 d0001"), 2);
    assert_int_equal(all_lease(c, "other", runs + 2, "o0000"), 1);
    assert_int_equal(all_lease(c, "other", runs + 3, ""), 0);
    all_assert_listed(c, NULL, "{all}/1/ 3/3;");
    all_done(c, runs[0]);
    assert_int_equal(all_lease(c, "other", runs, "o0001"), 1);
    assert_int_equal(all_lease(c, "other", runs + 3, ""), 0);
    all_done(c, runs[2]);
    assert_int_equal(all_lease(c, "other", runs + 2, "o0002"), 1);
    for (int i = 0; i < 3; i++) {
        all_done(c, runs[i]);
    }
    all_assert_listed(c, QUERN_ALL_QUEUES, "{all}/1/ 0/3;");
}

static void one_lease_from_several_queues_counts_them_together(struct contract *c)
{
    struct qn_leased *runs[8];
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 4},
                                      {.name = "other", .weight = 1, .quota = 4}};
    struct qn_exchange exchange = {
        .queues = shares, .queue_count = 2, .room = 8, .start_count_now = 8};
    all_set(c, QUERN_LIMIT_QUEUE, "", "5");
    contract_put_many(c, "default", "d", 4);
    contract_put_many(c, "other", "o", 4);
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 5);
    all_assert_listed(c, NULL, "{all}/1/ 5/5;");
    for (int i = 0; i < 5; i++) {
        all_done(c, runs[i]);
    }
}

static void queue_that_is_made_later_is_bound_too(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_QUEUE, "", "1");
    contract_put_many(c, "new1", "a", 2);
    assert_int_equal(all_lease(c, "new1", runs, "a0000"), 1);
    contract_put_many(c, "new2", "b", 2);
    assert_int_equal(all_lease(c, "new2", runs + 1, ""), 0);
    all_done(c, runs[0]);
    assert_int_equal(all_lease(c, "new2", runs, "b0000"), 1);
    assert_int_equal(all_lease(c, "new1", runs + 1, ""), 0);
    all_done(c, runs[0]);
}

static void limit_of_a_queue_holds_beside_that_of_all(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_QUEUE, "", "3");
    assert_int_equal(contract_try_limit(c, "default", QUERN_LIMIT_QUEUE, "", "2"), QUERN_OK);
    contract_put_many(c, "default", "d", 4);
    contract_put_many(c, "other", "o", 4);
    assert_int_equal(all_lease(c, "default", runs, "d0000 d0001"), 2);
    assert_int_equal(all_lease(c, "other", runs + 2, "o0000"), 1);
    all_assert_listed(c, NULL, "{all}/1/ 3/3;default/1/ 2/2;");
    all_assert_listed(c, "default", "default/1/ 2/2;");
    assert_int_equal(all_remove(c, QUERN_LIMIT_QUEUE, ""), QUERN_OK);
    assert_int_equal(all_remove(c, QUERN_LIMIT_QUEUE, ""), QUERN_E_NOT_FOUND);
    assert_int_equal(all_lease(c, "default", runs + 3, ""), 0);
    assert_int_equal(all_lease(c, "other", runs + 3, "o0001 o0002 o0003"), 3);
    for (int i = 0; i < 6; i++) {
        all_done(c, runs[i]);
    }
}

static void removal_names_its_queue(struct contract *c)
{
    const struct qn_limit_owner missing = {"missing", QUERN_LIMIT_QUEUE, ""};
    all_set(c, QUERN_LIMIT_QUEUE, "", "1");
    assert_int_equal(qn_broker_remove_limit(c->broker, &missing, NULL), QUERN_E_NOT_FOUND);
    all_assert_listed(c, NULL, "{all}/1/ 0/1;");
    all_assert_listed(c, "missing", "");
}

static void removed_queue_leaves_the_limit_of_all(struct contract *c)
{
    struct qn_leased *runs[8];
    quern_error err = {0};
    all_set(c, QUERN_LIMIT_QUEUE, "", "1");
    contract_put_many(c, "default", "a", 2);
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    contract_put_many(c, "default", "b", 2);
    assert_int_equal(all_lease(c, "default", runs, "b0000"), 1);
    all_done(c, runs[0]);
}

static void place_of_a_dead_worker_comes_back(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true, .is_ahead = true};
    struct qn_leased *runs[8];
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    contract_heartbeat_as(c->broker, &dead);
    all_set(c, QUERN_LIMIT_QUEUE, "", "1");
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
    assert_int_equal(contract_lease_as(c, &dead, "default", 4, runs), 1);
    assert_int_equal(all_lease(c, "other", runs + 1, ""), 0);
    assert_int_equal(contract_recover(c, "default"), 1);
    assert_int_equal(all_lease(c, "other", runs + 1, "b"), 1);
    qn_leased_free(runs[0]);
    all_done(c, runs[1]);
}

static void end_of_a_run_is_noticed_where_another_queue_waits_for_it(struct contract *c)
{
    all_set(c, QUERN_LIMIT_QUEUE, "", "1");
    all_assert_end_is_noticed(c);
}

/* --- How many start -------------------------------------------------------------------- */

static void starts_of_all_queues_share_a_window(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_QUEUE, "", "3/1m");
    contract_put_many(c, "default", "d", 2);
    contract_put_many(c, "other", "o", 3);
    assert_int_equal(all_lease(c, "default", runs, "d0000 d0001"), 2);
    assert_int_equal(all_lease(c, "other", runs + 2, "o0000"), 1);
    assert_true(c->wait_ms > 59000 && c->wait_ms < 62000);
    for (int i = 0; i < 3; i++) {
        all_done(c, runs[i]);
    }
    assert_int_equal(all_lease(c, "other", runs, ""), 0);
    all_assert_listed(c, NULL, "{all}/1/ 3/3;");
    contract_advance(c, 62000);
    assert_int_equal(all_lease(c, "other", runs, "o0001 o0002"), 2);
    all_done(c, runs[0]);
    all_done(c, runs[1]);
}

static void one_lease_counts_the_starts_of_its_queues_together(struct contract *c)
{
    struct qn_leased *runs[8];
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 4},
                                      {.name = "other", .weight = 1, .quota = 4}};
    struct qn_exchange exchange = {
        .queues = shares, .queue_count = 2, .room = 8, .start_count_now = 8};
    all_set(c, QUERN_LIMIT_QUEUE, "", "5/1m");
    contract_put_many(c, "default", "d", 4);
    contract_put_many(c, "other", "o", 4);
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 5);
    all_assert_listed(c, NULL, "{all}/1/ 5/5;");
    for (int i = 0; i < 5; i++) {
        all_done(c, runs[i]);
    }
}

static void run_that_did_not_start_returns_its_start(struct contract *c)
{
    struct qn_leased *runs[8];
    all_set(c, QUERN_LIMIT_QUEUE, "", "1/1h");
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
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
    CONTRACT_TEST(tasks_of_all_queues_share_a_limit),
    CONTRACT_TEST(one_lease_from_several_queues_counts_them_together),
    CONTRACT_TEST(queue_that_is_made_later_is_bound_too),
    CONTRACT_TEST(limit_of_a_queue_holds_beside_that_of_all),
    CONTRACT_TEST(removal_names_its_queue),
    CONTRACT_TEST(removed_queue_leaves_the_limit_of_all),
    CONTRACT_TEST(place_of_a_dead_worker_comes_back),
    CONTRACT_TEST(end_of_a_run_is_noticed_where_another_queue_waits_for_it),
    CONTRACT_TEST(starts_of_all_queues_share_a_window),
    CONTRACT_TEST(one_lease_counts_the_starts_of_its_queues_together),
    CONTRACT_TEST(run_that_did_not_start_returns_its_start),
};

CONTRACT_MAIN(tests)
