/* SPDX-License-Identifier: MIT */
/* test_tick.c - a tick is enqueued exactly once, together with its entry's new last tick: each
 * result of a tick, replays, and schedulers that are killed or stopped between any two steps. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib_schedule.h"
#include "lib_task.h"

#define T0 SCHEDULE_LAST_S

/* The first tick after T0, as a scheduler sends it that read the entry then. */
static struct qn_tick first_tick(uint64_t revision)
{
    return (struct qn_tick){.name = "e",
                            .revision = revision,
                            .known_s = T0,
                            .tick_s = T0 + 60,
                            .what = QN_TICK_ENQUEUE};
}

static uint64_t pending(struct contract *c)
{
    return contract_count(c, "default", QUERN_TASK_PENDING);
}

static void id_of(int64_t tick_s, char out[64])
{
    (void)snprintf(out, 64, "e@%" PRId64, tick_s);
}

static void assert_last(struct contract *c, int64_t last_s, uint64_t runs)
{
    struct schedule_view view = schedule_look(c, "e");
    assert_true(view.found);
    assert_int_equal(view.last_s, last_s);
    assert_int_equal(view.runs, runs);
}

/* --- Results ------------------------------------------------------------------------ */

static void due_tick_enqueues_its_task_and_advances_the_entry(struct contract *c)
{
    char id[64];
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICKED);
    assert_int_equal(tick.stored_s, T0 + 60);
    assert_last(c, T0 + 60, 1);
    id_of(T0 + 60, id);
    qn_leased_free(contract_take_id(c, "default", id));
}

static void tick_is_enqueued_once_however_often_it_is_sent(struct contract *c)
{
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICKED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_PAST);
        assert_int_equal(tick.stored_s, T0 + 60);
    }
    assert_int_equal(pending(c), 1);
    assert_last(c, T0 + 60, 1);
}

static void tick_that_is_not_after_the_last_one_is_past(struct contract *c)
{
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    tick.tick_s = T0;
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_PAST);
    tick.tick_s = T0 - 60;
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_PAST);
    tick = first_tick(tick.revision);
    tick.known_s = T0 - 60; /* an older copy of the entry */
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_PAST);
    assert_int_equal(tick.stored_s, T0);
    assert_int_equal(pending(c), 0);
    assert_last(c, T0, 0);
}

static void tick_ahead_of_the_clock_is_early_and_changes_nothing(struct contract *c)
{
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    tick.tick_s = SCHEDULE_NOW_S + 3600;
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_EARLY);
    assert_last(c, T0, 0);
    contract_advance(c, 3600 * 1000);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICKED);
    assert_int_equal(pending(c), 1);
}

static void tick_of_a_paused_changed_or_removed_entry_changes_nothing(struct contract *c)
{
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    uint64_t revision = 0;
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_OK);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_PAUSED);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_CATCH_UP), QUERN_OK);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_CHANGED);
    struct qn_schedule_entry entry = schedule_entry("e");
    entry.jitter_ms = 1000;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_ANY, &revision), QN_PUT_REPLACED);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_CHANGED);
    assert_int_equal(schedule_remove(c, "e"), QUERN_OK);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_GONE);
    /* A new one of this name is another entry. */
    assert_true(schedule_put(c, "e") != tick.revision);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_CHANGED);
    assert_int_equal(pending(c), 0);
}

static void tick_whose_id_is_taken_advances_and_is_logged(struct contract *c)
{
    char id[64];
    static struct schedule_events events;
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    id_of(T0 + 60, id);
    contract_put(c, "default", id);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICKED_CONFLICT);
    assert_last(c, T0 + 60, 0);
    assert_int_equal(pending(c), 1);
    schedule_history(c, "e", &events);
    assert_int_equal(events.count, 1);
    assert_int_equal(events.events[0].what, QN_TICK_CONFLICT);
    assert_string_equal(events.events[0].id, "");
}

static void tick_whose_lock_is_held_advances_and_is_logged(struct contract *c)
{
    static struct schedule_events events;
    quern_error err = {0};
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    for (int i = 0; i < 2; i++) {
        struct qn_task task = test_task(i == 0 ? "one" : "two");
        struct qn_ticks ticks = {.epoch = epoch, .ticks = &tick, .count = 1};
        task.unique_ms = 3600 * 1000;
        task.unique_key = "asynq:{default}:unique:t:e";
        tick.queue = "default";
        tick.task = &task;
        assert_ok(qn_schedule_tick(c->broker, &ticks, &err), err);
        assert_int_equal(tick.result, i == 0 ? QN_TICKED : QN_TICKED_DUPLICATE);
        tick.known_s = tick.tick_s;
        tick.tick_s += 60;
    }
    assert_int_equal(pending(c), 1);
    assert_last(c, T0 + 120, 1);
    schedule_history(c, "e", &events);
    assert_int_equal(events.events[0].what, QN_TICK_DUPLICATE);
}

static void skipped_and_vetoed_ticks_advance_without_a_task(struct contract *c)
{
    static struct schedule_events events;
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    tick.what = QN_TICK_SKIP;
    tick.skipped = 7;
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICKED);
    tick.what = QN_TICK_VETO;
    tick.skipped = 0;
    tick.known_s = T0 + 60;
    tick.tick_s = T0 + 120;
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICKED);
    assert_int_equal(pending(c), 0);
    assert_last(c, T0 + 120, 0);
    schedule_history(c, "e", &events);
    assert_int_equal(events.count, 2);
    assert_int_equal(events.events[0].what, QN_TICK_VETO);
    assert_int_equal(events.events[1].what, QN_TICK_SKIP);
    assert_int_equal(events.events[1].skipped, 7);
    assert_int_equal(events.events[1].tick_s, T0 + 60);
}

/* Missed ticks of one entry, and one of an entry that is gone, in one call. */
static void each_tick_of_a_call_has_its_own_result(struct contract *c)
{
    quern_error err = {0};
    struct qn_tick ticks[5];
    struct qn_task tasks[5];
    char ids[5][64];
    uint64_t revision = schedule_put(c, "e");
    struct qn_ticks call = {
        .epoch = schedule_take(c->broker, "a"), .ticks = ticks, .count = TEST_COUNT(ticks)};
    for (size_t i = 0; i < TEST_COUNT(ticks); i++) {
        int64_t tick_s = T0 + 60 * (int64_t)(i + 1);
        id_of(tick_s, ids[i]);
        tasks[i] = test_task(ids[i]);
        ticks[i] = first_tick(revision);
        ticks[i].queue = "default";
        ticks[i].known_s = tick_s - 60;
        ticks[i].tick_s = tick_s;
        ticks[i].what = QN_TICK_LATE;
        ticks[i].task = &tasks[i];
    }
    ticks[2].name = "none";
    assert_ok(qn_schedule_tick(c->broker, &call, &err), err);
    assert_int_equal(ticks[0].result, QN_TICKED);
    assert_int_equal(ticks[1].result, QN_TICKED);
    assert_int_equal(ticks[2].result, QN_TICK_GONE);
    assert_int_equal(ticks[3].result, QN_TICK_PAST);
    assert_int_equal(ticks[4].result, QN_TICK_PAST);
    assert_int_equal(ticks[4].stored_s, T0 + 120);
    assert_last(c, T0 + 120, 2);
    qn_leased_free(contract_take_id(c, "default", ids[0]));
    qn_leased_free(contract_take_id(c, "default", ids[1]));
    assert_null(contract_take(c, "default"));
}

static void tick_of_a_full_queue_is_sent_again(struct contract *c)
{
    const quern_queue_settings one = {.max_pending = 1};
    const quern_queue_settings two = {.max_pending = 2};
    quern_error err = {0};
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    contract_put(c, "default", "waits");
    assert_ok(qn_broker_set_queue(c->broker, "default", &one, &err), err);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICK_FULL);
    assert_last(c, T0, 0);
    struct qn_task task = test_task("by-hand");
    const struct qn_trigger trigger = {.name = "e", .task = &task};
    assert_int_equal(qn_schedule_trigger(c->broker, &trigger, NULL), QUERN_E_FULL);
    assert_int_equal(pending(c), 1);
    assert_ok(qn_broker_set_queue(c->broker, "default", &two, &err), err);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICKED);
    assert_last(c, T0 + 60, 1);
}

static void largest_call_is_one_step(struct contract *c)
{
    static struct qn_tick ticks[QN_BATCH_MAX];
    static struct qn_task tasks[QN_BATCH_MAX];
    static char ids[QN_BATCH_MAX][64];
    quern_error err = {0};
    uint64_t revision = schedule_put(c, "e");
    struct qn_ticks call = {.epoch = schedule_take(c->broker, "a"),
                            .stamp = {.session = 71, .sequence = 1},
                            .ticks = ticks,
                            .count = QN_BATCH_MAX};
    for (size_t i = 0; i < QN_BATCH_MAX; i++) {
        id_of(T0 + (int64_t)i + 1, ids[i]);
        tasks[i] = test_task(ids[i]);
        ticks[i] = first_tick(revision);
        ticks[i].queue = "default";
        ticks[i].known_s = T0 + (int64_t)i;
        ticks[i].tick_s = T0 + (int64_t)i + 1;
        ticks[i].task = &tasks[i];
    }
    for (int round = 0; round < 2; round++) {
        assert_ok(qn_schedule_tick(c->broker, &call, &err), err);
        for (size_t i = 0; i < QN_BATCH_MAX; i++) {
            assert_int_equal(ticks[i].result, QN_TICKED);
        }
    }
    assert_int_equal(pending(c), QN_BATCH_MAX);
    assert_last(c, T0 + QN_BATCH_MAX, QN_BATCH_MAX);
}

/* --- Replays and kills -------------------------------------------------------------- */

static void replayed_tick_gets_the_kept_answer(struct contract *c)
{
    char id[64];
    quern_error err = {0};
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    id_of(T0 + 60, id);
    struct qn_task task = test_task(id);
    struct qn_ticks call = {.epoch = schedule_take(c->broker, "a"),
                            .stamp = {.session = 70, .sequence = 3},
                            .ticks = &tick,
                            .count = 1};
    tick.queue = "default";
    tick.task = &task;
    assert_ok(qn_schedule_tick(c->broker, &call, &err), err);
    assert_int_equal(tick.result, QN_TICKED);
    contract_finish(c, contract_take_id(c, "default", id), QN_DONE);
    tick.result = 0;
    tick.stored_s = 0;
    assert_ok(qn_schedule_tick(c->broker, &call, &err), err);
    assert_int_equal(tick.result, QN_TICKED);
    assert_int_equal(tick.stored_s, T0 + 60);
    assert_null(contract_take(c, "default"));
    call.stamp.sequence = 4;
    assert_ok(qn_schedule_tick(c->broker, &call, &err), err);
    assert_int_equal(tick.result, QN_TICK_PAST);
}

/* Killed before it sent the tick, or between the claim and it: the next one finds it. */
static void leader_that_dies_before_a_tick_leaves_it_to_the_next(struct contract *c)
{
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    struct qn_broker *second = contract_open(c);
    uint64_t first_epoch = schedule_take(c->broker, "a");
    contract_advance(c, SCHEDULE_LEASE_MS + 1000);
    uint64_t epoch = schedule_take(second, "b");
    assert_true(epoch > first_epoch);
    tick.known_s = schedule_look(c, "e").last_s;
    assert_int_equal(schedule_send(second, epoch, &tick), QN_TICKED);
    assert_int_equal(pending(c), 1);
    qn_broker_close(second);
}

/* Killed after the script, before its reply: the next one may send the tick from an older copy. */
static void next_leader_with_an_old_copy_enqueues_nothing_twice(struct contract *c)
{
    char id[64];
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    struct qn_tick copy = tick;
    struct qn_broker *second = contract_open(c);
    assert_int_equal(schedule_send(c->broker, schedule_take(c->broker, "a"), &tick), QN_TICKED);
    id_of(T0 + 60, id);
    contract_finish(c, contract_take_id(c, "default", id), QN_DONE);
    contract_advance(c, SCHEDULE_LEASE_MS + 1000);
    assert_int_equal(schedule_send(second, schedule_take(second, "b"), &copy), QN_TICK_PAST);
    assert_int_equal(copy.stored_s, T0 + 60);
    assert_null(contract_take(c, "default"));
    qn_broker_close(second);
}

/* Stopped past its lease and continued in the middle of sending: the new one has claimed. */
static void late_leader_is_stale_after_the_claim(struct contract *c)
{
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    struct qn_broker *second = contract_open(c);
    uint64_t old = schedule_take(c->broker, "a");
    contract_advance(c, SCHEDULE_LEASE_MS + 1000);
    (void)schedule_take(second, "b");
    assert_int_equal(schedule_send(c->broker, old, &tick), QN_TICK_STALE);
    assert_int_equal(pending(c), 0);
    assert_last(c, T0, 0);
    assert_int_equal(qn_schedule_claim(c->broker, old, NULL), QUERN_E_STATE);
    qn_broker_close(second);
}

/* The new one has enqueued the tick, its task is done and deleted, and then the late one sends it:
 * neither its epoch nor the last tick lets it through. */
static void late_leader_enqueues_nothing_when_the_task_is_done_and_gone(struct contract *c)
{
    char id[64];
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    struct qn_tick late = tick;
    struct qn_broker *second = contract_open(c);
    uint64_t old = schedule_take(c->broker, "a");
    contract_advance(c, SCHEDULE_LEASE_MS + 1000);
    uint64_t epoch = schedule_take(second, "b");
    assert_int_equal(schedule_send(second, epoch, &tick), QN_TICKED);
    id_of(T0 + 60, id);
    contract_finish(c, contract_take_id(c, "default", id), QN_DONE);
    assert_int_equal(contract_state(c, "default", id), 0);
    assert_int_equal(schedule_send(c->broker, old, &late), QN_TICK_STALE);
    assert_int_equal(schedule_send(c->broker, epoch, &late), QN_TICK_PAST);
    assert_null(contract_take(c, "default"));
    assert_last(c, T0 + 60, 1);
    qn_broker_close(second);
}

/* A moved entry is added there, with its last tick, before it is removed here. */
static void moved_entry_keeps_its_last_tick(struct contract *c)
{
    quern_error err = {0};
    (void)schedule_put(c, "e");
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_OK);
    struct qn_schedule_entry entry = schedule_entry("e");
    entry.task.queue = "other";
    entry.last_s = schedule_look(c, "e").last_s;
    struct qn_put put = {.entry = &entry, .expected = QN_REVISION_NONE};
    assert_ok(qn_schedule_put(c->broker, &put, 1, &err), err);
    assert_int_equal(put.result, QN_PUT_ADDED);
    assert_int_equal(schedule_remove(c, "e"), QUERN_OK);
    struct qn_tick tick = {.queue = "other",
                           .name = "e",
                           .revision = put.revision,
                           .known_s = T0,
                           .tick_s = T0 + 60,
                           .what = QN_TICK_SKIP};
    struct qn_ticks call = {.epoch = schedule_take(c->broker, "a"), .ticks = &tick, .count = 1};
    assert_ok(qn_schedule_tick(c->broker, &call, &err), err);
    assert_int_equal(tick.result, QN_TICKED);
}

#define RIVALS 4
#define RIVAL_TICKS 40

/* A scheduler that believes to lead, and sends all ticks. */
struct rival {
    struct qn_broker *broker;
    uint64_t epoch;
    uint64_t revision;
    size_t enqueued;
    size_t past;
};

static void *send_all(void *user)
{
    struct rival *rival = user;
    for (int64_t i = 0; i < RIVAL_TICKS; i++) {
        char id[64];
        id_of(T0 + i + 1, id);
        struct qn_task task = test_task(id);
        struct qn_tick tick = {.queue = "default",
                               .name = "e",
                               .revision = rival->revision,
                               .known_s = T0 + i,
                               .tick_s = T0 + i + 1,
                               .what = QN_TICK_ENQUEUE,
                               .task = &task};
        struct qn_ticks call = {.epoch = rival->epoch, .ticks = &tick, .count = 1};
        if (qn_schedule_tick(rival->broker, &call, NULL) == QUERN_OK) {
            rival->enqueued += tick.result == QN_TICKED ? 1 : 0;
            rival->past += tick.result == QN_TICK_PAST ? 1 : 0;
        }
    }
    return NULL;
}

static void rivals_enqueue_each_tick_once(struct contract *c)
{
    struct rival rivals[RIVALS];
    pthread_t threads[RIVALS];
    size_t enqueued = 0;
    size_t past = 0;
    uint64_t revision = schedule_put(c, "e");
    uint64_t epoch = schedule_take(c->broker, "a");
    for (size_t i = 0; i < RIVALS; i++) {
        rivals[i] =
            (struct rival){.broker = contract_open(c), .epoch = epoch, .revision = revision};
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &rivals[i]), 0);
    }
    for (size_t i = 0; i < RIVALS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        qn_broker_close(rivals[i].broker);
        enqueued += rivals[i].enqueued;
        past += rivals[i].past;
    }
    assert_int_equal(enqueued, RIVAL_TICKS);
    assert_int_equal(past, (RIVALS - 1) * RIVAL_TICKS);
    assert_int_equal(pending(c), RIVAL_TICKS);
    assert_last(c, T0 + RIVAL_TICKS, RIVAL_TICKS);
}

static void tick_wakes_a_sleeping_worker(struct contract *c)
{
    const char *const queues[] = {"default"};
    struct qn_wakeup wakeup = {0};
    quern_error err = {0};
    bool work = true;
    int64_t next_due_at_ms = 0;
    struct qn_broker *sleeper = contract_open(c);
    struct qn_tick tick = first_tick(schedule_put(c, "e"));
    uint64_t epoch = schedule_take(c->broker, "a");
    assert_ok(qn_broker_arm(sleeper, (struct qn_names){queues, 1}, &work, &next_due_at_ms, &err),
              err);
    assert_false(work);
    assert_int_equal(schedule_send(c->broker, epoch, &tick), QN_TICKED);
    assert_ok(qn_broker_wait(sleeper, TEST_PATIENCE_MS, &wakeup, &err), err);
    assert_true(wakeup.work);
    qn_broker_close(sleeper);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(due_tick_enqueues_its_task_and_advances_the_entry),
    CONTRACT_TEST(tick_is_enqueued_once_however_often_it_is_sent),
    CONTRACT_TEST(tick_that_is_not_after_the_last_one_is_past),
    CONTRACT_TEST(tick_ahead_of_the_clock_is_early_and_changes_nothing),
    CONTRACT_TEST(tick_of_a_paused_changed_or_removed_entry_changes_nothing),
    CONTRACT_TEST(tick_whose_id_is_taken_advances_and_is_logged),
    CONTRACT_TEST(tick_whose_lock_is_held_advances_and_is_logged),
    CONTRACT_TEST(skipped_and_vetoed_ticks_advance_without_a_task),
    CONTRACT_TEST(each_tick_of_a_call_has_its_own_result),
    CONTRACT_TEST(tick_of_a_full_queue_is_sent_again),
    CONTRACT_TEST(largest_call_is_one_step),
    CONTRACT_TEST(replayed_tick_gets_the_kept_answer),
    CONTRACT_TEST(leader_that_dies_before_a_tick_leaves_it_to_the_next),
    CONTRACT_TEST(next_leader_with_an_old_copy_enqueues_nothing_twice),
    CONTRACT_TEST(late_leader_is_stale_after_the_claim),
    CONTRACT_TEST(late_leader_enqueues_nothing_when_the_task_is_done_and_gone),
    CONTRACT_TEST(rivals_enqueue_each_tick_once),
    CONTRACT_TEST(moved_entry_keeps_its_last_tick),
    CONTRACT_TEST(tick_wakes_a_sleeping_worker),
};
CONTRACT_MAIN(tests)
