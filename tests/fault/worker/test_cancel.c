/* SPDX-License-Identifier: MIT */
/* test_cancel.c - runs that end before their time: timeout, deadline, operators, and
 * handlers that do not listen. */
#include "lib_worker.h"
#include "task/retry.h"

#include <poll.h>
#include <string.h>

#define RETRY_SOON                                                                                 \
    {                                                                                              \
        .kind = QN_BACKOFF_FIXED, .base_ms = 3600000                                               \
    }

static void expect_error(struct rig *rig, const char *id, const char *error)
{
    quern_task_info *info = rig_inspect(rig, id);
    assert_string_equal(quern_task_info_error(info), error);
    quern_task_info_free(info);
}

static void a_run_over_its_timeout_is_cancelled_and_retried(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put_task(rig,
                 &(quern_task){.id = "a", .payload = "wait", .payload_size = 4, .timeout_ms = 50});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "a", QUERN_TASK_RETRY);
    expect_error(rig, "a", "timeout of 50ms");
    assert_string_equal(rig_start_at(rig, 0).reason, "timeout");
    rig_stop(&worker);
    rig_free(rig);
}

static void a_run_over_its_deadline_is_cancelled_and_then_archived(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put_task(rig, &(quern_task){.id = "a",
                                    .payload = "wait",
                                    .payload_size = 4,
                                    .deadline_at_ms = rig->clock.wall_ms + 1000,
                                    .retry = QUERN_BACKOFF_FIXED(1)});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    rig_advance(rig, 1001);
    rig_wait_reports(rig, 1);
    rig_advance(rig, 2); /* the retry is due */
    rig_wait_state(rig, "a", QUERN_TASK_ARCHIVED);
    expect_error(rig, "a", "deadline exceeded");
    assert_int_equal(rig->start_count, 1);
    assert_string_equal(rig_start_at(rig, 0).reason, "deadline exceeded");
    rig_stop(&worker);
    rig_free(rig);
}

static void a_task_past_its_deadline_is_archived_without_a_run(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put_task(rig, &(quern_task){.id = "late",
                                    .payload = "done",
                                    .payload_size = 4,
                                    .deadline_at_ms = rig->clock.wall_ms + 1000});
    rig_advance(rig, 1001);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "late", QUERN_TASK_ARCHIVED);
    expect_error(rig, "late", "deadline exceeded");
    assert_int_equal(rig->start_count, 0);
    rig_stop(&worker);
    rig_free(rig);
}

static void thousands_past_their_deadline_do_not_hide_what_comes_after(void **state)
{
    (void)state;
    enum { LATE = 3000 };
    struct rig *rig = rig_new(true);
    char id[16];
    for (int i = 0; i < LATE; i++) {
        (void)snprintf(id, sizeof id, "late%d", i);
        rig_put_task(rig, &(quern_task){.id = id,
                                        .payload = "done",
                                        .payload_size = 4,
                                        .deadline_at_ms = rig->clock.wall_ms + 1000});
    }
    rig_put(rig, "after", "retry");
    rig_advance(rig, 1001);
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "after", QUERN_TASK_RETRY);
    assert_int_equal(rig->start_count, 1);
    assert_int_equal(rig_queue(rig, "default").counts[QUERN_TASK_ARCHIVED], LATE);
    rig_stop(&worker);
    rig_free(rig);
}

static void done_after_a_timeout_is_still_done(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put_task(rig, &(quern_task){.id = "a",
                                    .payload = "wait-done",
                                    .payload_size = 9,
                                    .timeout_ms = 50,
                                    .retention_ms = 60000});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "a", QUERN_TASK_COMPLETED);
    rig_stop(&worker);
    rig_free(rig);
}

static void an_operator_cancels_to_retry_or_to_the_archive(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "retry", "wait");
    rig_put(rig, "archive", "wait");
    rig_put_task(
        rig, &(quern_task){
                 .id = "done", .payload = "wait-done", .payload_size = 9, .retention_ms = 60000});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 3);
    rig_act(rig, QUERN_ACTION_CANCEL_RETRY, "retry");
    rig_act(rig, QUERN_ACTION_CANCEL_ARCHIVE, "archive");
    rig_act(rig, QUERN_ACTION_CANCEL_ARCHIVE, "done");
    rig_wait_state(rig, "retry", QUERN_TASK_RETRY);
    rig_wait_state(rig, "archive", QUERN_TASK_ARCHIVED);
    rig_wait_state(rig, "done", QUERN_TASK_COMPLETED);
    expect_error(rig, "retry", "cancelled");
    expect_error(rig, "archive", "cancelled");
    rig_stop(&worker);
    rig_free(rig);
}

static void a_handler_that_ignores_its_deadline_is_fenced_off_and_replaced(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put_task(rig, &(quern_task){.id = "deaf",
                                    .payload = "hold",
                                    .payload_size = 4,
                                    .timeout_ms = 30,
                                    .retry = RETRY_SOON});
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .quarantine_after_ms = 50});
    rig_wait_state(rig, "deaf", QUERN_TASK_RETRY);
    expect_error(rig, "deaf", "timeout of 30ms");
    rig_put(rig, "next", "retry"); /* the only slot is free again */
    rig_wait_state(rig, "next", QUERN_TASK_RETRY);
    assert_int_equal(rig_stats(&worker).quarantined, 1);
    assert_true(rig_logged(rig, "handler ignores its cancellation"));
    rig_open_gate(rig); /* its "done" comes too late */
    rig_stop(&worker);
    assert_int_equal(rig_state(rig, "deaf"), QUERN_TASK_RETRY);
    rig_free(rig);
}

static void without_a_spare_thread_a_deaf_handler_costs_its_slot_until_it_returns(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    for (int i = 0; i < 2; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "deaf%d", i);
        rig_put_task(rig, &(quern_task){.id = id,
                                        .payload = "hold",
                                        .payload_size = 4,
                                        .timeout_ms = 30,
                                        .retry = RETRY_SOON});
    }
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2, .quarantine_after_ms = 50});
    rig_wait_state(rig, "deaf0", QUERN_TASK_RETRY);
    rig_wait_state(rig, "deaf1", QUERN_TASK_RETRY);
    assert_int_equal(rig_stats(&worker).quarantined, 2);
    rig_put(rig, "one", "done"); /* one slot is left */
    rig_wait_state(rig, "one", 0);
    rig_open_gate(rig);
    rig_put(rig, "two", "done");
    rig_wait_state(rig, "two", 0);
    rig_stop(&worker);
    rig_free(rig);
}

/* A task that is active need not have started yet. */
static void note_start(struct rig *rig)
{
    pthread_mutex_lock(&rig->mutex);
    rig->start_count++;
    pthread_mutex_unlock(&rig->mutex);
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
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "x", wait_and_explain, rig, NULL, &error), error);
    rig_put_task(rig, &(quern_task){.id = "timeout", .type = "x", .timeout_ms = 50});
    rig_put_task(rig, &(quern_task){.id = "retry", .type = "x"});
    rig_put_task(rig, &(quern_task){.id = "archive", .type = "x"});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 3);
    rig_act(rig, QUERN_ACTION_CANCEL_RETRY, "retry");
    rig_act(rig, QUERN_ACTION_CANCEL_ARCHIVE, "archive");
    rig_wait_state(rig, "timeout", QUERN_TASK_RETRY);
    rig_wait_state(rig, "retry", QUERN_TASK_RETRY);
    rig_wait_state(rig, "archive", QUERN_TASK_ARCHIVED);
    expect_error(rig, "timeout", "timeout of 50ms: row 7 of 9");
    expect_error(rig, "retry", "cancelled: row 7 of 9");
    expect_error(rig, "archive", "cancelled: row 7 of 9");
    rig_stop(&worker);
    rig_free(rig);
}

/* Reports that it has noticed its cancellation, and ends when the gate is open. */
static quern_outcome record_cancel_and_hold(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    struct rig *rig = user;
    note_start(rig);
    struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    (void)poll(&cancel, 1, TEST_PATIENCE_MS);
    pthread_mutex_lock(&rig->mutex);
    rig->written_count++;
    while (!rig->gate) {
        pthread_cond_wait(&rig->change, &rig->mutex);
    }
    pthread_mutex_unlock(&rig->mutex);
    return QUERN_RETRY;
}

static void an_archive_request_is_obeyed_after_a_retry_request(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "x", record_cancel_and_hold, rig, NULL, &error), error);
    static const char *const ids[] = {"a", "b", "c"};
    struct rig_worker worker;
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        rig_put_task(rig, &(quern_task){.id = ids[i], .type = "x"});
    }
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, TEST_COUNT(ids));
    rig_act(rig, QUERN_ACTION_CANCEL_RETRY, "a");
    rig_act(rig, QUERN_ACTION_CANCEL_ARCHIVE, "b");
    rig_wait_written(rig, 2);
    rig_act(rig, QUERN_ACTION_CANCEL_ARCHIVE, "a");
    rig_act(rig, QUERN_ACTION_CANCEL_RETRY, "b");
    rig_act(rig, QUERN_ACTION_CANCEL_RETRY, "c");
    rig_wait_written(rig, 3); /* so it has received the earlier ones, too */
    rig_open_gate(rig);
    rig_wait_state(rig, "c", QUERN_TASK_RETRY);
    rig_wait_state(rig, "a", QUERN_TASK_ARCHIVED);
    rig_wait_state(rig, "b", QUERN_TASK_ARCHIVED);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_command_is_terminated_at_its_timeout_and_keeps_its_output(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    assert_ok(quern_mux_exec(rig->mux, "sh", "echo row 7 of 9 >&2; exec sleep 1000", NULL, &error),
              error);
    rig_put_task(rig, &(quern_task){.id = "a", .type = "sh", .timeout_ms = 900});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "a", QUERN_TASK_RETRY);
    expect_error(rig, "a", "timeout of 900ms: killed by signal 15 (SIGTERM): row 7 of 9");
    rig_stop(&worker);
    rig_free(rig);
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
    cmocka_unit_test(an_archive_request_is_obeyed_after_a_retry_request),
    cmocka_unit_test(a_command_is_terminated_at_its_timeout_and_keeps_its_output),
};
TEST_MAIN_OVER_BROKERS(tests)
