/* SPDX-License-Identifier: MIT */
/* test_listener.c - an idle worker is woken at once by tasks and by its end. */
#include "lib_worker.h"

enum {
    ROUNDS = 100,
    ROUNDS_MS_MAX = ROUNDS * 200, /* the worker polls each second without a notice */
    END_MS_MAX = 8000             /* without a notice the listener would sleep for ten seconds */
};

/* Two that come to an idle worker so close together that the second is found by another look than
 * the one that began with the notice of the first. */
static void no_task_has_to_wait_for_the_next_news(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 4});
    int64_t begin_ns = qn_clock_mono_ns();
    for (size_t count = 2; count <= 2 * ROUNDS; count += 2) {
        rig_put(rig, NULL, "done");
        rig_put(rig, NULL, "done");
        rig_wait_reports(rig, count);
    }
    assert_true((qn_clock_mono_ns() - begin_ns) / 1000000 < ROUNDS_MS_MAX);
    rig_stop(&worker);
    rig_free(rig);
}

static void an_idle_worker_receives_the_request_to_end(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_put(rig, "a", "done");
    rig_wait_reports(rig, 1);
    int64_t begin_ns = qn_clock_mono_ns();
    rig_stop(&worker);
    assert_true((qn_clock_mono_ns() - begin_ns) / 1000000 < END_MS_MAX);
    rig_free(rig);
}

static quern_outcome stop(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    struct rig_worker *worker = user;
    quern_worker_stop(worker->worker);
    return QUERN_DONE;
}

static void a_handler_may_stop_its_worker(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "stop", stop, &worker, NULL, &error), error);
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    rig_put(rig, "first", "done");
    rig_wait_reports(rig, 1);
    rig_put_task(rig, &(quern_task){.id = "a", .type = "stop"});
    quern_status status = rig_join(&worker);
    assert_ok(status, worker.error);
    assert_int_equal(rig_state(rig, "a"), 0);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_task_has_to_wait_for_the_next_news),
    cmocka_unit_test(an_idle_worker_receives_the_request_to_end),
    cmocka_unit_test(a_handler_may_stop_its_worker),
};
TEST_MAIN_OVER_BROKERS(tests)
