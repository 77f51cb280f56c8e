/* SPDX-License-Identifier: MIT */
/* test_cancel.c - runs that end before their time: timeout, deadline, operators, and
 * handlers that do not listen. */
#include "lib_worker.h"

#include <poll.h>
#include <string.h>

#define RETRY_SOON                                                                                 \
    {                                                                                              \
        .kind = QUERN_RETRY_FIXED, .base_ms = 3600000                                              \
    }

static void expect_error(struct stage *stage, const char *id, const char *error)
{
    quern_task_info *info = stage_see(stage, id);
    assert_string_equal(quern_task_info_error(info), error);
    quern_task_info_free(info);
}

static void a_run_over_its_timeout_is_cancelled_and_retried(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put_task(
        stage, &(quern_task){.id = "a", .payload = "wait", .payload_size = 4, .timeout_ms = 50});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "a", QUERN_TASK_RETRY);
    expect_error(stage, "a", "timeout of 50ms");
    assert_string_equal(stage_start_at(stage, 0).reason, "timeout");
    stage_stop(&worker);
    stage_free(stage);
}

static void a_run_over_its_deadline_is_cancelled_and_then_archived(void **state)
{
    (void)state;
    struct stage *stage = stage_new(true);
    stage_put_task(stage, &(quern_task){.id = "a",
                                        .payload = "wait",
                                        .payload_size = 4,
                                        .deadline_at_ms = stage->clock.wall_ms + 1000,
                                        .retry = {.kind = QUERN_RETRY_FIXED, .base_ms = 1}});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_starts(stage, 1);
    stage_advance(stage, 1001);
    stage_wait_reports(stage, 1);
    stage_advance(stage, 2); /* the retry is due */
    stage_wait_state(stage, "a", QUERN_TASK_ARCHIVED);
    expect_error(stage, "a", "deadline exceeded");
    assert_int_equal(stage->start_count, 1);
    assert_string_equal(stage_start_at(stage, 0).reason, "deadline exceeded");
    stage_stop(&worker);
    stage_free(stage);
}

static void a_task_past_its_deadline_is_archived_without_a_run(void **state)
{
    (void)state;
    struct stage *stage = stage_new(true);
    stage_put_task(stage, &(quern_task){.id = "late",
                                        .payload = "done",
                                        .payload_size = 4,
                                        .deadline_at_ms = stage->clock.wall_ms + 1000});
    stage_advance(stage, 1001);
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "late", QUERN_TASK_ARCHIVED);
    expect_error(stage, "late", "deadline exceeded");
    assert_int_equal(stage->start_count, 0);
    stage_stop(&worker);
    stage_free(stage);
}

static void thousands_past_their_deadline_do_not_hide_what_comes_after(void **state)
{
    (void)state;
    enum { LATE = 3000 };
    struct stage *stage = stage_new(true);
    char id[16];
    for (int i = 0; i < LATE; i++) {
        (void)snprintf(id, sizeof id, "late%d", i);
        stage_put_task(stage, &(quern_task){.id = id,
                                            .payload = "done",
                                            .payload_size = 4,
                                            .deadline_at_ms = stage->clock.wall_ms + 1000});
    }
    stage_put(stage, "after", "retry");
    stage_advance(stage, 1001);
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "after", QUERN_TASK_RETRY);
    assert_int_equal(stage->start_count, 1);
    assert_int_equal(stage_queue(stage, "default").counts[QUERN_TASK_ARCHIVED], LATE);
    stage_stop(&worker);
    stage_free(stage);
}

static void done_after_a_timeout_is_still_done(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put_task(stage, &(quern_task){.id = "a",
                                        .payload = "wait-done",
                                        .payload_size = 9,
                                        .timeout_ms = 50,
                                        .retention_ms = 60000});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "a", QUERN_TASK_COMPLETED);
    stage_stop(&worker);
    stage_free(stage);
}

static void an_operator_cancels_to_retry_or_to_the_archive(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put(stage, "retry", "wait");
    stage_put(stage, "archive", "wait");
    stage_put_task(
        stage, &(quern_task){
                   .id = "done", .payload = "wait-done", .payload_size = 9, .retention_ms = 60000});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_starts(stage, 3);
    stage_act(stage, QUERN_ACTION_CANCEL_RETRY, "retry");
    stage_act(stage, QUERN_ACTION_CANCEL_ARCHIVE, "archive");
    stage_act(stage, QUERN_ACTION_CANCEL_ARCHIVE, "done");
    stage_wait_state(stage, "retry", QUERN_TASK_RETRY);
    stage_wait_state(stage, "archive", QUERN_TASK_ARCHIVED);
    stage_wait_state(stage, "done", QUERN_TASK_COMPLETED);
    expect_error(stage, "retry", "cancelled");
    expect_error(stage, "archive", "cancelled");
    stage_stop(&worker);
    stage_free(stage);
}

static void a_handler_that_ignores_its_deadline_is_fenced_off_and_replaced(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    stage_put_task(stage, &(quern_task){.id = "deaf",
                                        .payload = "hold",
                                        .payload_size = 4,
                                        .timeout_ms = 30,
                                        .retry = RETRY_SOON});
    struct stage_worker worker;
    stage_start(stage, &worker,
                &(quern_worker_options){.concurrency = 1, .quarantine_after_ms = 50});
    stage_wait_state(stage, "deaf", QUERN_TASK_RETRY);
    expect_error(stage, "deaf", "timeout of 30ms");
    stage_put(stage, "next", "retry"); /* the only slot is free again */
    stage_wait_state(stage, "next", QUERN_TASK_RETRY);
    assert_int_equal(stage_stats(&worker).quarantined, 1);
    assert_true(stage_logged(stage, "handler ignores its cancellation"));
    stage_open_gate(stage); /* its "done" comes too late */
    stage_stop(&worker);
    assert_int_equal(stage_state(stage, "deaf"), QUERN_TASK_RETRY);
    stage_free(stage);
}

static void without_a_spare_thread_a_deaf_handler_costs_its_slot_until_it_returns(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    for (int i = 0; i < 2; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "deaf%d", i);
        stage_put_task(stage, &(quern_task){.id = id,
                                            .payload = "hold",
                                            .payload_size = 4,
                                            .timeout_ms = 30,
                                            .retry = RETRY_SOON});
    }
    struct stage_worker worker;
    stage_start(stage, &worker,
                &(quern_worker_options){.concurrency = 2, .quarantine_after_ms = 50});
    stage_wait_state(stage, "deaf0", QUERN_TASK_RETRY);
    stage_wait_state(stage, "deaf1", QUERN_TASK_RETRY);
    assert_int_equal(stage_stats(&worker).quarantined, 2);
    stage_put(stage, "one", "done"); /* one slot is left */
    stage_wait_state(stage, "one", 0);
    stage_open_gate(stage);
    stage_put(stage, "two", "done");
    stage_wait_state(stage, "two", 0);
    stage_stop(&worker);
    stage_free(stage);
}

/* A task that is active need not have started yet. */
static void note_start(struct stage *stage)
{
    pthread_mutex_lock(&stage->mutex);
    stage->start_count++;
    pthread_mutex_unlock(&stage->mutex);
}

static quern_outcome wait_and_explain(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    note_start(user);
    struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    (void)poll(&cancel, 1, TEST_PATIENCE_MS);
    return quern_run_fail(run, QUERN_RETRY, "row 7 of 9");
}

static void a_run_that_was_cut_short_keeps_the_reason_of_its_handler(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    quern_error error = {0};
    assert_ok(quern_mux_handle(stage->mux, "x", wait_and_explain, stage, NULL, &error), error);
    stage_put_task(stage, &(quern_task){.id = "timeout", .type = "x", .timeout_ms = 50});
    stage_put_task(stage, &(quern_task){.id = "retry", .type = "x"});
    stage_put_task(stage, &(quern_task){.id = "archive", .type = "x"});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_starts(stage, 3);
    stage_act(stage, QUERN_ACTION_CANCEL_RETRY, "retry");
    stage_act(stage, QUERN_ACTION_CANCEL_ARCHIVE, "archive");
    stage_wait_state(stage, "timeout", QUERN_TASK_RETRY);
    stage_wait_state(stage, "retry", QUERN_TASK_RETRY);
    stage_wait_state(stage, "archive", QUERN_TASK_ARCHIVED);
    expect_error(stage, "timeout", "timeout of 50ms: row 7 of 9");
    expect_error(stage, "retry", "cancelled: row 7 of 9");
    expect_error(stage, "archive", "cancelled: row 7 of 9");
    stage_stop(&worker);
    stage_free(stage);
}

/* Says that it has heard of its cancellation, and ends when the gate is open. */
static quern_outcome hear_and_hold(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    struct stage *stage = user;
    note_start(stage);
    struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    (void)poll(&cancel, 1, TEST_PATIENCE_MS);
    pthread_mutex_lock(&stage->mutex);
    stage->written_count++;
    while (!stage->gate) {
        pthread_cond_wait(&stage->change, &stage->mutex);
    }
    pthread_mutex_unlock(&stage->mutex);
    return QUERN_RETRY;
}

static void a_wish_for_the_archive_is_heard_after_one_for_a_retry(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    quern_error error = {0};
    assert_ok(quern_mux_handle(stage->mux, "x", hear_and_hold, stage, NULL, &error), error);
    static const char *const ids[] = {"a", "b", "c"};
    struct stage_worker worker;
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        stage_put_task(stage, &(quern_task){.id = ids[i], .type = "x"});
    }
    stage_start(stage, &worker, NULL);
    stage_wait_starts(stage, TEST_COUNT(ids));
    stage_act(stage, QUERN_ACTION_CANCEL_RETRY, "a");
    stage_act(stage, QUERN_ACTION_CANCEL_ARCHIVE, "b");
    stage_wait_written(stage, 2);
    stage_act(stage, QUERN_ACTION_CANCEL_ARCHIVE, "a");
    stage_act(stage, QUERN_ACTION_CANCEL_RETRY, "b");
    stage_act(stage, QUERN_ACTION_CANCEL_RETRY, "c");
    stage_wait_written(stage, 3); /* so it has heard of those before, too */
    stage_open_gate(stage);
    stage_wait_state(stage, "c", QUERN_TASK_RETRY);
    stage_wait_state(stage, "a", QUERN_TASK_ARCHIVED);
    stage_wait_state(stage, "b", QUERN_TASK_ARCHIVED);
    stage_stop(&worker);
    stage_free(stage);
}

static void a_command_is_terminated_at_its_timeout_and_keeps_what_it_said(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    quern_error error = {0};
    assert_ok(
        quern_mux_exec(stage->mux, "sh", "echo row 7 of 9 >&2; exec sleep 1000", NULL, &error),
        error);
    stage_put_task(stage, &(quern_task){.id = "a", .type = "sh", .timeout_ms = 300});
    struct stage_worker worker;
    stage_start(stage, &worker, NULL);
    stage_wait_state(stage, "a", QUERN_TASK_RETRY);
    expect_error(stage, "a", "timeout of 300ms: killed by signal 15 (SIGTERM): row 7 of 9");
    stage_stop(&worker);
    stage_free(stage);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_run_over_its_timeout_is_cancelled_and_retried),
    cmocka_unit_test(a_run_over_its_deadline_is_cancelled_and_then_archived),
    cmocka_unit_test(a_task_past_its_deadline_is_archived_without_a_run),
    cmocka_unit_test(thousands_past_their_deadline_do_not_hide_what_comes_after),
    cmocka_unit_test(done_after_a_timeout_is_still_done),
    cmocka_unit_test(an_operator_cancels_to_retry_or_to_the_archive),
    cmocka_unit_test(a_handler_that_ignores_its_deadline_is_fenced_off_and_replaced),
    cmocka_unit_test(without_a_spare_thread_a_deaf_handler_costs_its_slot_until_it_returns),
    cmocka_unit_test(a_run_that_was_cut_short_keeps_the_reason_of_its_handler),
    cmocka_unit_test(a_wish_for_the_archive_is_heard_after_one_for_a_retry),
    cmocka_unit_test(a_command_is_terminated_at_its_timeout_and_keeps_what_it_said),
};
TEST_MAIN_OVER_BROKERS(tests)
