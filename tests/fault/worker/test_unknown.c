/* SPDX-License-Identifier: MIT */
/* test_unknown.c - a worker leaves tasks of types that it cannot run to others. */
#include "lib_worker.h"

#include <string.h>

static void tasks_of_unknown_types_hold_up_no_known_one(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put_many_of(stage, "unserved", "default", "u", 5000);
    stage_put_many(stage, "default", "k", 5);
    struct stage_worker worker;
    stage_start(stage, &worker, &(quern_worker_options){.concurrency = 2});
    stage_wait_reports(stage, 5);
    stage_wait_log(stage, "no handler here, left to other workers\" queue=default type=unserved");
    stage_stop(&worker);
    quern_queue_info info = stage_queue(stage, "default");
    assert_int_equal(info.processed_total, 5);
    assert_int_equal(info.failed_total, 0);
    assert_int_equal(info.counts[QUERN_TASK_PENDING] + info.counts[QUERN_TASK_RETRY], 5000);
    stage_free(stage);
}

static void unknown_task_waits_unchanged_and_says_why(void **state)
{
    (void)state;
    struct stage *stage = stage_new(true);
    stage_put_task(stage,
                   &(quern_task){.id = "x", .type = "unserved", .retry_max = QUERN_RETRY_NEVER});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "x", QUERN_TASK_RETRY);
    quern_task_info *info = stage_see(stage, "x");
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_int_equal(quern_task_info_crash_count(info), 0);
    assert_int_equal(quern_task_info_failed_at_ms(info), 0);
    assert_non_null(strstr(quern_task_info_error(info), "no handler for type \"unserved\""));
    quern_task_info_free(info);
    assert_int_equal(stage_stats(&worker).given_back, 0); /* nor snoozed: it was no run here */
    assert_int_equal(stage_stats(&worker).snoozed, 0);
    stage_stop(&worker);
    stage_free(stage);
}

static void type_that_nobody_takes_is_warned_about(void **state)
{
    (void)state;
    struct stage *stage = stage_new(true);
    stage_put_task(stage, &(quern_task){.id = "x", .type = "unserved"});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    int64_t deadline_ms = qn_clock_mono_ns() / 1000000 + TEST_PATIENCE_MS;
    while (!stage_logged(stage, "nobody takes tasks of this type\" queue=default type=unserved")) {
        assert_true(qn_clock_mono_ns() / 1000000 < deadline_ms);
        stage_wait_state(stage, "x", QUERN_TASK_RETRY);
        stage_advance(stage, 40000);
        quern_client_wake(stage->client);
    }
    stage_stop(&worker);
    stage_free(stage);
}

static void another_worker_runs_what_was_put_aside(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put_task(stage,
                   &(quern_task){.id = "x", .type = "other", .payload = "done", .payload_size = 4});
    struct stage_worker first;
    stage_start(stage, &first, NULL);
    stage_wait_state(stage, "x", QUERN_TASK_RETRY);
    stage_stop(&first); /* else it might be the faster one some times more */
    quern_mux *kept = stage->mux;
    quern_mux *mux = NULL;
    quern_error error = {0};
    assert_ok(quern_mux_new(&mux, &error), error);
    assert_ok(quern_mux_handle(mux, "*", stage_handler(), stage, NULL, &error), error);
    stage->mux = mux;
    struct stage_worker second;
    stage_start(stage, &second, NULL);
    stage_wait_state(stage, "x", 0);
    stage_wait_log(stage, "worker serves\" types=*");
    stage_stop(&second);
    struct stage_start start = stage_start_at(stage, 0);
    assert_int_equal(start.retry_count, 0);
    assert_int_equal(start.cause, QUERN_CAUSE_NONE);
    stage->mux = kept;
    quern_mux_free(mux);
    stage_free(stage);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tasks_of_unknown_types_hold_up_no_known_one),
    cmocka_unit_test(unknown_task_waits_unchanged_and_says_why),
    cmocka_unit_test(type_that_nobody_takes_is_warned_about),
    cmocka_unit_test(another_worker_runs_what_was_put_aside),
};
TEST_MAIN_OVER_BROKERS(tests)
