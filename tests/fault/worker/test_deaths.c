/* SPDX-License-Identifier: MIT */
/* test_deaths.c - what a worker does with tasks that saw processes die: their company, the
 * one that runs alone, the brake of its host. That the broker judges rightly is shown by
 * tests/contract. */
#include "lib_worker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/owner.h"
#include "quern/inspector.h"
#include "task/limits.h"

static const char *const queue_name = "default";

/* Another worker, on another host; its process is dead. */
static void send_heartbeat(struct rig *rig)
{
    char owner[QN_OWNER_SIZE];
    quern_error error = {0};
    assert_ok(qn_owner_self(owner, &error), error);
    (void)snprintf(strrchr(owner, ':'), 3, ":1"); /* another start of this process */
    struct qn_queue_share queue = {.name = queue_name, .weight = 1};
    const struct qn_heartbeat heartbeat = {.worker_id = "other",
                                           .owner = owner,
                                           .host = "elsewhere",
                                           .status = "active",
                                           .queues = "default=1",
                                           .concurrency = QN_BATCH_MAX,
                                           .queue_shares = &queue,
                                           .queue_count = 1};
    assert_ok(qn_broker_heartbeat(rig->broker, &heartbeat, &error), error);
}

/* Leases all pending tasks for it. */
static size_t lease(struct rig *rig)
{
    static uint64_t session = 77;
    quern_error error = {0};
    struct qn_leased *runs[QN_BATCH_MAX];
    struct qn_queue_share queue = {.name = queue_name, .weight = 1, .quota = QN_BATCH_MAX};
    struct qn_exchange_reply reply = {.runs = runs};
    struct qn_exchange exchange = {.stamp = {.session = session++, .sequence = 1},
                                   .worker_id = "other",
                                   .host = "elsewhere",
                                   .lease_ms = QN_LEASE_MS,
                                   .queues = &queue,
                                   .queue_count = 1,
                                   .room = QN_BATCH_MAX,
                                   .start_count_now = QN_BATCH_MAX};
    assert_ok(qn_broker_exchange(rig->broker, &exchange, &reply, &error), error);
    for (size_t i = 0; i < reply.run_count; i++) {
        qn_leased_free(runs[i]);
    }
    return reply.run_count;
}

/* The other worker takes all pending tasks and dies with them, so many times. They lived for
 * life_ms each time. */
static void charge(struct rig *rig, int times, int64_t life_ms)
{
    const struct qn_upkeep upkeep = {{&queue_name, 1}, QN_BATCH_MAX};
    quern_error error = {0};
    for (int i = 0; i < times; i++) {
        size_t recovered = 0;
        send_heartbeat(rig);
        size_t count = lease(rig);
        assert_true(count > 0);
        rig_advance(rig, life_ms);
        send_heartbeat(rig);
        while (recovered < count) {
            size_t now = 0;
            assert_ok(qn_broker_recover(rig->broker, upkeep, NULL, &now, &error), error);
            recovered += now;
        }
        size_t moved = 0;
        int64_t next_due_at_ms = 0;
        rig_advance(rig, QN_CHARGED_WAIT_MS);
        assert_ok(qn_broker_forward(rig->broker, upkeep, &moved, &next_due_at_ms, &error), error);
    }
}

/* How many runs of charged tasks there are, how many of all, and the most there ever were. */
static _Atomic int charged_now;
static _Atomic int charged_max;
static _Atomic int all_now;
static _Atomic int all_beside_solo;

static void note_max(_Atomic int *most, int now)
{
    int before = atomic_load(most);
    while (now > before && !atomic_compare_exchange_weak(most, &before, now)) {
    }
}

static quern_outcome count_company(quern_run *run, const quern_task *task, quern_handler next,
                                   void *next_user, void *user)
{
    (void)user;
    bool is_charged = quern_run_crash_count(run) > 0;
    int all = atomic_fetch_add(&all_now, 1) + 1;
    if (is_charged) {
        note_max(&charged_max, atomic_fetch_add(&charged_now, 1) + 1);
    }
    if (quern_run_crash_count(run) >= QN_ALONE_CHARGES) {
        note_max(&all_beside_solo, all - 1);
    }
    quern_outcome outcome = next(run, task, next_user);
    if (is_charged) {
        atomic_fetch_sub(&charged_now, 1);
    }
    atomic_fetch_sub(&all_now, 1);
    return outcome;
}

/* Its clock is turned: tasks charged twice wait. */
static struct rig *rig_that_counts(void)
{
    struct rig *rig = rig_new(true);
    quern_error error = {0};
    assert_ok(quern_mux_use(rig->mux, count_company, NULL, &error), error);
    atomic_store(&charged_now, 0);
    atomic_store(&charged_max, 0);
    atomic_store(&all_now, 0);
    atomic_store(&all_beside_solo, 0);
    return rig;
}

static void charged_tasks_take_half_of_the_slots_and_others_overtake_them(void **state)
{
    (void)state;
    enum { SLOTS = 4, CHARGED = 6 };
    struct rig *rig = rig_that_counts();
    for (int i = 0; i < CHARGED; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "c%d", i);
        rig_put(rig, id, "hold");
    }
    charge(rig, 1, 5);
    rig_put(rig, "x0", "hold");
    rig_put(rig, "x1", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = SLOTS});
    rig_wait_starts(rig, SLOTS);
    assert_int_equal(atomic_load(&charged_now), SLOTS / 2);
    assert_int_equal(rig_state(rig, "x1"), QUERN_TASK_ACTIVE);
    rig_open_gate(rig);
    rig_wait_reports(rig, CHARGED + 2);
    assert_int_equal(atomic_load(&charged_max), SLOTS / 2);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_task_charged_often_runs_alone(void **state)
{
    (void)state;
    enum { OTHERS = 40 };
    struct rig *rig = rig_that_counts();
    rig_put(rig, "solo", "done");
    charge(rig, QN_ALONE_CHARGES, 5);
    rig_put_many(rig, NULL, "x", OTHERS);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_reports(rig, OTHERS + 1);
    assert_int_equal(atomic_load(&all_beside_solo), 0);
    assert_true(rig_logged(rig, "runs alone next\" queue=default"));
    rig_stop(&worker);
    rig_free(rig);
}

static void a_long_run_that_was_alone_gets_company_again(void **state)
{
    (void)state;
    struct rig *rig = rig_that_counts();
    rig_put(rig, "solo", "hold");
    charge(rig, QN_ALONE_CHARGES, 5);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    rig_put(rig, "x", "done");
    rig_wait_reports(rig, 1); /* while the other one still runs */
    assert_string_equal(rig_start_at(rig, 1).id, "x");
    assert_int_equal(rig_state(rig, "solo"), QUERN_TASK_ACTIVE);
    rig_open_gate(rig);
    rig_wait_reports(rig, 2);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_worker_that_drains_returns_the_solo_lock(void **state)
{
    (void)state;
    struct rig *rig = rig_that_counts();
    rig_put(rig, "solo", "wait");
    charge(rig, QN_ALONE_CHARGES, 3600000); /* no company for an hour */
    struct rig_worker first;
    rig_start(rig, &first, NULL);
    rig_wait_starts(rig, 1);
    quern_worker_stop(first.worker);
    quern_worker_stop(first.worker); /* cancels it: it goes back */
    rig_stop(&first);
    struct rig_worker second;
    rig_start(rig, &second, NULL);
    rig_advance(rig, 10000); /* it rests as long as the first worker had it */
    rig_wait_starts(rig, 2);
    assert_string_equal(rig_start_at(rig, 1).id, "solo");
    quern_worker_stop(second.worker);
    quern_worker_stop(second.worker);
    rig_stop(&second);
    rig_free(rig);
}

/* So many tasks that die, in a queue of their own, and a worker that has just met the brake. */
static void start_braked(struct rig *rig, struct rig_worker *worker, int count)
{
    static const quern_queue queues[] = {{.name = "bad"}, {.name = "default"}};
    quern_error error = {0};
    assert_ok(quern_mux_exec(rig->mux, "die", "kill -SEGV $$", NULL, &error), error);
    for (int i = 0; i < count; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "c%02d", i);
        rig_put_task(rig, &(quern_task){.id = id, .type = "die", .queue = "bad"});
    }
    rig_start(rig, worker,
              &(quern_worker_options){
                  .queues = queues, .queue_count = TEST_COUNT(queues), .concurrency = 2});
    rig_wait_log(rig, "runs keep dying on this host, one is tried at a time\" queue=bad");
}

static void a_braked_queue_is_tried_slowly_and_stops_no_other_queue(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    start_braked(rig, &worker, 40);
    uint64_t crashed = rig_stats(&worker).crashed;
    assert_true(crashed < 20);
    assert_true(rig_stats(&worker).ready);
    rig_put_many(rig, NULL, "x", 20);
    rig_wait_reports(rig, crashed + 20); /* there may be a probe among them */
    assert_true(rig_stats(&worker).crashed <= crashed + 3);
    assert_int_equal(rig_queue(rig, "bad").counts[QUERN_TASK_ARCHIVED], 0);
    assert_int_equal(rig_queue(rig, "bad").braked_hosts, 1);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_run_that_ends_well_releases_the_brake(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    start_braked(rig, &worker, 12);
    rig_put_task(rig, &(quern_task){.id = "good",
                                    .queue = "bad",
                                    .payload = "done",
                                    .payload_size = 4}); /* the newest is the next probe */
    rig_wait_log(rig, "runs no longer die on this host\" queue=bad");
    assert_int_equal(rig_state(rig, "good"), 0);
    rig_stop(&worker);
    rig_free(rig);
}

/* Its task is done for the broker before it starts. */
static void an_early_acked_run_releases_the_brake_when_it_has_ended(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    const quern_handler_options early = {.ack = QUERN_ACK_EARLY};
    assert_ok(quern_mux_handle(rig->mux, "early", rig_handler(), rig, &early, &error), error);
    struct rig_worker worker;
    start_braked(rig, &worker, 12);
    rig_put_task(
        rig,
        &(quern_task){
            .id = "good", .type = "early", .queue = "bad", .payload = "hold", .payload_size = 4});
    rig_wait_state(rig, "good", 0);
    assert_int_equal(rig_queue(rig, "bad").braked_hosts, 1); /* it may still die */
    rig_open_gate(rig);
    rig_wait_log(rig, "runs no longer die on this host\" queue=bad");
    rig_stop(&worker);
    rig_free(rig);
}

static int64_t cpu_ms(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* The next probe is due, but nothing may be fetched any more: that is no reason to look again and
 * again. */
static void a_quiet_worker_rests_also_when_its_brake_was_on(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    start_braked(rig, &worker, 20);
    quern_worker_quiet(worker.worker);
    test_pause_ms(QN_BRAKE_MS_MIN + 100);
    int64_t before_ms = cpu_ms();
    test_pause_ms(1000);
    assert_true(cpu_ms() - before_ms < 200);
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(charged_tasks_take_half_of_the_slots_and_others_overtake_them),
    cmocka_unit_test(a_task_charged_often_runs_alone),
    cmocka_unit_test(a_long_run_that_was_alone_gets_company_again),
    cmocka_unit_test(a_worker_that_drains_returns_the_solo_lock),
    cmocka_unit_test(a_braked_queue_is_tried_slowly_and_stops_no_other_queue),
    cmocka_unit_test(a_run_that_ends_well_releases_the_brake),
    cmocka_unit_test(an_early_acked_run_releases_the_brake_when_it_has_ended),
    cmocka_unit_test(a_quiet_worker_rests_also_when_its_brake_was_on),
};
TEST_MAIN_OVER_BROKERS(tests)
