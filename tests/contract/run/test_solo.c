/* SPDX-License-Identifier: MIT */
/* test_solo.c - tasks that must run alone do so by the solo lock of their queue. */
#include "lib_isolation.h"

static void task_that_must_be_alone_is_not_leased_in_company(struct contract *c)
{
    isolation_charge(c, "default", "alone", 1, SOLO);
    contract_put(c, "default", "x0000");
    struct isolation_got got = isolation_lease(c, &(struct isolation_want){.room = 8});
    assert_int_equal(got.count, 1);
    assert_string_equal(got.runs[0]->task.id, "x0000");
    isolation_give_back(c, &got);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .slots = 1});
    assert_int_equal(got.count, 2);
    isolation_give_back(c, &got);
}

static void requesting_takes_the_lock_and_leases_nothing(struct contract *c)
{
    isolation_charge(c, "default", "alone", 2, SOLO);
    contract_put(c, "default", "x0000");
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_ASK});
    assert_true(got.locked);
    assert_int_equal(got.count, 0);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_KEEP});
    assert_true(got.locked);
    assert_int_equal(got.count, 0);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_RUN});
    assert_true(got.locked);
    const char *const alone[] = {"alone0000"};
    isolation_assert_runs(&got, alone, TEST_COUNT(alone));
    assert_true(got.runs[0]->started);
    assert_int_equal(got.runs[0]->crash_count, SOLO);
    contract_finish(c, got.runs[0], QN_DONE);
}

static void requesting_where_nothing_must_be_alone_leases_as_usual(struct contract *c)
{
    isolation_charge(c, "default", "s", 1, 1);
    contract_put(c, "default", "x0000");
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_ASK});
    assert_false(got.locked);
    assert_int_equal(got.count, 2);
    isolation_give_back(c, &got);
}

static void running_takes_the_one_that_stands_first(struct contract *c)
{
    isolation_charge(c, "default", "alone", 3, SOLO + 2);
    struct isolation_got first =
        isolation_lease(c, &(struct isolation_want){.room = 3, .slots = 1});
    isolation_charge(c, "default", "later", 1, SOLO);
    isolation_give_back(c, &first);
    assert_true(isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_ASK}).locked);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_RUN});
    assert_int_equal(got.count, 1);
    assert_string_equal(got.runs[0]->task.id, "alone0000");
    isolation_give_back(c, &got);
}

static void one_worker_at_a_time_has_the_lock(struct contract *c)
{
    contract_heartbeat(c->broker, "worker-2");
    isolation_charge(c, "default", "alone", 2, SOLO);
    assert_true(isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_ASK}).locked);
    contract_put(c, "default", "x0000");
    struct isolation_got got = isolation_lease(
        c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_ASK, .worker_id = "worker-2"});
    assert_false(got.locked);
    assert_int_equal(got.count, 1);
    isolation_give_back(c, &got);
    got = isolation_lease(
        c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_RUN, .worker_id = "worker-2"});
    assert_false(got.locked);
    assert_int_equal(got.count, 0);
}

static void worker_that_is_silent_for_a_minute_loses_the_lock(struct contract *c)
{
    const struct isolation_want other = {.solo = QN_SOLO_ASK, .worker_id = "worker-2"};
    contract_heartbeat(c->broker, "worker-2");
    isolation_charge(c, "default", "alone", 2, SOLO);
    assert_true(isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_ASK}).locked);
    contract_advance(c, QN_SOLO_MS - 1);
    assert_true(isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_KEEP}).locked);
    contract_advance(c, QN_SOLO_MS - 1);
    assert_false(isolation_lease(c, &other).locked);
    contract_advance(c, 1);
    assert_true(isolation_lease(c, &other).locked);
    assert_false(isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_KEEP}).locked);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_RUN});
    assert_int_equal(got.count, 0);
}

static void queue_rests_as_long_as_its_lock_was_held(struct contract *c)
{
    const struct isolation_want ask = {.room = 8, .solo = QN_SOLO_ASK};
    isolation_charge(c, "default", "alone", 2, SOLO);
    assert_true(isolation_lease(c, &ask).locked);
    contract_advance(c, 3000);
    contract_put(c, "default", "x0000");
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_END});
    assert_int_equal(got.count, 1);
    assert_int_equal(c->wait_ms, 3000);
    isolation_give_back(c, &got);
    contract_advance(c, 2999);
    got = isolation_lease(c, &ask);
    assert_false(got.locked);
    assert_int_equal(got.count, 1);
    assert_int_equal(c->wait_ms, 1);
    isolation_give_back(c, &got);
    contract_advance(c, 1);
    assert_true(isolation_lease(c, &ask).locked);
}

/* Its next probe is due, but no worker may lease it before the rest is over. */
static void braked_queue_whose_only_task_must_be_alone_waits_for_the_end_of_its_rest(
    struct contract *c)
{
    const struct isolation_want ask = {.room = 8, .solo = QN_SOLO_ASK};
    isolation_charge(c, "default", "alone", 1, SOLO);
    assert_true(isolation_lease(c, &ask).locked);
    contract_advance(c, 10000);
    (void)isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_END});
    contract_put_many(c, "default", "bad", QN_BRAKE_DEATHS);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = QN_BRAKE_DEATHS});
    assert_int_equal(got.count, QN_BRAKE_DEATHS);
    for (size_t i = 0; i < got.count; i++) {
        quern_error err = {0};
        char id[32];
        (void)snprintf(id, sizeof id, "%s", got.runs[i]->task.id);
        contract_die(c, got.runs[i]);
        assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", id, &err), err);
    }
    assert_true(c->braked);
    assert_false(isolation_lease(c, &ask).locked);
    int64_t probe_ms = c->wait_ms;
    assert_in_range(probe_ms, 1, QN_BRAKE_MS_MIN);
    contract_advance(c, probe_ms);
    got = isolation_lease(c, &ask);
    assert_false(got.locked);
    assert_int_equal(got.count, 0);
    assert_int_equal(c->wait_ms, 10000 - probe_ms);
    contract_advance(c, c->wait_ms);
    assert_true(isolation_lease(c, &ask).locked);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_RUN});
    assert_int_equal(got.count, 1);
    isolation_give_back(c, &got);
}

static void clock_that_went_back_ends_the_rest(struct contract *c)
{
    const struct isolation_want ask = {.solo = QN_SOLO_ASK};
    isolation_charge(c, "default", "alone", 1, SOLO);
    assert_true(isolation_lease(c, &ask).locked);
    contract_advance(c, 20000);
    (void)isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_END});
    assert_false(isolation_lease(c, &ask).locked);
    if (c->maker->has_clock) {
        contract_advance(c, 20000);
    } else {
        contract_jump(c, -21000);
    }
    assert_true(isolation_lease(c, &ask).locked);
}

static void paused_queue_has_no_lock_to_give(struct contract *c)
{
    quern_error err = {0};
    isolation_charge(c, "default", "alone", 1, SOLO);
    assert_ok(qn_broker_pause(c->broker, "default", true, &err), err);
    assert_false(isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_ASK}).locked);
    assert_ok(qn_broker_pause(c->broker, "default", false, &err), err);
    assert_true(isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_ASK}).locked);
    assert_ok(qn_broker_pause(c->broker, "default", true, &err), err);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_RUN});
    assert_true(got.locked);
    assert_int_equal(got.count, 0);
}

static void first_queue_that_needs_it_gives_the_lock(struct contract *c)
{
    isolation_charge(c, "other", "alone", 1, SOLO);
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1}, {.name = "other"}};
    /* On a cluster one queue is asked for it in each exchange, in turns. */
    int turns = test_store_is(&c->store, "cluster") ? 2 : 1;
    bool given = false;
    for (int i = 0; !given && i < turns; i++) {
        struct qn_exchange exchange = {
            .queues = shares, .queue_count = 2, .isolation.slots = SLOTS, .solo = QN_SOLO_ASK};
        assert_int_equal(contract_exchange(c, &exchange, NULL, NULL), 0);
        given = exchange.solo_queue == 1;
        assert_true(given || exchange.solo_queue == 2);
    }
    assert_true(given);
}

static void replayed_request_for_the_lock_gets_the_same_answer(struct contract *c)
{
    struct qn_leased *run = NULL;
    struct qn_leased *again = NULL;
    isolation_charge(c, "default", "alone", 2, SOLO);
    struct qn_queue_share share = {.name = "default", .weight = 1};
    struct qn_exchange ask = {
        .queues = &share, .queue_count = 1, .isolation.slots = SLOTS, .solo = QN_SOLO_ASK};
    assert_int_equal(contract_exchange(c, &ask, NULL, NULL), 0);
    assert_int_equal(ask.solo_queue, 0);
    ask.solo_queue = 0;
    assert_int_equal(contract_exchange(c, &ask, NULL, NULL), 0);
    assert_int_equal(ask.solo_queue, 0);
    struct qn_exchange request = {.queues = &share,
                                  .queue_count = 1,
                                  .room = 1,
                                  .start_count_now = 1,
                                  .isolation.slots = SLOTS,
                                  .solo = QN_SOLO_RUN};
    assert_int_equal(contract_exchange(c, &request, NULL, &run), 1);
    assert_int_equal(request.solo_queue, 0);
    assert_int_equal(contract_exchange(c, &request, NULL, &again), 1);
    assert_int_equal(request.solo_queue, 0);
    assert_string_equal(again->task.id, run->task.id);
    assert_int_equal(again->token, run->token);
    qn_leased_free(again);
    contract_finish(c, run, QN_DONE);
}

static void lock_of_a_dead_worker_is_free_after_a_rest(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true};
    const struct isolation_want ask = {.solo = QN_SOLO_ASK};
    isolation_charge(c, "default", "alone", 2, SOLO);
    contract_heartbeat_as(c->broker, &dead);
    assert_true(
        isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_ASK, .worker_id = "dead"})
            .locked);
    struct isolation_got got = isolation_lease(
        c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_RUN, .worker_id = "dead"});
    assert_int_equal(got.count, 1);
    qn_leased_free(got.runs[0]);
    contract_advance(c, 2000);
    assert_int_equal(contract_recover(c, "default"), 1);
    assert_false(isolation_lease(c, &ask).locked);
    assert_int_equal(c->wait_ms, 2000 + QN_SOLO_DEATH_MS);
    contract_advance(c, 2000 + QN_SOLO_DEATH_MS);
    assert_true(isolation_lease(c, &ask).locked);
}

static void lock_of_a_worker_that_left_is_free(struct contract *c)
{
    quern_error err = {0};
    contract_heartbeat(c->broker, "worker-2");
    isolation_charge(c, "default", "alone", 1, SOLO);
    assert_true(
        isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_ASK, .worker_id = "worker-2"})
            .locked);
    assert_ok(qn_broker_deregister(c->broker, "worker-2", &err), err);
    contract_advance(c, 1);
    assert_true(isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_ASK}).locked);
}

/* --- Alone and braked -------------------------------------------------------------------- */

static void brake(struct contract *c)
{
    struct qn_leased *runs[QN_BRAKE_DEATHS];
    contract_put_many(c, "default", "bad", QN_BRAKE_DEATHS);
    assert_int_equal(contract_lease(c, "default", QN_BRAKE_DEATHS, runs), QN_BRAKE_DEATHS);
    for (size_t i = 0; i < QN_BRAKE_DEATHS; i++) {
        contract_die(c, runs[i]);
    }
    assert_true(c->braked);
}

static void delete_bad(struct contract *c)
{
    quern_error err = {0};
    for (size_t i = 0; i < QN_BRAKE_DEATHS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "bad%04zu", i);
        assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", id, &err), err);
    }
}

static void braked_queue_probes_what_must_be_alone_by_the_lock(struct contract *c)
{
    const struct isolation_want ask = {.room = 8, .solo = QN_SOLO_ASK};
    struct qn_leased *runs[2];
    isolation_charge(c, "default", "alone", 2, SOLO);
    assert_int_equal(contract_lease(c, "default", 2, runs), 2);
    brake(c);
    contract_finish(c, runs[0], QN_GIVE_BACK);
    contract_finish(c, runs[1], QN_GIVE_BACK);
    delete_bad(c);
    assert_false(isolation_lease(c, &ask).locked);
    contract_advance(c, QN_BRAKE_MS_MIN);
    struct isolation_got got = isolation_lease(c, &(struct isolation_want){.room = 8});
    assert_int_equal(got.count, 0);
    assert_true(isolation_lease(c, &ask).locked);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_RUN});
    const char *const probe[] = {"alone0000"};
    isolation_assert_runs(&got, probe, TEST_COUNT(probe));
    assert_int_equal(
        isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_RUN}).count, 0);
    contract_finish(c, got.runs[0], QN_DONE);
    assert_false(c->braked);
}

static void braked_queue_with_another_probe_to_run_keeps_its_lock(struct contract *c)
{
    struct qn_leased *run = NULL;
    isolation_charge(c, "default", "alone", 1, SOLO);
    assert_int_equal(contract_lease(c, "default", 1, &run), 1);
    brake(c);
    contract_finish(c, run, QN_GIVE_BACK);
    delete_bad(c);
    contract_put(c, "default", "x0000");
    contract_advance(c, QN_BRAKE_MS_MIN);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 8, .solo = QN_SOLO_ASK});
    assert_false(got.locked);
    assert_int_equal(got.count, 1); /* the newest */
    isolation_give_back(c, &got);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(task_that_must_be_alone_is_not_leased_in_company),
    CONTRACT_TEST(requesting_takes_the_lock_and_leases_nothing),
    CONTRACT_TEST(requesting_where_nothing_must_be_alone_leases_as_usual),
    CONTRACT_TEST(running_takes_the_one_that_stands_first),
    CONTRACT_TEST(one_worker_at_a_time_has_the_lock),
    CONTRACT_TEST(worker_that_is_silent_for_a_minute_loses_the_lock),
    CONTRACT_TEST(queue_rests_as_long_as_its_lock_was_held),
    CONTRACT_TEST(braked_queue_whose_only_task_must_be_alone_waits_for_the_end_of_its_rest),
    CONTRACT_TEST(clock_that_went_back_ends_the_rest),
    CONTRACT_TEST(paused_queue_has_no_lock_to_give),
    CONTRACT_TEST(first_queue_that_needs_it_gives_the_lock),
    CONTRACT_TEST(replayed_request_for_the_lock_gets_the_same_answer),
    CONTRACT_TEST(lock_of_a_dead_worker_is_free_after_a_rest),
    CONTRACT_TEST(lock_of_a_worker_that_left_is_free),
    CONTRACT_TEST(braked_queue_probes_what_must_be_alone_by_the_lock),
    CONTRACT_TEST(braked_queue_with_another_probe_to_run_keeps_its_lock),
};
CONTRACT_MAIN(tests)
