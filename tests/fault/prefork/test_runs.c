/* SPDX-License-Identifier: MIT */
/* test_runs.c - handlers in children: the same outcomes, accessors, results, cancellations and
 * timeouts as in threads. */
#include "lib_worker.h"

#include <string.h>

#include "base/clock.h"

static const char *error_of(struct rig *rig, const char *id)
{
    static char text[8192];
    quern_task_info *info = rig_inspect(rig, id);
    (void)snprintf(text, sizeof text, "%s", quern_task_info_error(info));
    quern_task_info_free(info);
    return text;
}

static void outcomes_are_those_of_threads(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(NULL);
    rig_put(rig, "done", "done");
    rig_put(rig, "retry", "retry");
    rig_put(rig, "archive", "archive");
    rig_put(rig, "drop", "drop");
    rig_put(rig, "odd", "odd");
    rig_put(rig, "snooze", "snooze");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "done", 0);
    rig_wait_state(rig, "retry", QUERN_TASK_RETRY);
    rig_wait_state(rig, "archive", QUERN_TASK_ARCHIVED);
    rig_wait_state(rig, "drop", 0);
    rig_wait_state(rig, "odd", QUERN_TASK_RETRY);
    rig_wait_state(rig, "snooze", QUERN_TASK_RETRY);
    assert_string_equal(error_of(rig, "retry"), "broken");
    assert_string_equal(error_of(rig, "archive"), "no use");
    assert_string_equal(error_of(rig, "odd"), "handler returned the unknown outcome 77");
    rig_wait_reports(rig, 6);
    quern_worker_stats stats = rig_stats(&worker);
    assert_int_equal(stats.done, 1);
    assert_int_equal(stats.retried, 2);
    assert_int_equal(stats.archived, 1);
    assert_int_equal(stats.dropped, 1);
    assert_int_equal(stats.snoozed, 1);
    assert_int_equal(stats.crashed, 0);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 6);
    assert_true(rig_start_at(rig, 0).pid != getpid());
    rig_free(rig);
}

static void results_and_progress_are_stored(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(NULL);
    rig_put_task(
        rig,
        &(quern_task){.id = "kept", .payload = "result", .payload_size = 6, .retention_ms = 60000});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_result(rig, "kept", "42");
    rig_stop(&worker);
    rig_free(rig);
}

static quern_outcome look(quern_run *run, const quern_task *task, void *user)
{
    struct rig *rig = user;
    char text[1024];
    /* Children that start late, beside load, leave it to be given back first. */
    bool is_first =
        quern_run_cause(run) == QUERN_CAUSE_NONE || quern_run_cause(run) == QUERN_CAUSE_GIVEN_BACK;
    (void)snprintf(text, sizeof text, "%s|%s|%s|%.*s|%zu|%s=%s|%s|%lld|%lld|%d|%d|%lld|%lld|%d|%s",
                   task->id, task->queue, task->type, (int)task->payload_size,
                   (const char *)task->payload, task->header_count, task->headers[0].name,
                   task->headers[0].value, task->limit_key, (long long)task->retry_max,
                   (long long)task->retention_ms, quern_run_fence(run) > 0, is_first ? 0 : 1,
                   (long long)quern_run_retry_count(run), (long long)quern_run_crash_count(run),
                   quern_run_deadline_at_ms(run) > 0, quern_run_queue(run));
    pthread_mutex_lock(&rig->mutex);
    (void)snprintf(rig->seen, sizeof rig->seen, "%s", text);
    pthread_mutex_unlock(&rig->mutex);
    return QUERN_DONE;
}

static quern_outcome count_and_pass(quern_run *run, const quern_task *task, quern_handler next,
                                    void *next_user, void *user)
{
    struct rig *rig = user;
    pthread_mutex_lock(&rig->mutex);
    rig->written_count++;
    pthread_mutex_unlock(&rig->mutex);
    return next(run, task, next_user);
}

static void prepare_look(struct rig *rig)
{
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "look", look, rig, NULL, &error), error);
    assert_ok(quern_mux_use(rig->mux, count_and_pass, rig, &error), error);
}

static void a_handler_sees_its_task_through_the_middlewares(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare_look);
    const quern_header headers[] = {{"tenant", "a b"}};
    rig_put_task(rig, &(quern_task){.id = "x",
                                    .type = "look:here",
                                    .payload = "bytes",
                                    .payload_size = 5,
                                    .headers = headers,
                                    .header_count = 1,
                                    .limit_key = "k",
                                    .retry_max = 7,
                                    .timeout_ms = 60000});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "x", 0);
    rig_stop(&worker);
    if (strstr(rig->seen, "x|default|look:here|bytes|1|tenant=a b|k|7|0|1|0|0|0|1|") == NULL) {
        fail_msg("seen: %s\n%s", rig->seen, rig->log);
    }
    assert_int_equal(rig->written_count, 1);
    rig_free(rig);
}

static void a_cancelled_run_sees_it(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(NULL);
    rig_put(rig, "a", "wait");
    rig_put(rig, "b", "wait-done");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 2);
    rig_act(rig, QUERN_ACTION_CANCEL_RETRY, "a");
    rig_act(rig, QUERN_ACTION_CANCEL_ARCHIVE, "b");
    rig_wait_state(rig, "a", QUERN_TASK_RETRY);
    rig_wait_state(rig, "b", 0);
    assert_string_equal(error_of(rig, "a"), "cancelled");
    rig_wait_empty(rig);
    assert_string_equal(rig_start_at(rig, 0).reason, "cancelled");
    rig_stop(&worker);
    rig_free(rig);
}

static void a_timeout_cancels_and_then_kills(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(NULL);
    rig_put_task(
        rig, &(quern_task){.id = "heeds", .payload = "wait", .payload_size = 4, .timeout_ms = 700});
    rig_put_task(
        rig,
        &(quern_task){.id = "ignores", .payload = "spin", .payload_size = 4, .timeout_ms = 700});
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2, .quarantine_after_ms = 100});
    rig_wait_state(rig, "heeds", QUERN_TASK_RETRY);
    rig_wait_state(rig, "ignores", QUERN_TASK_RETRY);
    assert_string_equal(error_of(rig, "heeds"), "timeout of 700ms");
    assert_string_equal(error_of(rig, "ignores"), "timeout of 700ms");
    rig_wait_log(rig, "handler ignores its cancellation");
    rig_put(rig, "after", "done");
    rig_wait_state(rig, "after", 0);
    quern_worker_stats stats = rig_stats(&worker);
    assert_int_equal(stats.crashed, 0);
    assert_int_equal(stats.quarantined, 0);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_shutdown_kills_what_does_not_end(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(NULL);
    rig_put(rig, "spin", "spin");
    rig_put(rig, "hold", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2, .shutdown_timeout_ms = 50});
    rig_wait_starts(rig, 2);
    rig_stop(&worker);
    assert_int_equal(rig_state(rig, "spin"), QUERN_TASK_PENDING);
    assert_int_equal(rig_state(rig, "hold"), QUERN_TASK_PENDING);
    quern_task_info *info = rig_inspect(rig, "spin");
    assert_int_equal(quern_task_info_crash_count(info), 0);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    quern_task_info_free(info);
    rig_free(rig);
}

static int64_t return_two_hours(int64_t retry_count, const quern_task *task, void *user)
{
    (void)retry_count;
    (void)task;
    (void)user;
    return 7200000;
}

static void prepare_delay(struct rig *rig)
{
    quern_error error = {0};
    const quern_handler_options options = {.retry_delay_ms = return_two_hours};
    assert_ok(quern_mux_handle(rig->mux, "late", rig_handler(), rig, &options, &error), error);
}

static void the_delay_of_a_retry_is_asked_in_the_child(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare_delay);
    rig_put_task(rig,
                 &(quern_task){.id = "x", .type = "late", .payload = "retry", .payload_size = 5});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "x", QUERN_TASK_RETRY);
    quern_task_info *info = rig_inspect(rig, "x");
    assert_true(quern_task_info_due_at_ms(info) >
                qn_clock_wall_ms(qn_clock_system()) + INT64_C(7000000));
    quern_task_info_free(info);
    rig_stop(&worker);
    rig_free(rig);
}

static void prepare_early(struct rig *rig)
{
    quern_error error = {0};
    const quern_handler_options options = {.ack = QUERN_ACK_EARLY};
    assert_ok(quern_mux_handle(rig->mux, "early", rig_handler(), rig, &options, &error), error);
}

static void an_early_ack_is_written_before_the_child_starts(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare_early);
    rig_put_task(rig,
                 &(quern_task){.id = "x", .type = "early", .payload = "hold", .payload_size = 4});
    rig_put_task(rig,
                 &(quern_task){.id = "y", .type = "early", .payload = "die", .payload_size = 3});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 2);
    assert_int_equal(rig_state(rig, "x"), 0);
    assert_int_equal(rig_state(rig, "y"), 0);
    rig_open_gate(rig);
    rig_wait_reports(rig, 2);
    assert_int_equal(rig_stats(&worker).done, 2);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 2);
    rig_free(rig);
}

static void prepare_early_ahead(struct rig *rig)
{
    quern_error error = {0};
    const quern_handler_options options = {.ack = QUERN_ACK_EARLY, .prefetch_max = 16};
    assert_ok(quern_mux_handle(rig->mux, "early", rig_handler(), rig, &options, &error), error);
}

struct ahead {
    struct rig *rig;
    struct rig_worker *worker;
};

static bool has_given_back_or_acked(void *user)
{
    const struct ahead *ahead = user;
    return rig_stats(ahead->worker).given_back > 0 ||
           rig_queue(ahead->rig, "default").processed_total > 2;
}

/* What is written before its turn is lost with the worker, and waits for no other one. */
static void no_early_ack_is_written_before_there_is_a_child_for_it(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    struct rig *rig = rig_new_prefork(prepare_early_ahead);
    char ids[COUNT][8];
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "e%zu", i);
        rig_put_task(rig, &(quern_task){
                              .id = ids[i], .type = "early", .payload = "hold", .payload_size = 4});
    }
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2, .drain = true});
    rig_wait_starts(rig, 2);
    assert_true(test_until(has_given_back_or_acked, &(struct ahead){rig, &worker}));
    assert_int_equal(rig_queue(rig, "default").processed_total, 2);
    rig_open_gate(rig);
    assert_ok(rig_join(&worker), worker.error);
    assert_int_equal(rig->start_count, COUNT);
    assert_int_equal(rig_queue(rig, "default").processed_total, COUNT);
    rig_free(rig);
}

static quern_outcome step(quern_run *run, const quern_task *task, void *user)
{
    (void)user;
    if (task->payload_size > 0) {
        return quern_run_fail(run, QUERN_ARCHIVE, "second step");
    }
    return quern_run_change_payload(run, "next", 4, NULL) == QUERN_OK ? quern_run_again_in(run, 1)
                                                                      : QUERN_DROP;
}

static void prepare_step(struct rig *rig)
{
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "step", step, rig, NULL, &error), error);
}

static void a_checkpoint_of_a_child_is_kept(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare_step);
    rig_put_task(rig, &(quern_task){.id = "x", .type = "step"});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "x", QUERN_TASK_ARCHIVED);
    assert_string_equal(error_of(rig, "x"), "second step");
    rig_stop(&worker);
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

static void prepare_going(struct rig *rig)
{
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "go", go_elsewhere, rig, NULL, &error), error);
}

static void a_checkpoint_of_a_child_stays_whole_at_the_end_of_its_worker(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare_going);
    struct rig_worker worker;
    rig_put_task(rig, &(quern_task){.id = "a", .type = "go", .payload = "wait", .payload_size = 4});
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .shutdown_timeout_ms = 50});
    rig_wait_starts(rig, 1);
    rig_stop(&worker);
    assert_int_equal(rig_queue(rig, "default").size, 0);
    assert_int_equal(rig_queue(rig, "default").failed_total, 0);
    assert_int_equal(rig_queue(rig, "other").counts[QUERN_TASK_RETRY], 1);
    rig_free(rig);
}

static void deaths_are_charged_with_their_facts(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(NULL);
    struct rig_worker worker;
    rig_put_task(rig, &(quern_task){.id = "exit",
                                    .payload = "exit",
                                    .payload_size = 4,
                                    .retry_max = QUERN_RETRY_NEVER});
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "exit", QUERN_TASK_ARCHIVED);
    assert_non_null(strstr(error_of(rig, "exit"), "exit status 3"));
    assert_non_null(strstr(error_of(rig, "exit"), "last words"));
    rig_put(rig, "after", "done");
    rig_wait_state(rig, "after", 0);
    assert_int_equal(rig_stats(&worker).crashed, 1);
    rig_stop(&worker);
    rig_free(rig);
}

static void prepare_command(struct rig *rig)
{
    quern_error error = {0};
    assert_ok(quern_mux_exec(rig->mux, "sh", "exit 65", NULL, &error), error);
}

static void commands_run_beside_children(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare_command);
    rig_put_task(rig, &(quern_task){.id = "x", .type = "sh"});
    rig_put(rig, "y", "archive");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "x", QUERN_TASK_ARCHIVED);
    rig_wait_state(rig, "y", QUERN_TASK_ARCHIVED);
    rig_stop(&worker);
    rig_free(rig);
}

static void many_short_runs_are_each_run_once(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    struct rig *rig = rig_new_prefork(NULL);
    rig_put_many(rig, "default", "m", COUNT);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 4, .drain = true});
    assert_ok(rig_join(&worker), worker.error);
    assert_int_equal(rig->start_count, COUNT);
    assert_int_equal(rig->report_count, COUNT);
    assert_int_equal(rig_queue(rig, "default").processed_total, COUNT);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(outcomes_are_those_of_threads),
    cmocka_unit_test(results_and_progress_are_stored),
    cmocka_unit_test(a_handler_sees_its_task_through_the_middlewares),
    cmocka_unit_test(a_cancelled_run_sees_it),
    cmocka_unit_test(a_timeout_cancels_and_then_kills),
    cmocka_unit_test(a_shutdown_kills_what_does_not_end),
    cmocka_unit_test(the_delay_of_a_retry_is_asked_in_the_child),
    cmocka_unit_test(an_early_ack_is_written_before_the_child_starts),
    cmocka_unit_test(no_early_ack_is_written_before_there_is_a_child_for_it),
    cmocka_unit_test(a_checkpoint_of_a_child_is_kept),
    cmocka_unit_test(a_checkpoint_of_a_child_stays_whole_at_the_end_of_its_worker),
    cmocka_unit_test(deaths_are_charged_with_their_facts),
    cmocka_unit_test(commands_run_beside_children),
    cmocka_unit_test(many_short_runs_are_each_run_once),
};
TEST_MAIN_OVER_BROKERS(tests)
