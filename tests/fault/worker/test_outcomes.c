/* SPDX-License-Identifier: MIT */
/* test_outcomes.c - the handler's return value moves its task as enum qn_outcome_kind (broker.h)
 * defines. */
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

static void done_tasks_are_deleted_or_kept_for_their_retention(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "gone", "done");
    rig_put_task(
        rig,
        &(quern_task){.id = "kept", .payload = "result", .payload_size = 6, .retention_ms = 60000});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "gone", 0);
    rig_wait_result(rig, "kept", "42");
    rig_wait_reports(rig, 2);
    assert_int_equal(rig_stats(&worker).done, 2);
    rig_stop(&worker);
    assert_int_equal(rig_queue(rig, "default").processed_total, 2);
    assert_int_equal(rig_queue(rig, "default").failed_total, 0);
    rig_free(rig);
}

static void failed_tasks_are_retried_with_their_error(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "a", "retry");
    rig_put(rig, "odd", "odd");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "a", QUERN_TASK_RETRY);
    rig_wait_state(rig, "odd", QUERN_TASK_RETRY);
    quern_task_info *info = rig_inspect(rig, "a");
    assert_string_equal(quern_task_info_error(info), "broken");
    assert_int_equal(quern_task_info_retry_count(info), 1);
    quern_task_info_free(info);
    info = rig_inspect(rig, "odd");
    assert_string_equal(quern_task_info_error(info), "handler returned the unknown outcome 77");
    quern_task_info_free(info);
    rig_wait_reports(rig, 2);
    assert_int_equal(rig_stats(&worker).retried, 2);
    rig_stop(&worker);
    rig_free(rig);
}

static void tasks_without_attempts_left_are_archived(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put_task(rig, &(quern_task){.id = "once",
                                    .payload = "retry",
                                    .payload_size = 5,
                                    .retry_max = QUERN_RETRY_NEVER});
    rig_put_task(rig, &(quern_task){.id = "twice",
                                    .payload = "retry",
                                    .payload_size = 5,
                                    .retry_max = 1,
                                    .retry = QUERN_BACKOFF_FIXED(1)});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "once", QUERN_TASK_ARCHIVED);
    rig_wait_state(rig, "twice", QUERN_TASK_ARCHIVED);
    rig_wait_reports(rig, 3);
    assert_int_equal(rig->start_count, 3);
    assert_int_equal(rig_stats(&worker).archived, 2);
    assert_int_equal(rig_stats(&worker).retried, 1);
    rig_stop(&worker);
    rig_free(rig);
}

static void archived_dropped_and_snoozed_tasks_go_where_they_should(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "archive", "archive");
    rig_put(rig, "drop", "drop");
    rig_put(rig, "snooze", "snooze");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "archive", QUERN_TASK_ARCHIVED);
    rig_wait_state(rig, "drop", 0);
    rig_wait_state(rig, "snooze", QUERN_TASK_RETRY);
    quern_task_info *info = rig_inspect(rig, "archive");
    assert_string_equal(quern_task_info_error(info), "no use");
    quern_task_info_free(info);
    info = rig_inspect(rig, "snooze");
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_true(quern_task_info_due_at_ms(info) >
                qn_clock_wall_ms(qn_clock_system()) + INT64_C(3500000));
    quern_task_info_free(info);
    rig_wait_reports(rig, 3);
    quern_worker_stats stats = rig_stats(&worker);
    assert_int_equal(stats.archived, 1);
    assert_int_equal(stats.dropped, 1);
    assert_int_equal(stats.snoozed, 1);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_type_without_handler_gets_the_configured_outcome(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    assert_ok(quern_mux_not_found(rig->mux, QUERN_RETRY, &error), error);
    rig_put_task(rig, &(quern_task){.id = "x", .type = "unserved"});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "x", QUERN_TASK_RETRY);
    quern_task_info *info = rig_inspect(rig, "x");
    assert_string_equal(quern_task_info_error(info), "handler not found for task \"unserved\"");
    quern_task_info_free(info);
    rig_stop(&worker);
    rig_free(rig);
}

static int64_t return_two_hours(int64_t retry_count, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    return (retry_count + 2) * 3600000;
}

static quern_outcome refuse(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    return quern_run_fail(run, QUERN_RETRY, "no");
}

static int64_t delay_ms(struct rig *rig, const char *id)
{
    rig_wait_state(rig, id, QUERN_TASK_RETRY);
    quern_task_info *info = rig_inspect(rig, id);
    int64_t at_ms = quern_task_info_due_at_ms(info);
    quern_task_info_free(info);
    return at_ms - qn_clock_wall_ms(&rig->clock);
}

static void the_task_then_the_handler_then_the_worker_sets_the_retry_delay(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    quern_error error = {0};
    quern_handler_options fixed = {.retry = QUERN_BACKOFF_FIXED(20000)};
    quern_handler_options asked = {.retry_delay_ms = return_two_hours};
    assert_ok(quern_mux_handle(rig->mux, "fixed", refuse, NULL, &fixed, &error), error);
    assert_ok(quern_mux_handle(rig->mux, "asked", refuse, NULL, &asked, &error), error);
    rig_put_task(rig, &(quern_task){.id = "fixed", .type = "fixed"});
    rig_put_task(rig, &(quern_task){.id = "asked", .type = "asked"});
    rig_put_task(rig,
                 &(quern_task){.id = "own", .type = "asked", .retry = QUERN_BACKOFF_FIXED(5000)});
    rig_put(rig, "worker", "retry");
    struct rig_worker worker;
    rig_start(rig, &worker,
              &(quern_worker_options){.concurrency = 1, .retry = QUERN_BACKOFF_FIXED(70000)});
    assert_int_equal(delay_ms(rig, "fixed"), 20000);
    assert_int_equal(delay_ms(rig, "asked"), 7200000);
    assert_int_equal(delay_ms(rig, "own"), 5000);
    assert_int_equal(delay_ms(rig, "worker"), 70000);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_delayed_task_wakes_an_idle_worker(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_log(rig, "worker starts");
    int64_t put_at_ms = test_now_ms();
    rig_put_task(
        rig,
        &(quern_task){.id = "later", .payload = "done", .payload_size = 4, .delay_ms = 3600000});
    rig_put_task(
        rig, &(quern_task){.id = "sooner", .payload = "done", .payload_size = 4, .delay_ms = 60});
    rig_wait_reports(rig, 1);
    assert_string_equal(rig_start_at(rig, 0).id, "sooner");
    /* Two clocks, cut to milliseconds, may differ by two. */
    assert_true(rig_start_at(rig, 0).at_ms - put_at_ms >= 58);
    assert_int_equal(rig_state(rig, "later"), QUERN_TASK_SCHEDULED);
    rig_stop(&worker);
    rig_free(rig);
}

static void two_workers_on_one_file_run_each_task_once(void **state)
{
    (void)state;
    enum { TASKS = 2000 };
    struct rig *rig = rig_new(false);
    rig_put_many(rig, NULL, "n", TASKS);
    const quern_worker_options options = {.concurrency = 8, .drain = true};
    struct rig_worker workers[2];
    rig_start(rig, &workers[0], &options);
    rig_start(rig, &workers[1], &options);
    assert_int_equal(rig_join(&workers[0]), QUERN_OK);
    assert_int_equal(rig_join(&workers[1]), QUERN_OK);
    assert_int_equal(rig->start_count, TASKS);
    static bool seen[TASKS];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < TASKS; i++) {
        size_t number = strtoul(rig->starts[i].id + 1, NULL, 10);
        assert_false(seen[number]);
        seen[number] = true;
    }
    assert_int_equal(rig_queue(rig, "default").processed_total, TASKS);
    assert_int_equal(rig_queue(rig, "default").size, 0);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(done_tasks_are_deleted_or_kept_for_their_retention),
    cmocka_unit_test(failed_tasks_are_retried_with_their_error),
    cmocka_unit_test(tasks_without_attempts_left_are_archived),
    cmocka_unit_test(archived_dropped_and_snoozed_tasks_go_where_they_should),
    cmocka_unit_test(a_type_without_handler_gets_the_configured_outcome),
    cmocka_unit_test(the_task_then_the_handler_then_the_worker_sets_the_retry_delay),
    cmocka_unit_test(a_delayed_task_wakes_an_idle_worker),
    cmocka_unit_test(two_workers_on_one_file_run_each_task_once),
};
TEST_MAIN_OVER_BROKERS(tests)
