/* SPDX-License-Identifier: MIT */
/* test_unknown.c - a worker leaves tasks of types that it cannot run to others. */
#include "lib_worker.h"

#include <string.h>

static void tasks_of_unknown_types_hold_up_no_known_one(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put_many_of(rig, "unserved", "default", "u", 5000);
    rig_put_many(rig, "default", "k", 5);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2});
    rig_wait_reports(rig, 5);
    rig_wait_log(rig, "no handler here, left to other workers\" queue=default type=unserved");
    rig_stop(&worker);
    quern_queue_info info = rig_queue(rig, "default");
    assert_int_equal(info.processed_total, 5);
    assert_int_equal(info.failed_total, 0);
    assert_int_equal(info.counts[QUERN_TASK_PENDING] + info.counts[QUERN_TASK_RETRY], 5000);
    rig_free(rig);
}

static void unknown_task_waits_unchanged_and_reports_why(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put_task(rig, &(quern_task){.id = "x", .type = "unserved", .retry_max = QUERN_RETRY_NEVER});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "x", QUERN_TASK_RETRY);
    quern_task_info *info = rig_inspect(rig, "x");
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_int_equal(quern_task_info_crash_count(info), 0);
    assert_int_equal(quern_task_info_failed_at_ms(info), 0);
    assert_non_null(strstr(quern_task_info_error(info), "no handler for type \"unserved\""));
    quern_task_info_free(info);
    assert_int_equal(rig_stats(&worker).given_back, 0); /* nor snoozed: it was no run here */
    assert_int_equal(rig_stats(&worker).snoozed, 0);
    rig_stop(&worker);
    rig_free(rig);
}

static void type_that_nobody_takes_is_warned_about(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put_task(rig, &(quern_task){.id = "x", .type = "unserved"});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    int64_t deadline_ms = qn_clock_mono_ns() / 1000000 + TEST_PATIENCE_MS;
    while (!rig_logged(rig, "no worker takes tasks of this type\" queue=default type=unserved")) {
        assert_true(qn_clock_mono_ns() / 1000000 < deadline_ms);
        rig_wait_state(rig, "x", QUERN_TASK_RETRY);
        rig_advance(rig, 40000);
        quern_client_wake(rig->client);
    }
    rig_stop(&worker);
    rig_free(rig);
}

static void another_worker_runs_what_was_put_aside(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put_task(rig,
                 &(quern_task){.id = "x", .type = "other", .payload = "done", .payload_size = 4});
    struct rig_worker first;
    rig_start(rig, &first, NULL);
    rig_wait_state(rig, "x", QUERN_TASK_RETRY);
    rig_stop(&first); /* else it might be the faster one some times more */
    quern_mux *kept = rig->mux;
    quern_mux *mux = NULL;
    quern_error error = {0};
    assert_ok(quern_mux_new(&mux, &error), error);
    assert_ok(quern_mux_handle(mux, "*", rig_handler(), rig, NULL, &error), error);
    rig->mux = mux;
    struct rig_worker second;
    rig_start(rig, &second, NULL);
    rig_wait_state(rig, "x", 0);
    rig_wait_log(rig, "worker serves\" types=*");
    rig_stop(&second);
    struct rig_start start = rig_start_at(rig, 0);
    assert_int_equal(start.retry_count, 0);
    /* The first worker may have fetched it again just before its end, and returned it. */
    assert_true(start.cause == QUERN_CAUSE_NONE || start.cause == QUERN_CAUSE_GIVEN_BACK);
    rig->mux = kept;
    quern_mux_free(mux);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tasks_of_unknown_types_hold_up_no_known_one),
    cmocka_unit_test(unknown_task_waits_unchanged_and_reports_why),
    cmocka_unit_test(type_that_nobody_takes_is_warned_about),
    cmocka_unit_test(another_worker_runs_what_was_put_aside),
};
TEST_MAIN_OVER_BROKERS(tests)
