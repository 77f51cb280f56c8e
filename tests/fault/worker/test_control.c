/* SPDX-License-Identifier: MIT */
/* test_control.c - a worker that is controlled while it runs, and one whose handlers hang. */
#include <string.h>

#include "lib_worker.h"

static void put_deaf(struct rig *rig, const char *id)
{
    rig_put_task(rig, &(quern_task){.id = id,
                                    .payload = "hold",
                                    .payload_size = 4,
                                    .timeout_ms = 30,
                                    .retry = QUERN_BACKOFF_FIXED(3600000)});
}

static bool note_stuck(const quern_worker_info *worker, void *user)
{
    bool *stuck = user;
    *stuck = worker->status == QUERN_WORKER_STUCK && strstr(worker->queues, "\x1f"
                                                                            "3") != NULL;
    return false;
}

static bool is_shown_stuck(void *user)
{
    struct rig *rig = user;
    bool stuck = false;
    quern_error error = {0};
    assert_ok(qn_broker_workers(rig->broker, note_stuck, &stuck, &error), error);
    return stuck;
}

/* Three handlers hang, of which one was replaced: no slot of two is left. */
static struct rig *stuck_rig(struct rig_worker *worker, int64_t stuck_timeout_ms)
{
    struct rig *rig = rig_new(false);
    put_deaf(rig, "one");
    put_deaf(rig, "two");
    put_deaf(rig, "three");
    rig_start(rig, worker,
              &(quern_worker_options){.concurrency = 2,
                                      .quarantine_after_ms = 30,
                                      .stuck_timeout_ms = stuck_timeout_ms});
    rig_wait_log(rig, "worker is stuck, its handlers hang and no slot is left\"");
    assert_true(rig_logged(rig, "slots=2 hang=3"));
    return rig;
}

static void a_worker_without_a_slot_ends_with_an_error_after_its_grace(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = stuck_rig(&worker, 200);
    assert_int_equal(pthread_join(worker.thread, NULL), 0);
    assert_int_equal(worker.status, QUERN_E_TIMEOUT);
    assert_non_null(strstr(worker.error.text, "(3 handlers, concurrency 2)"));
    rig_open_gate(rig);
    rig_wait_empty(rig);
    quern_worker_free(worker.worker);
    rig_free(rig);
}

static void a_worker_without_a_slot_is_not_ready_and_goes_on_when_a_handler_returns(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = stuck_rig(&worker, -1);
    assert_false(rig_stats(&worker).ready);
    assert_int_equal(rig_stats(&worker).quarantined, 3);
    assert_true(test_until(is_shown_stuck, rig));
    rig_open_gate(rig);
    rig_wait_log(rig, "worker is no longer stuck");
    rig_put(rig, "next", "archive");
    rig_wait_state(rig, "next", QUERN_TASK_ARCHIVED);
    assert_true(rig_stats(&worker).ready);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_quiet_worker_reports_it_and_takes_tasks_again_when_resumed(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_log(rig, "worker starts");
    quern_worker_quiet(worker.worker);
    rig_wait_log(rig, "worker is quiet, it takes no more tasks");
    rig_put(rig, "a", "archive");
    assert_false(rig_stats(&worker).ready);
    assert_int_equal(rig_state(rig, "a"), QUERN_TASK_PENDING);
    quern_worker_resume(worker.worker);
    rig_wait_state(rig, "a", QUERN_TASK_ARCHIVED);
    assert_true(rig_logged(rig, "worker takes tasks again"));
    rig_stop(&worker);
    rig_free(rig);
}

static void a_worker_that_is_resized_runs_more_and_then_fewer_at_a_time(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    quern_error err = {0};
    static const char *const ids[] = {"0", "1", "2", "3", "4"};
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        rig_put(rig, ids[i], "hold");
    }
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    rig_wait_starts(rig, 1);
    assert_int_equal(quern_worker_resize(worker.worker, 0, &err), QUERN_E_INVALID);
    assert_int_equal(quern_worker_resize(worker.worker, 4097, &err), QUERN_E_INVALID);
    assert_ok(quern_worker_resize(worker.worker, 4, &err), err);
    rig_wait_starts(rig, 4);
    assert_ok(quern_worker_resize(worker.worker, 2, &err), err);
    assert_int_equal(rig_stats(&worker).running, 4);
    rig_wait_log(rig, "slots=2 before=4");
    rig_open_gate(rig);
    rig_wait_starts(rig, 5);
    rig_put(rig, "last", "archive");
    rig_wait_state(rig, "last", QUERN_TASK_ARCHIVED);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_worker_logs_its_runs_on_request(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "first", "hold");
    rig_put(rig, "second", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 3});
    rig_wait_starts(rig, 2);
    quern_worker_log_runs(worker.worker);
    rig_wait_log(rig, "msg=\"worker state\"");
    rig_wait_log(rig, "id=second"); /* of runs it is logged after that */
    assert_true(rig_logged(rig, "slots=3 running=2 waiting=0 held=2 hang=0"));
    assert_true(rig_logged(rig, "msg=run phase=running for_ms="));
    assert_true(rig_logged(rig, "id=first"));
    rig_open_gate(rig);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_drain_reports_what_is_left_and_names_what_it_gives_back(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "long", "wait");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.shutdown_timeout_ms = 5000});
    rig_wait_starts(rig, 1);
    quern_worker_stop(worker.worker);
    rig_wait_log(rig, "1 run left, 5 s; again to stop now");
    quern_worker_stop(worker.worker);
    quern_status status = rig_join(&worker);
    assert_ok(status, worker.error);
    assert_true(rig_logged(rig, "1 msg=\"run given back\" queue=default type=t id=long"));
    assert_int_equal(rig_state(rig, "long"), QUERN_TASK_PENDING);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_worker_without_a_slot_ends_with_an_error_after_its_grace),
    cmocka_unit_test(a_worker_without_a_slot_is_not_ready_and_goes_on_when_a_handler_returns),
    cmocka_unit_test(a_quiet_worker_reports_it_and_takes_tasks_again_when_resumed),
    cmocka_unit_test(a_worker_that_is_resized_runs_more_and_then_fewer_at_a_time),
    cmocka_unit_test(a_worker_logs_its_runs_on_request),
    cmocka_unit_test(a_drain_reports_what_is_left_and_names_what_it_gives_back),
};

TEST_MAIN_OVER_BROKERS(tests)
