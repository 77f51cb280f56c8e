/* SPDX-License-Identifier: MIT */
/* test_steer.c - a worker that is steered while it runs, and one whose handlers hang. */
#include <string.h>

#include "lib_worker.h"

static void put_deaf(struct stage *stage, const char *id)
{
    stage_put_task(stage, &(quern_task){.id = id,
                                        .payload = "hold",
                                        .payload_size = 4,
                                        .timeout_ms = 30,
                                        .retry = {.kind = QUERN_RETRY_FIXED, .base_ms = 3600000}});
}

static bool note_stuck(const quern_worker_info *worker, void *user)
{
    bool *stuck = user;
    *stuck = strcmp(worker->status, "stuck") == 0 && strstr(worker->queues, "\x1f"
                                                                            "3") != NULL;
    return false;
}

static bool is_shown_stuck(void *user)
{
    struct stage *stage = user;
    bool stuck = false;
    quern_error error = {0};
    assert_ok(qn_broker_workers(stage->broker, note_stuck, &stuck, &error), error);
    return stuck;
}

/* Three handlers hang, of which one was replaced: no slot of two is left. */
static struct stage *stuck_stage(struct stage_worker *worker, int64_t stuck_timeout_ms)
{
    struct stage *stage = stage_new(false);
    put_deaf(stage, "one");
    put_deaf(stage, "two");
    put_deaf(stage, "three");
    stage_start(stage, worker,
                &(quern_worker_options){.concurrency = 2,
                                        .quarantine_after_ms = 30,
                                        .stuck_timeout_ms = stuck_timeout_ms});
    stage_wait_log(stage, "worker is stuck, its handlers hang and no slot is left\"");
    assert_true(stage_logged(stage, "slots=2 hang=3"));
    return stage;
}

static void a_worker_without_a_slot_ends_with_an_error_after_its_grace(void **state)
{
    (void)state;
    struct stage_worker worker;
    struct stage *stage = stuck_stage(&worker, 200);
    assert_int_equal(pthread_join(worker.thread, NULL), 0);
    assert_int_equal(worker.status, QUERN_E_TIMEOUT);
    assert_non_null(strstr(worker.error.text, "3 hang"));
    stage_open_gate(stage);
    stage_wait_empty(stage);
    quern_worker_free(worker.worker);
    stage_free(stage);
}

static void a_worker_without_a_slot_is_not_ready_and_goes_on_when_a_handler_returns(void **state)
{
    (void)state;
    struct stage_worker worker;
    struct stage *stage = stuck_stage(&worker, -1);
    assert_int_equal(stage_stats(&worker).ready, 0);
    assert_int_equal(stage_stats(&worker).quarantined, 3);
    assert_true(test_until(is_shown_stuck, stage));
    stage_open_gate(stage);
    stage_wait_log(stage, "worker is no longer stuck");
    stage_put(stage, "next", "archive");
    stage_wait_state(stage, "next", QUERN_TASK_ARCHIVED);
    assert_int_equal(stage_stats(&worker).ready, 1);
    stage_stop(&worker);
    stage_free(stage);
}

static void a_quiet_worker_says_so_and_takes_tasks_again_when_resumed(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_log(stage, "worker starts");
    quern_worker_quiet(worker.worker);
    stage_wait_log(stage, "worker is quiet, it takes no more tasks");
    stage_put(stage, "a", "archive");
    assert_int_equal(stage_stats(&worker).ready, 0);
    assert_int_equal(stage_state(stage, "a"), QUERN_TASK_PENDING);
    quern_worker_resume(worker.worker);
    stage_wait_state(stage, "a", QUERN_TASK_ARCHIVED);
    assert_true(stage_logged(stage, "worker takes tasks again"));
    stage_stop(&worker);
    stage_free(stage);
}

static void a_worker_logs_its_runs_on_request(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put(stage, "first", "hold");
    stage_put(stage, "second", "hold");
    struct stage_worker worker;
    stage_start(stage, &worker, &(quern_worker_options){.concurrency = 3});
    stage_wait_starts(stage, 2);
    quern_worker_log_runs(worker.worker);
    stage_wait_log(stage, "id=second");
    assert_true(stage_logged(stage, "msg=\"worker state\""));
    assert_true(stage_logged(stage, "slots=3 running=2 waiting=0 held=2 hang=0"));
    assert_true(stage_logged(stage, "msg=run phase=running for_ms="));
    assert_true(stage_logged(stage, "id=first"));
    stage_open_gate(stage);
    stage_stop(&worker);
    stage_free(stage);
}

static void a_drain_says_what_is_left_and_names_what_it_gives_back(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put(stage, "long", "wait");
    struct stage_worker worker;
    stage_start(stage, &worker, &(quern_worker_options){.shutdown_timeout_ms = 5000});
    stage_wait_starts(stage, 1);
    quern_worker_stop(worker.worker);
    stage_wait_log(stage, "1 run left, 5 s; again to stop now");
    quern_worker_stop(worker.worker);
    quern_status status = stage_join(&worker);
    assert_ok(status, worker.error);
    assert_true(stage_logged(stage, "1 msg=\"run given back\" queue=default type=t id=long"));
    assert_int_equal(stage_state(stage, "long"), QUERN_TASK_PENDING);
    stage_free(stage);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_worker_without_a_slot_ends_with_an_error_after_its_grace),
    cmocka_unit_test(a_worker_without_a_slot_is_not_ready_and_goes_on_when_a_handler_returns),
    cmocka_unit_test(a_quiet_worker_says_so_and_takes_tasks_again_when_resumed),
    cmocka_unit_test(a_worker_logs_its_runs_on_request),
    cmocka_unit_test(a_drain_says_what_is_left_and_names_what_it_gives_back),
};

TEST_MAIN_OVER_BROKERS(tests)
