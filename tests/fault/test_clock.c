/* SPDX-License-Identifier: MIT */
/* test_clock.c - a wall clock that jumps by an hour, back and forth, while a worker holds leases:
 * no lease is lost, no task is run twice, none is started early.
 *
 * The worker's clock is a turned one, so its leases pass only when the test says so. */
#include "lib_place.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "quern/quern.h"
#include "quern/testing.h"

#define HOUR_MS (3600 * INT64_C(1000))
#define NOW_MS INT64_C(1800000000000)

struct stage {
    struct test_place place;
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
    struct stage *stage = user;
    (void)task;
    atomic_fetch_add(&stage->started, 1);
    while (!atomic_load(&stage->released) && !quern_run_cancelled(run)) {
        test_pause_ms(1);
    }
    atomic_fetch_add(&stage->cancelled, quern_run_cancelled(run) ? 1 : 0);
    atomic_fetch_add(&stage->ended, 1);
    return QUERN_DONE;
}

static void *run_worker(void *argument)
{
    struct stage *stage = argument;
    quern_error err = {0};
    quern_status status = quern_worker_run(stage->worker, &err);
    if (status != QUERN_OK) {
        print_error("worker: %s\n", err.text);
    }
    return status == QUERN_OK ? stage : NULL;
}

static void stage_open(struct stage *stage)
{
    quern_error err = {0};
    *stage = (struct stage){0};
    test_place_open(&stage->place, NOW_MS);
    assert_ok(quern_clock_new(NOW_MS, &stage->clock, &err), err);
    const quern_client_options client_options = {.clock = stage->clock};
    const quern_worker_options worker_options = {.clock = stage->clock, .concurrency = 4};
    assert_ok(quern_client_open(stage->place.url, &client_options, &stage->client, &err), err);
    assert_ok(quern_mux_new(&stage->mux, &err), err);
    assert_ok(quern_mux_handle(stage->mux, "hold", hold, stage, NULL, &err), err);
    assert_ok(quern_worker_new(stage->place.url, stage->mux, &worker_options, &stage->worker, &err),
              err);
    assert_int_equal(pthread_create(&stage->thread, NULL, run_worker, stage), 0);
}

static void stage_close(struct stage *stage)
{
    void *fine = NULL;
    quern_worker_stop(stage->worker);
    assert_int_equal(pthread_join(stage->thread, &fine), 0);
    assert_non_null(fine);
    quern_worker_free(stage->worker);
    quern_mux_free(stage->mux);
    quern_client_free(stage->client);
    quern_clock_free(stage->clock);
    test_place_close(&stage->place);
}

static void pass_time(struct stage *stage, int64_t ms)
{
    quern_clock_advance(stage->clock, ms);
    test_place_advance(&stage->place, ms);
}

static void enqueue(struct stage *stage, const quern_task *task)
{
    quern_error err = {0};
    assert_ok(quern_client_enqueue(stage->client, task, NULL, &err), err);
}

static bool four_started(void *user)
{
    return atomic_load(&((struct stage *)user)->started) == 4;
}

static bool four_done(void *user)
{
    quern_worker_stats stats = {0};
    quern_worker_get_stats(((struct stage *)user)->worker, &stats);
    return stats.done == 4;
}

static void jumping_wall_clock_loses_no_lease(void **state)
{
    (void)state;
    struct stage stage;
    quern_worker_stats stats = {0};
    stage_open(&stage);
    for (int i = 0; i < 4; i++) {
        enqueue(&stage, &(quern_task){.type = "hold", .timeout_ms = QUERN_TIMEOUT_NEVER});
    }
    assert_true(test_until(four_started, &stage));
    for (int i = 0; i < 20; i++) {
        quern_clock_jump(stage.clock, i % 2 == 0 ? HOUR_MS : -HOUR_MS);
        /* A little time for the keeper to do something wrong in. */
        pass_time(&stage, 100);
        test_pause_ms(10);
    }
    assert_int_equal(atomic_load(&stage.ended), 0);
    atomic_store(&stage.released, 1);
    assert_true(test_until(four_done, &stage));
    quern_worker_get_stats(stage.worker, &stats);
    assert_int_equal(stats.lost_leases, 0);
    assert_int_equal(stats.stale, 0);
    assert_int_equal(stats.salvaged, 0);
    assert_int_equal(atomic_load(&stage.started), 4);
    assert_int_equal(atomic_load(&stage.cancelled), 0);
    stage_close(&stage);
}

static bool one_started(void *user)
{
    return atomic_load(&((struct stage *)user)->started) == 1;
}

static void wall_clock_decides_when_a_delayed_task_is_due(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage);
    atomic_store(&stage.released, 1);
    enqueue(&stage, &(quern_task){.type = "hold", .delay_ms = HOUR_MS / 2});
    quern_clock_jump(stage.clock, -HOUR_MS);
    pass_time(&stage, HOUR_MS / 2);
    test_pause_ms(50);
    assert_int_equal(atomic_load(&stage.started), 0);
    quern_clock_jump(stage.clock, HOUR_MS);
    assert_true(test_until(one_started, &stage));
    stage_close(&stage);
}

static void clock_of_the_server_decides_when_a_delayed_task_is_due(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage);
    atomic_store(&stage.released, 1);
    enqueue(&stage, &(quern_task){.type = "hold", .delay_ms = HOUR_MS / 2});
    quern_clock_jump(stage.clock, HOUR_MS);
    test_pause_ms(50);
    assert_int_equal(atomic_load(&stage.started), 0);
    quern_clock_jump(stage.clock, -2 * HOUR_MS);
    pass_time(&stage, HOUR_MS / 2);
    assert_true(test_until(one_started, &stage));
    stage_close(&stage);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(jumping_wall_clock_loses_no_lease),
    TEST_ONLY_OVER("sqlite", wall_clock_decides_when_a_delayed_task_is_due),
    TEST_ONLY_OVER("redis", clock_of_the_server_decides_when_a_delayed_task_is_due),
};
TEST_MAIN_OVER_BROKERS(tests)
