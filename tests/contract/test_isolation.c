/* SPDX-License-Identifier: MIT */
/* test_isolation.c - tasks that saw their worker die come back in ever less company, and alone in
 * the end, by the solo lock of their queue; the others neither wait for them nor run with them. */
#include "lib_contract.h"

#include <string.h>

#define SLOTS 8 /* of the worker; so 4, 2 and 1 */
#define SOLO 3  /* so often charged a task runs alone there */

struct want {
    const char *queue; /* NULL: "default" */
    uint32_t room;
    uint32_t started; /* 0: as many as room */
    uint32_t slots;   /* 0: SLOTS */
    uint32_t held[QN_ALONE_CHARGES - 1];
    const char *worker_id; /* NULL: CONTRACT_WORKER */
    enum qn_solo solo;
};

struct got {
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t count;
    bool locked; /* the solo lock is the worker's */
};

static struct got lease(struct contract *c, const struct want *want)
{
    struct got got = {0};
    struct qn_queue_turn turn = {
        .name = want->queue != NULL ? want->queue : "default", .weight = 1, .quota = want->room};
    struct qn_exchange exchange = {.queues = &turn,
                                   .queue_count = 1,
                                   .worker_id = want->worker_id,
                                   .room = want->room,
                                   .start_count_now =
                                       want->started > 0 ? want->started : want->room,
                                   .isolation.slots = want->slots > 0 ? want->slots : SLOTS,
                                   .solo = want->solo};
    memcpy(exchange.isolation.held, want->held, sizeof want->held);
    got.count = contract_exchange(c, &exchange, NULL, got.runs);
    assert_int_equal(turn.leased, got.count);
    got.locked =
        want->solo != QN_SOLO_NONE && want->solo != QN_SOLO_END && exchange.solo_queue == 0;
    return got;
}

static void give_back(struct contract *c, const struct got *got)
{
    for (size_t i = 0; i < got->count; i++) {
        contract_finish(c, got->runs[i], QN_GIVE_BACK);
    }
}

static void assert_runs(const struct got *got, const char *const *ids, size_t count)
{
    assert_int_equal(got->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(got->runs[i]->task.id, ids[i]);
    }
}

/* Leaves tasks "PREFIX0000".. pending that are charged so often, by workers that died with all of
 * them and "mate", so that no death is a lone one. */
static void charge(struct contract *c, const char *queue, const char *prefix, size_t count,
                   int64_t charges)
{
    const struct contract_worker dead = {.id = "doomed", .is_dead = true};
    struct qn_leased *runs[QN_BATCH_MAX];
    quern_error err = {0};
    contract_put_many(c, queue, prefix, count);
    contract_put(c, queue, "mate");
    for (int64_t i = 0; i < charges; i++) {
        contract_announce_as(c->broker, &dead);
        assert_int_equal(contract_lease_as(c, &dead, queue, (uint32_t)count + 1, runs), count + 1);
        for (size_t k = 0; k <= count; k++) {
            qn_leased_free(runs[k]);
        }
        assert_int_equal(contract_recover(c, queue), count + 1);
        contract_advance(c, QN_CHARGED_WAIT_MS);
        (void)contract_forward(c, queue, NULL);
    }
    assert_ok(qn_broker_act(c->broker, QUERN_ACTION_DELETE, queue, "mate", &err), err);
}

/* --- Company --------------------------------------------------------------------------- */

static void charged_tasks_are_leased_while_there_is_room_for_them(struct contract *c)
{
    charge(c, "default", "once", 6, 1);
    struct got got = lease(c, &(struct want){.room = 8});
    assert_int_equal(got.count, SLOTS / 2);
    give_back(c, &got);
    got = lease(c, &(struct want){.room = 8, .held = {3, 0, 0}});
    assert_int_equal(got.count, 1);
    give_back(c, &got);
    got = lease(c, &(struct want){.room = 8, .held = {4, 0, 0}});
    assert_int_equal(got.count, 0);
    got = lease(c, &(struct want){.room = 8, .slots = 1});
    assert_int_equal(got.count, 6);
    give_back(c, &got);
}

static void task_charged_twice_counts_among_those_charged_once(struct contract *c)
{
    charge(c, "default", "twice", 3, 2);
    struct got got = lease(c, &(struct want){.room = 8});
    assert_int_equal(got.count, SLOTS / 4);
    give_back(c, &got);
    got = lease(c, &(struct want){.room = 8, .held = {3, 0, 0}});
    assert_int_equal(got.count, 1);
    assert_int_equal(got.runs[0]->crash_count, 2);
    give_back(c, &got);
    charge(c, "other", "once", 3, 1);
    struct got other = lease(c, &(struct want){.queue = "other", .room = 8, .held = {2, 2, 0}});
    assert_int_equal(other.count, 2);
    give_back(c, &other);
}

static void charged_tasks_without_room_are_overtaken(struct contract *c)
{
    const char *const good[] = {"x0000", "x0001", "x0002"};
    charge(c, "default", "alone", 2, SOLO);
    struct got alone = lease(c, &(struct want){.room = 2, .slots = 1});
    charge(c, "default", "once", 3, 1);
    give_back(c, &alone);
    contract_put_many(c, "default", "x", 3);
    struct got got = lease(c, &(struct want){.room = 8, .held = {4, 0, 0}});
    assert_runs(&got, good, TEST_COUNT(good));
    give_back(c, &got);
}

static void charged_tasks_with_room_keep_their_places(struct contract *c)
{
    const char *const order[] = {"s0000", "s0001", "x0000", "t0000", "y0000"};
    charge(c, "default", "s", 2, 1);
    contract_put(c, "default", "x0000");
    contract_put(c, "default", "t0000");
    struct got got = lease(c, &(struct want){.room = 8});
    assert_int_equal(got.count, 4);
    assert_string_equal(got.runs[3]->task.id, "t0000");
    assert_int_equal(contract_die(c, got.runs[3]), QN_APPLIED);
    got.count = 3;
    give_back(c, &got);
    contract_put(c, "default", "y0000");
    got = lease(c, &(struct want){.room = 8});
    assert_runs(&got, order, TEST_COUNT(order));
    give_back(c, &got);
}

static void many_charged_tasks_hide_no_other(struct contract *c)
{
    const char *const good[] = {"x0000", "x0001"};
    charge(c, "default", "s", QN_BATCH_MAX - 1, 1);
    contract_put_many(c, "default", "x", 2);
    struct got got = lease(c, &(struct want){.room = 2, .held = {4, 0, 0}});
    assert_runs(&got, good, TEST_COUNT(good));
    give_back(c, &got);
}

static void charged_tasks_are_leased_only_to_be_started_at_once(struct contract *c)
{
    charge(c, "default", "s", 3, 1);
    contract_put_many(c, "default", "x", 3);
    struct got got = lease(c, &(struct want){.room = 4, .started = 2});
    const char *const order[] = {"s0000", "s0001", "x0000", "x0001"};
    assert_runs(&got, order, TEST_COUNT(order));
    assert_true(got.runs[0]->started);
    assert_true(got.runs[1]->started);
    assert_false(got.runs[2]->started);
    give_back(c, &got);
}

static void charged_run_is_started_before_those_that_stand_before_it(struct contract *c)
{
    contract_put(c, "default", "x0000");
    struct qn_leased *first = contract_take_id(c, "default", "x0000");
    charge(c, "default", "s", 1, 1);
    contract_finish(c, first, QN_GIVE_BACK);
    struct got got = lease(c, &(struct want){.room = 2, .started = 1});
    const char *const order[] = {"x0000", "s0000"};
    assert_runs(&got, order, TEST_COUNT(order));
    assert_false(got.runs[0]->started);
    assert_true(got.runs[1]->started);
    give_back(c, &got);
}

static void late_charged_task_takes_no_room(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .queue = "default",
                                      .id = "late",
                                      .deadline_at_ms = CONTRACT_NOW_MS + 1000});
    contract_die(c, contract_take_id(c, "default", "late"));
    contract_advance(c, 1000);
    charge(c, "default", "s", 1, 1);
    struct got got = lease(c, &(struct want){.room = 8, .held = {3, 0, 0}});
    const char *const order[] = {"s0000"};
    assert_runs(&got, order, TEST_COUNT(order));
    give_back(c, &got);
    assert_int_equal(contract_state(c, "default", "late"), QUERN_TASK_ARCHIVED);
}

/* --- Alone ------------------------------------------------------------------------------ */

static void task_that_must_be_alone_is_not_leased_in_company(struct contract *c)
{
    charge(c, "default", "alone", 1, SOLO);
    contract_put(c, "default", "x0000");
    struct got got = lease(c, &(struct want){.room = 8});
    assert_int_equal(got.count, 1);
    assert_string_equal(got.runs[0]->task.id, "x0000");
    give_back(c, &got);
    got = lease(c, &(struct want){.room = 8, .slots = 1});
    assert_int_equal(got.count, 2);
    give_back(c, &got);
}

static void asking_takes_the_lock_and_leases_nothing(struct contract *c)
{
    charge(c, "default", "alone", 2, SOLO);
    contract_put(c, "default", "x0000");
    struct got got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_ASK});
    assert_true(got.locked);
    assert_int_equal(got.count, 0);
    got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_KEEP});
    assert_true(got.locked);
    assert_int_equal(got.count, 0);
    got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_RUN});
    assert_true(got.locked);
    const char *const alone[] = {"alone0000"};
    assert_runs(&got, alone, TEST_COUNT(alone));
    assert_true(got.runs[0]->started);
    assert_int_equal(got.runs[0]->crash_count, SOLO);
    contract_finish(c, got.runs[0], QN_DONE);
}

static void asking_where_nothing_must_be_alone_leases_as_usual(struct contract *c)
{
    charge(c, "default", "s", 1, 1);
    contract_put(c, "default", "x0000");
    struct got got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_ASK});
    assert_false(got.locked);
    assert_int_equal(got.count, 2);
    give_back(c, &got);
}

static void running_takes_the_one_that_stands_first(struct contract *c)
{
    charge(c, "default", "alone", 3, SOLO + 2);
    struct got first = lease(c, &(struct want){.room = 3, .slots = 1});
    charge(c, "default", "later", 1, SOLO);
    give_back(c, &first);
    assert_true(lease(c, &(struct want){.solo = QN_SOLO_ASK}).locked);
    struct got got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_RUN});
    assert_int_equal(got.count, 1);
    assert_string_equal(got.runs[0]->task.id, "alone0000");
    give_back(c, &got);
}

static void one_worker_at_a_time_has_the_lock(struct contract *c)
{
    contract_announce(c->broker, "worker-2");
    charge(c, "default", "alone", 2, SOLO);
    assert_true(lease(c, &(struct want){.solo = QN_SOLO_ASK}).locked);
    contract_put(c, "default", "x0000");
    struct got got =
        lease(c, &(struct want){.room = 8, .solo = QN_SOLO_ASK, .worker_id = "worker-2"});
    assert_false(got.locked);
    assert_int_equal(got.count, 1);
    give_back(c, &got);
    got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_RUN, .worker_id = "worker-2"});
    assert_false(got.locked);
    assert_int_equal(got.count, 0);
}

static void worker_that_is_silent_for_a_minute_loses_the_lock(struct contract *c)
{
    const struct want other = {.solo = QN_SOLO_ASK, .worker_id = "worker-2"};
    contract_announce(c->broker, "worker-2");
    charge(c, "default", "alone", 2, SOLO);
    assert_true(lease(c, &(struct want){.solo = QN_SOLO_ASK}).locked);
    contract_advance(c, QN_SOLO_MS - 1);
    assert_true(lease(c, &(struct want){.solo = QN_SOLO_KEEP}).locked);
    contract_advance(c, QN_SOLO_MS - 1);
    assert_false(lease(c, &other).locked);
    contract_advance(c, 1);
    assert_true(lease(c, &other).locked);
    assert_false(lease(c, &(struct want){.solo = QN_SOLO_KEEP}).locked);
    struct got got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_RUN});
    assert_int_equal(got.count, 0);
}

static void queue_rests_as_long_as_its_lock_was_held(struct contract *c)
{
    const struct want ask = {.room = 8, .solo = QN_SOLO_ASK};
    charge(c, "default", "alone", 2, SOLO);
    assert_true(lease(c, &ask).locked);
    contract_advance(c, 3000);
    contract_put(c, "default", "x0000");
    struct got got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_END});
    assert_int_equal(got.count, 1);
    assert_int_equal(c->wait_ms, 3000);
    give_back(c, &got);
    contract_advance(c, 2999);
    got = lease(c, &ask);
    assert_false(got.locked);
    assert_int_equal(got.count, 1);
    assert_int_equal(c->wait_ms, 1);
    give_back(c, &got);
    contract_advance(c, 1);
    assert_true(lease(c, &ask).locked);
}

/* Its next probe is due, but nobody may have it before the rest is over. */
static void braked_queue_whose_only_task_must_be_alone_waits_for_the_end_of_its_rest(
    struct contract *c)
{
    const struct want ask = {.room = 8, .solo = QN_SOLO_ASK};
    charge(c, "default", "alone", 1, SOLO);
    assert_true(lease(c, &ask).locked);
    contract_advance(c, 10000);
    (void)lease(c, &(struct want){.solo = QN_SOLO_END});
    contract_put_many(c, "default", "bad", QN_BRAKE_DEATHS);
    struct got got = lease(c, &(struct want){.room = QN_BRAKE_DEATHS});
    assert_int_equal(got.count, QN_BRAKE_DEATHS);
    for (size_t i = 0; i < got.count; i++) {
        quern_error err = {0};
        char id[32];
        (void)snprintf(id, sizeof id, "%s", got.runs[i]->task.id);
        contract_die(c, got.runs[i]);
        assert_ok(qn_broker_act(c->broker, QUERN_ACTION_DELETE, "default", id, &err), err);
    }
    assert_true(c->braked);
    assert_false(lease(c, &ask).locked);
    int64_t probe_ms = c->wait_ms;
    assert_in_range(probe_ms, 1, QN_BRAKE_MS_MIN);
    contract_advance(c, probe_ms);
    got = lease(c, &ask);
    assert_false(got.locked);
    assert_int_equal(got.count, 0);
    assert_int_equal(c->wait_ms, 10000 - probe_ms);
    contract_advance(c, c->wait_ms);
    assert_true(lease(c, &ask).locked);
    got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_RUN});
    assert_int_equal(got.count, 1);
    give_back(c, &got);
}

static void clock_that_went_back_ends_the_rest(struct contract *c)
{
    const struct want ask = {.solo = QN_SOLO_ASK};
    charge(c, "default", "alone", 1, SOLO);
    assert_true(lease(c, &ask).locked);
    contract_advance(c, 20000);
    (void)lease(c, &(struct want){.solo = QN_SOLO_END});
    assert_false(lease(c, &ask).locked);
    if (c->maker->has_clock) {
        contract_advance(c, 20000);
    } else {
        contract_jump(c, -21000);
    }
    assert_true(lease(c, &ask).locked);
}

static void paused_queue_has_no_lock_to_give(struct contract *c)
{
    quern_error err = {0};
    charge(c, "default", "alone", 1, SOLO);
    assert_ok(qn_broker_pause(c->broker, "default", true, &err), err);
    assert_false(lease(c, &(struct want){.solo = QN_SOLO_ASK}).locked);
    assert_ok(qn_broker_pause(c->broker, "default", false, &err), err);
    assert_true(lease(c, &(struct want){.solo = QN_SOLO_ASK}).locked);
    assert_ok(qn_broker_pause(c->broker, "default", true, &err), err);
    struct got got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_RUN});
    assert_true(got.locked);
    assert_int_equal(got.count, 0);
}

static void first_queue_that_needs_it_gives_the_lock(struct contract *c)
{
    charge(c, "other", "alone", 1, SOLO);
    struct qn_queue_turn turns[] = {{.name = "default", .weight = 1}, {.name = "other"}};
    struct qn_exchange exchange = {
        .queues = turns, .queue_count = 2, .isolation.slots = SLOTS, .solo = QN_SOLO_ASK};
    assert_int_equal(contract_exchange(c, &exchange, NULL, NULL), 0);
    assert_int_equal(exchange.solo_queue, 1);
}

static void replayed_request_for_the_lock_gets_the_same_answer(struct contract *c)
{
    struct qn_leased *run = NULL;
    struct qn_leased *again = NULL;
    charge(c, "default", "alone", 2, SOLO);
    struct qn_queue_turn turn = {.name = "default", .weight = 1};
    struct qn_exchange ask = {
        .queues = &turn, .queue_count = 1, .isolation.slots = SLOTS, .solo = QN_SOLO_ASK};
    assert_int_equal(contract_exchange(c, &ask, NULL, NULL), 0);
    assert_int_equal(ask.solo_queue, 0);
    ask.solo_queue = 0;
    assert_int_equal(contract_exchange(c, &ask, NULL, NULL), 0);
    assert_int_equal(ask.solo_queue, 0);
    struct qn_exchange request = {.queues = &turn,
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
    const struct want ask = {.solo = QN_SOLO_ASK};
    charge(c, "default", "alone", 2, SOLO);
    contract_announce_as(c->broker, &dead);
    assert_true(lease(c, &(struct want){.solo = QN_SOLO_ASK, .worker_id = "dead"}).locked);
    struct got got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_RUN, .worker_id = "dead"});
    assert_int_equal(got.count, 1);
    qn_leased_free(got.runs[0]);
    contract_advance(c, 2000);
    assert_int_equal(contract_recover(c, "default"), 1);
    assert_false(lease(c, &ask).locked);
    assert_int_equal(c->wait_ms, 2000 + QN_SOLO_DEATH_MS);
    contract_advance(c, 2000 + QN_SOLO_DEATH_MS);
    assert_true(lease(c, &ask).locked);
}

static void lock_of_a_worker_that_left_is_free(struct contract *c)
{
    quern_error err = {0};
    contract_announce(c->broker, "worker-2");
    charge(c, "default", "alone", 1, SOLO);
    assert_true(lease(c, &(struct want){.solo = QN_SOLO_ASK, .worker_id = "worker-2"}).locked);
    assert_ok(qn_broker_withdraw(c->broker, "worker-2", &err), err);
    contract_advance(c, 1);
    assert_true(lease(c, &(struct want){.solo = QN_SOLO_ASK}).locked);
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
        assert_ok(qn_broker_act(c->broker, QUERN_ACTION_DELETE, "default", id, &err), err);
    }
}

static void braked_queue_probes_what_must_be_alone_by_the_lock(struct contract *c)
{
    const struct want ask = {.room = 8, .solo = QN_SOLO_ASK};
    struct qn_leased *runs[2];
    charge(c, "default", "alone", 2, SOLO);
    assert_int_equal(contract_lease(c, "default", 2, runs), 2);
    brake(c);
    contract_finish(c, runs[0], QN_GIVE_BACK);
    contract_finish(c, runs[1], QN_GIVE_BACK);
    delete_bad(c);
    assert_false(lease(c, &ask).locked);
    contract_advance(c, QN_BRAKE_MS_MIN);
    struct got got = lease(c, &(struct want){.room = 8});
    assert_int_equal(got.count, 0);
    assert_true(lease(c, &ask).locked);
    got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_RUN});
    const char *const probe[] = {"alone0000"};
    assert_runs(&got, probe, TEST_COUNT(probe));
    assert_int_equal(lease(c, &(struct want){.room = 8, .solo = QN_SOLO_RUN}).count, 0);
    contract_finish(c, got.runs[0], QN_DONE);
    assert_false(c->braked);
}

static void braked_queue_with_another_probe_to_run_keeps_its_lock(struct contract *c)
{
    struct qn_leased *run = NULL;
    charge(c, "default", "alone", 1, SOLO);
    assert_int_equal(contract_lease(c, "default", 1, &run), 1);
    brake(c);
    contract_finish(c, run, QN_GIVE_BACK);
    delete_bad(c);
    contract_put(c, "default", "x0000");
    contract_advance(c, QN_BRAKE_MS_MIN);
    struct got got = lease(c, &(struct want){.room = 8, .solo = QN_SOLO_ASK});
    assert_false(got.locked);
    assert_int_equal(got.count, 1); /* the newest */
    give_back(c, &got);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(charged_tasks_are_leased_while_there_is_room_for_them),
    CONTRACT_TEST(task_charged_twice_counts_among_those_charged_once),
    CONTRACT_TEST(charged_tasks_without_room_are_overtaken),
    CONTRACT_TEST(charged_tasks_with_room_keep_their_places),
    CONTRACT_TEST(many_charged_tasks_hide_no_other),
    CONTRACT_TEST(charged_tasks_are_leased_only_to_be_started_at_once),
    CONTRACT_TEST(charged_run_is_started_before_those_that_stand_before_it),
    CONTRACT_TEST(late_charged_task_takes_no_room),
    CONTRACT_TEST(task_that_must_be_alone_is_not_leased_in_company),
    CONTRACT_TEST(asking_takes_the_lock_and_leases_nothing),
    CONTRACT_TEST(asking_where_nothing_must_be_alone_leases_as_usual),
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
