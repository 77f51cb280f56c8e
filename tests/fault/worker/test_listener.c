/* SPDX-License-Identifier: MIT */
/* test_listener.c - an idle worker hears at once of tasks and of its end. */
#include "lib_worker.h"

enum {
    ROUNDS = 100,
    ROUNDS_MS_MAX = ROUNDS * 200, /* the worker looks each second without being told */
    END_MS_MAX = 8000             /* nobody told, the listener would sleep for ten seconds */
};

/* Two that come to an idle worker so close together that the second is found by another look than
 * the one that began with the news of the first. */
static void no_task_has_to_wait_for_the_next_news(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    struct stage_worker worker;
    stage_start(stage, &worker, &(quern_worker_options){.concurrency = 4});
    int64_t begin_ns = qn_clock_mono_ns();
    for (size_t count = 2; count <= 2 * ROUNDS; count += 2) {
        stage_put(stage, NULL, "done");
        stage_put(stage, NULL, "done");
        stage_wait_reports(stage, count);
    }
    assert_true((qn_clock_mono_ns() - begin_ns) / 1000000 < ROUNDS_MS_MAX);
    stage_stop(&worker);
    stage_free(stage);
}

static void an_idle_worker_is_told_to_end(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_put(stage, "a", "done");
    stage_wait_reports(stage, 1);
    int64_t begin_ns = qn_clock_mono_ns();
    stage_stop(&worker);
    assert_true((qn_clock_mono_ns() - begin_ns) / 1000000 < END_MS_MAX);
    stage_free(stage);
}

static quern_outcome stop(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    struct stage_worker *worker = user;
    quern_worker_stop(worker->worker);
    return QUERN_DONE;
}

static void a_handler_may_stop_its_worker(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    struct stage_worker worker;
    quern_error error = {0};
    assert_ok(quern_mux_handle(stage->mux, "stop", stop, &worker, NULL, &error), error);
    stage_start(stage, &worker, &(quern_worker_options){.concurrency = 1});
    stage_put(stage, "first", "done");
    stage_wait_reports(stage, 1);
    stage_put_task(stage, &(quern_task){.id = "a", .type = "stop"});
    quern_status status = stage_join(&worker);
    assert_ok(status, worker.error);
    assert_int_equal(stage_state(stage, "a"), 0);
    stage_free(stage);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_task_has_to_wait_for_the_next_news),
    cmocka_unit_test(an_idle_worker_is_told_to_end),
    cmocka_unit_test(a_handler_may_stop_its_worker),
};
TEST_MAIN_OVER_BROKERS(tests)
