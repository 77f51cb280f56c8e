/* SPDX-License-Identifier: MIT */
/* test_outcomes.c - what a handler returns takes its task where enum
 * qn_outcome_kind (broker.h) says. */
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

static void done_tasks_are_deleted_or_kept_for_their_retention(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put(stage, "gone", "done");
    stage_put_task(
        stage,
        &(quern_task){.id = "kept", .payload = "result", .payload_size = 6, .retention_ms = 60000});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "gone", 0);
    stage_wait_state(stage, "kept", QUERN_TASK_COMPLETED);
    quern_task_info *info = stage_see(stage, "kept");
    size_t size = 0;
    assert_memory_equal(quern_task_info_result(info, &size), "42", 2);
    assert_int_equal(size, 2);
    quern_task_info_free(info);
    stage_wait_reports(stage, 2);
    assert_int_equal(stage_stats(&worker).done, 2);
    stage_stop(&worker);
    assert_int_equal(stage_queue(stage, "default").processed_total, 2);
    assert_int_equal(stage_queue(stage, "default").failed_total, 0);
    stage_free(stage);
}

static void failed_tasks_are_retried_with_their_error(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put(stage, "a", "retry");
    stage_put(stage, "odd", "odd");
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "a", QUERN_TASK_RETRY);
    stage_wait_state(stage, "odd", QUERN_TASK_RETRY);
    quern_task_info *info = stage_see(stage, "a");
    assert_string_equal(quern_task_info_error(info), "broken");
    assert_int_equal(quern_task_info_retry_count(info), 1);
    quern_task_info_free(info);
    info = stage_see(stage, "odd");
    assert_string_equal(quern_task_info_error(info), "handler returned the unknown outcome 77");
    quern_task_info_free(info);
    stage_wait_reports(stage, 2);
    assert_int_equal(stage_stats(&worker).retried, 2);
    stage_stop(&worker);
    stage_free(stage);
}

static void tasks_without_attempts_left_are_archived(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put_task(stage, &(quern_task){.id = "once",
                                        .payload = "retry",
                                        .payload_size = 5,
                                        .retry_max = QUERN_RETRY_NEVER});
    stage_put_task(stage, &(quern_task){.id = "twice",
                                        .payload = "retry",
                                        .payload_size = 5,
                                        .retry_max = 1,
                                        .retry = {.kind = QUERN_RETRY_FIXED, .base_ms = 1}});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "once", QUERN_TASK_ARCHIVED);
    stage_wait_state(stage, "twice", QUERN_TASK_ARCHIVED);
    stage_wait_reports(stage, 3);
    assert_int_equal(stage->start_count, 3);
    assert_int_equal(stage_stats(&worker).archived, 2);
    assert_int_equal(stage_stats(&worker).retried, 1);
    stage_stop(&worker);
    stage_free(stage);
}

static void archived_dropped_and_snoozed_tasks_go_where_they_should(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put(stage, "archive", "archive");
    stage_put(stage, "drop", "drop");
    stage_put(stage, "snooze", "snooze");
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "archive", QUERN_TASK_ARCHIVED);
    stage_wait_state(stage, "drop", 0);
    stage_wait_state(stage, "snooze", QUERN_TASK_RETRY);
    quern_task_info *info = stage_see(stage, "archive");
    assert_string_equal(quern_task_info_error(info), "no use");
    quern_task_info_free(info);
    info = stage_see(stage, "snooze");
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_true(quern_task_info_at_ms(info) >
                qn_clock_wall_ms(qn_clock_system()) + INT64_C(3500000));
    quern_task_info_free(info);
    stage_wait_reports(stage, 3);
    quern_worker_stats stats = stage_stats(&worker);
    assert_int_equal(stats.archived, 1);
    assert_int_equal(stats.dropped, 1);
    assert_int_equal(stats.snoozed, 1);
    stage_stop(&worker);
    stage_free(stage);
}

static void a_type_without_handler_gets_the_outcome_that_was_asked_for(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    quern_error error = {0};
    assert_ok(quern_mux_not_found(stage->mux, QUERN_RETRY, &error), error);
    stage_put_task(stage, &(quern_task){.id = "x", .type = "unserved"});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "x", QUERN_TASK_RETRY);
    quern_task_info *info = stage_see(stage, "x");
    assert_string_equal(quern_task_info_error(info), "handler not found for task \"unserved\"");
    quern_task_info_free(info);
    stage_stop(&worker);
    stage_free(stage);
}

static int64_t say_two_hours(int64_t retry_count, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    return (retry_count + 2) * 3600000;
}

static quern_outcome say_no(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    return quern_run_fail(run, QUERN_RETRY, "no");
}

static int64_t delay_ms(struct stage *stage, const char *id)
{
    stage_wait_state(stage, id, QUERN_TASK_RETRY);
    quern_task_info *info = stage_see(stage, id);
    int64_t at_ms = quern_task_info_at_ms(info);
    quern_task_info_free(info);
    return at_ms - qn_clock_wall_ms(&stage->clock);
}

static void the_task_then_the_handler_then_the_worker_says_the_retry_delay(void **state)
{
    (void)state;
    struct stage *stage = stage_new(true);
    quern_error error = {0};
    quern_handler_options fixed = {.retry = {.kind = QUERN_RETRY_FIXED, .base_ms = 20000}};
    quern_handler_options asked = {.retry_delay_ms = say_two_hours};
    assert_ok(quern_mux_handle(stage->mux, "fixed", say_no, NULL, &fixed, &error), error);
    assert_ok(quern_mux_handle(stage->mux, "asked", say_no, NULL, &asked, &error), error);
    stage_put_task(stage, &(quern_task){.id = "fixed", .type = "fixed"});
    stage_put_task(stage, &(quern_task){.id = "asked", .type = "asked"});
    stage_put_task(stage, &(quern_task){.id = "own",
                                        .type = "asked",
                                        .retry = {.kind = QUERN_RETRY_FIXED, .base_ms = 5000}});
    stage_put(stage, "worker", "retry");
    struct stage_worker worker;
    stage_start(stage, &worker,
                &(quern_worker_options){.concurrency = 1,
                                        .retry = {.kind = QUERN_RETRY_FIXED, .base_ms = 70000}});
    assert_int_equal(delay_ms(stage, "fixed"), 20000);
    assert_int_equal(delay_ms(stage, "asked"), 7200000);
    assert_int_equal(delay_ms(stage, "own"), 5000);
    assert_int_equal(delay_ms(stage, "worker"), 70000);
    stage_stop(&worker);
    stage_free(stage);
}

static void a_delayed_task_wakes_an_idle_worker(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_log(stage, "worker starts");
    int64_t put_at_ms = test_now_ms();
    stage_put_task(
        stage,
        &(quern_task){.id = "later", .payload = "done", .payload_size = 4, .delay_ms = 3600000});
    stage_put_task(
        stage, &(quern_task){.id = "sooner", .payload = "done", .payload_size = 4, .delay_ms = 60});
    stage_wait_reports(stage, 1);
    assert_string_equal(stage_start_at(stage, 0).id, "sooner");
    /* Two clocks, cut to milliseconds, may differ by two. */
    assert_true(stage_start_at(stage, 0).at_ms - put_at_ms >= 58);
    assert_int_equal(stage_state(stage, "later"), QUERN_TASK_SCHEDULED);
    stage_stop(&worker);
    stage_free(stage);
}

static void two_workers_on_one_file_run_each_task_once(void **state)
{
    (void)state;
    enum { TASKS = 2000 };
    struct stage *stage = stage_new(false);
    stage_put_many(stage, NULL, "n", TASKS);
    const quern_worker_options options = {.concurrency = 8, .drain = 1};
    struct stage_worker workers[2];
    stage_start(stage, &workers[0], &options);
    stage_start(stage, &workers[1], &options);
    assert_int_equal(stage_join(&workers[0]), QUERN_OK);
    assert_int_equal(stage_join(&workers[1]), QUERN_OK);
    assert_int_equal(stage->start_count, TASKS);
    static bool seen[TASKS];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < TASKS; i++) {
        size_t number = strtoul(stage->starts[i].id + 1, NULL, 10);
        assert_false(seen[number]);
        seen[number] = true;
    }
    assert_int_equal(stage_queue(stage, "default").processed_total, TASKS);
    assert_int_equal(stage_queue(stage, "default").size, 0);
    stage_free(stage);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(done_tasks_are_deleted_or_kept_for_their_retention),
    cmocka_unit_test(failed_tasks_are_retried_with_their_error),
    cmocka_unit_test(tasks_without_attempts_left_are_archived),
    cmocka_unit_test(archived_dropped_and_snoozed_tasks_go_where_they_should),
    cmocka_unit_test(a_type_without_handler_gets_the_outcome_that_was_asked_for),
    cmocka_unit_test(the_task_then_the_handler_then_the_worker_says_the_retry_delay),
    cmocka_unit_test(a_delayed_task_wakes_an_idle_worker),
    cmocka_unit_test(two_workers_on_one_file_run_each_task_once),
};
TEST_MAIN_OVER_BROKERS(tests)
