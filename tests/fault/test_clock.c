/* SPDX-License-Identifier: MIT */
/* test_clock.c - a wall clock that jumps by an hour, back and forth, while a worker holds leases:
 * no lease is lost, no task is run twice, none is started early.
 *
 * The worker's clock is a turned one, so its leases pass only when the test says so. */
#include "lib_store.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "quern/quern.h"
#include "quern/testing.h"

#define HOUR_MS (3600 * INT64_C(1000))
#define NOW_MS INT64_C(1800000000000)

struct rig {
    struct test_store store;
    quern_clock *clock;
    quern_client *client;
    quern_mux *mux;
    quern_worker *worker;
    pthread_t thread;
    _Atomic int started;
    _Atomic int released;
    _Atomic int ended;
    _Atomic int cancelled;
};

static quern_outcome hold(quern_run *run, const quern_task *task, void *user)
{
    struct rig *rig = user;
    (void)task;
    atomic_fetch_add(&rig->started, 1);
    while (!atomic_load(&rig->released) && !quern_run_cancelled(run)) {
        test_pause_ms(1);
    }
    atomic_fetch_add(&rig->cancelled, quern_run_cancelled(run) ? 1 : 0);
    atomic_fetch_add(&rig->ended, 1);
    return QUERN_DONE;
}

static void *run_worker(void *argument)
{
    struct rig *rig = argument;
    quern_error err = {0};
    quern_status status = quern_worker_run(rig->worker, &err);
    if (status != QUERN_OK) {
        print_error("worker: %s\n", err.text);
    }
    return status == QUERN_OK ? rig : NULL;
}

static void rig_open(struct rig *rig)
{
    quern_error err = {0};
    *rig = (struct rig){0};
    test_store_open(&rig->store, NOW_MS);
    assert_ok(quern_clock_new(NOW_MS, &rig->clock, &err), err);
    const quern_client_options client_options = {.clock = rig->clock};
    const quern_worker_options worker_options = {.clock = rig->clock, .concurrency = 4};
    assert_ok(quern_client_open(rig->store.url, &client_options, &rig->client, &err), err);
    assert_ok(quern_mux_new(&rig->mux, &err), err);
    assert_ok(quern_mux_handle(rig->mux, "hold", hold, rig, NULL, &err), err);
    assert_ok(quern_worker_new(rig->store.url, rig->mux, &worker_options, &rig->worker, &err), err);
    assert_int_equal(pthread_create(&rig->thread, NULL, run_worker, rig), 0);
}

static void rig_close(struct rig *rig)
{
    void *fine = NULL;
    quern_worker_stop(rig->worker);
    assert_int_equal(pthread_join(rig->thread, &fine), 0);
    assert_non_null(fine);
    quern_worker_free(rig->worker);
    quern_mux_free(rig->mux);
    quern_client_free(rig->client);
    quern_clock_free(rig->clock);
    test_store_close(&rig->store);
}

static void pass_time(struct rig *rig, int64_t ms)
{
    quern_clock_advance(rig->clock, ms);
    test_store_advance(&rig->store, ms);
}

static void enqueue(struct rig *rig, const quern_task *task)
{
    quern_error err = {0};
    assert_ok(quern_client_enqueue(rig->client, task, NULL, &err), err);
}

static bool four_started(void *user)
{
    return atomic_load(&((struct rig *)user)->started) == 4;
}

static bool four_done(void *user)
{
    quern_worker_stats stats = {0};
    quern_worker_get_stats(((struct rig *)user)->worker, &stats);
    return stats.done == 4;
}

static void jumping_wall_clock_loses_no_lease(void **state)
{
    (void)state;
    struct rig rig;
    quern_worker_stats stats = {0};
    rig_open(&rig);
    for (int i = 0; i < 4; i++) {
        enqueue(&rig, &(quern_task){.type = "hold", .timeout_ms = QUERN_TIMEOUT_NEVER});
    }
    assert_true(test_until(four_started, &rig));
    for (int i = 0; i < 20; i++) {
        quern_clock_jump(rig.clock, i % 2 == 0 ? HOUR_MS : -HOUR_MS);
        /* A little time for the keeper to do something wrong in. */
        pass_time(&rig, 100);
        test_pause_ms(10);
    }
    assert_int_equal(atomic_load(&rig.ended), 0);
    atomic_store(&rig.released, 1);
    assert_true(test_until(four_done, &rig));
    quern_worker_get_stats(rig.worker, &stats);
    assert_int_equal(stats.lost_leases, 0);
    assert_int_equal(stats.stale, 0);
    assert_int_equal(stats.salvaged, 0);
    assert_int_equal(atomic_load(&rig.started), 4);
    assert_int_equal(atomic_load(&rig.cancelled), 0);
    rig_close(&rig);
}

static bool one_started(void *user)
{
    return atomic_load(&((struct rig *)user)->started) == 1;
}

static void wall_clock_decides_when_a_delayed_task_is_due(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    atomic_store(&rig.released, 1);
    enqueue(&rig, &(quern_task){.type = "hold", .delay_ms = HOUR_MS / 2});
    quern_clock_jump(rig.clock, -HOUR_MS);
    pass_time(&rig, HOUR_MS / 2);
    test_pause_ms(50);
    assert_int_equal(atomic_load(&rig.started), 0);
    quern_clock_jump(rig.clock, HOUR_MS);
    assert_true(test_until(one_started, &rig));
    rig_close(&rig);
}

static void clock_of_the_server_decides_when_a_delayed_task_is_due(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    atomic_store(&rig.released, 1);
    enqueue(&rig, &(quern_task){.type = "hold", .delay_ms = HOUR_MS / 2});
    quern_clock_jump(rig.clock, HOUR_MS);
    test_pause_ms(50);
    assert_int_equal(atomic_load(&rig.started), 0);
    quern_clock_jump(rig.clock, -2 * HOUR_MS);
    pass_time(&rig, HOUR_MS / 2);
    assert_true(test_until(one_started, &rig));
    rig_close(&rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(jumping_wall_clock_loses_no_lease),
    TEST_ONLY_OVER("sqlite", wall_clock_decides_when_a_delayed_task_is_due),
    TEST_ONLY_OVER("redis", clock_of_the_server_decides_when_a_delayed_task_is_due),
};
TEST_MAIN_OVER_BROKERS(tests)
