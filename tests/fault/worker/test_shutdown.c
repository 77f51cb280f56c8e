/* SPDX-License-Identifier: MIT */
/* test_shutdown.c - how a worker ends: drained, stopped, stopped twice, quiet; and that
 * it runs only once. */
#include "lib_worker.h"

#include <string.h>

#include "worker/internal.h"

static void a_draining_worker_ends_when_its_queues_are_empty(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put_many(rig, NULL, "n", 300);
    rig_put_task(
        rig, &(quern_task){.id = "later", .payload = "done", .payload_size = 4, .delay_ms = 200});
    rig_put_task(rig, &(quern_task){.id = "again",
                                    .payload = "retry",
                                    .payload_size = 5,
                                    .retry_max = 1,
                                    .retry = QUERN_BACKOFF_FIXED(10)});
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 4, .drain = true});
    assert_int_equal(rig_join(&worker), QUERN_OK);
    assert_int_equal(rig->start_count, 303);
    assert_int_equal(rig_queue(rig, "default").size, 1); /* the archived one */
    rig_free(rig);
}

static void a_draining_worker_reports_what_it_waits_for(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put_task(rig, &(quern_task){.id = "later",
                                    .payload = "done",
                                    .payload_size = 4,
                                    .delay_ms = 3600 * INT64_C(1000)});
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .drain = true});
    rig_wait_log(rig, "not drained yet\" queue=default pending=0 active=0 scheduled=1 retry=0");
    rig_stop(&worker);
    assert_int_equal(rig_state(rig, "later"), QUERN_TASK_SCHEDULED);
    rig_free(rig);
}

static void a_stopped_worker_lets_runs_finish(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "a", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    quern_worker_stop(worker.worker);
    rig_wait_unready(&worker);
    rig_put(rig, "b", "done"); /* not fetched any more */
    rig_open_gate(rig);
    assert_int_equal(rig_join(&worker), QUERN_OK);
    assert_int_equal(rig_state(rig, "a"), 0);
    assert_int_equal(rig_state(rig, "b"), QUERN_TASK_PENDING);
    assert_int_equal(rig->start_count, 1);
    rig_free(rig);
}

/* Once cancelled it leaves the payload "done" for the queue "other". */
static quern_outcome go_elsewhere(quern_run *run, const quern_task *task, void *user)
{
    quern_outcome outcome = rig_handler()(run, task, user);
    if (quern_run_change_payload(run, "done", 4, NULL) != QUERN_OK ||
        quern_run_change_queue(run, "other", NULL) != QUERN_OK) {
        return QUERN_DROP;
    }
    return outcome;
}

static void a_checkpoint_of_payload_and_queue_stays_whole_at_the_end_of_its_worker(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "go", go_elsewhere, rig, NULL, &error), error);
    rig_put_task(rig, &(quern_task){.id = "a", .type = "go", .payload = "wait", .payload_size = 4});
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .shutdown_timeout_ms = 50});
    rig_wait_starts(rig, 1);
    rig_stop(&worker);
    assert_int_equal(rig_queue(rig, "default").size, 0);
    const quern_queue other = {.name = "other", .weight = 1};
    rig_start(rig, &worker,
              &(quern_worker_options){
                  .queues = &other, .queue_count = 1, .concurrency = 1, .drain = true});
    assert_int_equal(rig_join(&worker), QUERN_OK);
    assert_int_equal(rig->start_count, 2);
    struct rig_start start = rig_start_at(rig, 1);
    assert_string_equal(start.queue, "other");
    assert_int_equal(start.retry_count, 0);
    assert_int_equal(start.cause, QUERN_CAUSE_GIVEN_BACK);
    assert_int_equal(rig_queue(rig, "other").size, 0); /* its payload said "done" */
    rig_free(rig);
}

static void runs_that_do_not_end_in_time_go_back_without_using_a_retry(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "a", "wait");
    rig_put(rig, "b", "done");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .shutdown_timeout_ms = 50});
    rig_wait_starts(rig, 1);
    rig_stop(&worker); /* the handler listens to its cancellation */
    assert_string_equal(rig_start_at(rig, 0).reason, "shutdown");
    quern_task_info *info = rig_inspect(rig, "a");
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_int_equal(quern_task_info_crash_count(info), 0);
    assert_int_equal(quern_task_info_cause(info), QUERN_CAUSE_GIVEN_BACK);
    quern_task_info_free(info);
    rig_free(rig);
}

static void done_during_shutdown_counts(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "a", "wait-done");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .shutdown_timeout_ms = 50});
    rig_wait_starts(rig, 1);
    rig_stop(&worker);
    assert_int_equal(rig_state(rig, "a"), 0);
    rig_free(rig);
}

static bool runs_nothing(void *user)
{
    return rig_stats(user).running == 0;
}

/* Only an outcome is left, and the broker does not take it. */
static void a_worker_that_runs_nothing_does_not_wait_for_runs(void **state)
{
    (void)state;
    enum { DELIVER_MS = 5000, SHUTDOWN_MS = 60000, SLACK_MS = 3000 };
    struct test_redis *server = test_store_server();
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_put(rig, "a", "hold");
    rig_start(rig, &worker,
              &(quern_worker_options){.concurrency = 1, .shutdown_timeout_ms = SHUTDOWN_MS});
    rig_wait_starts(rig, 1);
    test_redis_kill(server);
    rig_open_gate(rig);
    assert_true(test_until(runs_nothing, &worker));
    int64_t stopped_at_ms = test_now_ms();
    rig_stop(&worker);
    assert_true(test_now_ms() - stopped_at_ms < DELIVER_MS + SLACK_MS);
    assert_false(rig_logged(rig, "runs given back at shutdown"));
    assert_true(rig_logged(rig, "broker did not confirm all outcomes"));
    assert_true(rig_logged(rig, "outcome not confirmed, the task may run again\" queue="));
    assert_false(rig_logged(rig, "broker answers again"));
    test_redis_launch(server);
    test_redis_await(server);
    rig_free(rig);
}

static void the_second_stop_ends_the_wait_at_once(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "deaf", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .shutdown_timeout_ms = -1});
    rig_wait_starts(rig, 1);
    quern_worker_stop(worker.worker);
    quern_worker_stop(worker.worker);
    assert_int_equal(pthread_join(worker.thread, NULL), 0);
    assert_int_equal(worker.status, QUERN_E_TIMEOUT);
    assert_int_equal(rig_state(rig, "deaf"), QUERN_TASK_PENDING);
    rig_open_gate(rig); /* lets its thread end, so that the worker can be freed after all */
    rig_wait_empty(rig);
    quern_worker_free(worker.worker);
    assert_int_equal(rig_state(rig, "deaf"), QUERN_TASK_PENDING);
    rig_free(rig);
}

/* Of the two runs one ends when it is cancelled, the other one does not. */
static struct rig *rig_in_first_stage(struct rig_worker *worker)
{
    struct rig *rig = rig_new(false);
    rig_put(rig, "listens", "wait");
    rig_put(rig, "deaf", "hold");
    rig_start(rig, worker,
              &(quern_worker_options){
                  .concurrency = 2, .shutdown_timeout_ms = -1, .soft_shutdown_timeout_ms = -1});
    rig_wait_starts(rig, 2);
    quern_worker_stop(worker->worker);
    assert_true(test_until(rig_is_draining, worker->worker));
    assert_int_equal(rig_state(rig, "listens"), QUERN_TASK_ACTIVE);
    assert_int_equal(rig_state(rig, "deaf"), QUERN_TASK_ACTIVE);
    return rig;
}

static void expect_given_back(struct rig *rig, const char *id)
{
    rig_wait_state(rig, id, QUERN_TASK_PENDING);
    quern_task_info *info = rig_inspect(rig, id);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_int_equal(quern_task_info_crash_count(info), 0);
    assert_int_equal(quern_task_info_cause(info), QUERN_CAUSE_GIVEN_BACK);
    quern_task_info_free(info);
}

static void each_stop_ends_one_stage(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = rig_in_first_stage(&worker);
    quern_worker_stop(worker.worker);
    expect_given_back(rig, "listens");
    assert_int_equal(rig_state(rig, "deaf"), QUERN_TASK_ACTIVE);
    assert_int_equal(rig_stats(&worker).running, 1);
    quern_worker_stop(worker.worker);
    assert_int_equal(pthread_join(worker.thread, NULL), 0);
    assert_int_equal(worker.status, QUERN_E_TIMEOUT);
    expect_given_back(rig, "deaf");
    rig_open_gate(rig);
    rig_wait_empty(rig);
    quern_worker_free(worker.worker);
    assert_int_equal(rig->start_count, 2);
    rig_free(rig);
}

static void a_cancelled_run_that_ends_in_its_soft_time_counts(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = rig_in_first_stage(&worker);
    quern_worker_stop(worker.worker);
    expect_given_back(rig, "listens");
    rig_open_gate(rig);
    assert_int_equal(rig_join(&worker), QUERN_OK);
    assert_int_equal(rig_state(rig, "deaf"), 0); /* done, after it was cancelled */
    rig_free(rig);
}

/* The present turn of the pump may have begun before something changed; the next one knows of
 * it. */
static void wait_for_the_end_of_this_turn(const struct rig_worker *worker)
{
    pthread_mutex_lock(&worker->worker->pump.step_mutex);
    pthread_mutex_unlock(&worker->worker->pump.step_mutex);
}

static void a_quiet_worker_fetches_nothing_more(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "a", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    quern_worker_quiet(worker.worker);
    assert_false(rig_stats(&worker).ready);
    wait_for_the_end_of_this_turn(&worker);
    rig_put(rig, "b", "done");
    rig_open_gate(rig);
    rig_wait_state(rig, "a", 0);
    assert_int_equal(rig_state(rig, "b"), QUERN_TASK_PENDING);
    rig_stop(&worker);
    assert_int_equal(rig_state(rig, "b"), QUERN_TASK_PENDING);
    rig_free(rig);
}

static bool has_no_worker(const quern_worker_info *info, void *user)
{
    (void)info;
    *(bool *)user = false;
    return true;
}

static void a_worker_announces_itself_and_withdraws(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_log(rig, "worker starts");
    bool none = true;
    assert_ok(qn_broker_workers(rig->broker, has_no_worker, &none, &error), error);
    assert_false(none);
    rig_stop(&worker);
    none = true;
    assert_ok(qn_broker_workers(rig->broker, has_no_worker, &none, &error), error);
    assert_true(none);
    rig_free(rig);
}

static void a_worker_runs_once(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_worker *worker = NULL;
    quern_error error = {0};
    assert_ok(quern_worker_new(rig->url, rig->mux, NULL, &worker, &error), error);
    quern_worker_stop(worker); /* before it runs: then it runs only to its end */
    assert_ok(quern_worker_run(worker, &error), error);
    assert_int_equal(quern_worker_run(worker, &error), QUERN_E_STATE);
    quern_worker_free(worker);
    rig_free(rig);
}

static void statistics_may_be_read_while_a_worker_ends(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    for (int round = 0; round < 10; round++) {
        struct rig_worker worker;
        rig_start(rig, &worker, NULL);
        quern_worker_stop(worker.worker);
        while (pthread_tryjoin_np(worker.thread, NULL) != 0) {
            assert_int_equal(rig_stats(&worker).quarantined, 0);
        }
        assert_int_equal(worker.status, QUERN_OK);
        quern_worker_free(worker.worker);
    }
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_draining_worker_ends_when_its_queues_are_empty),
    cmocka_unit_test(a_draining_worker_reports_what_it_waits_for),
    cmocka_unit_test(a_stopped_worker_lets_runs_finish),
    cmocka_unit_test(runs_that_do_not_end_in_time_go_back_without_using_a_retry),
    cmocka_unit_test(a_checkpoint_of_payload_and_queue_stays_whole_at_the_end_of_its_worker),
    cmocka_unit_test(done_during_shutdown_counts),
    TEST_ONLY_OVER("redis", a_worker_that_runs_nothing_does_not_wait_for_runs),
    cmocka_unit_test(the_second_stop_ends_the_wait_at_once),
    cmocka_unit_test(each_stop_ends_one_stage),
    cmocka_unit_test(a_cancelled_run_that_ends_in_its_soft_time_counts),
    cmocka_unit_test(a_quiet_worker_fetches_nothing_more),
    cmocka_unit_test(a_worker_announces_itself_and_withdraws),
    cmocka_unit_test(a_worker_runs_once),
    cmocka_unit_test(statistics_may_be_read_while_a_worker_ends),
};
TEST_MAIN_OVER_BROKERS(tests)
