/* SPDX-License-Identifier: MIT */
/* test_lease.c - leases and clocks: lost leases, salvage, stale outcomes, jumps, early
 * acks, and what a dead worker left behind. */
#include "lib_worker.h"

#include <string.h>

#include "worker/fetch/response.h"
#include "worker/internal.h"
#include "worker/keeper/upkeep.h"
#include "worker/run/execute.h"
#include "worker/run/mux.h"

#define LEASE_MS INT64_C(30000)

/* Ends the lease of the task behind the worker's back. The worker's keeper may end it, too, or
 * extend it once more when it happens to ask at this moment: hence the loop. */
static void lapse(struct rig *rig, const char *id)
{
    static const char *const queue = "default";
    quern_error error = {0};
    quern_cause cause = QUERN_CAUSE_NONE;
    while (cause != QUERN_CAUSE_LEASE_EXPIRED) {
        size_t recovered = 0;
        rig_advance(rig, LEASE_MS + 1);
        assert_ok(qn_broker_recover(rig->broker, (struct qn_upkeep){{&queue, 1}, 10}, NULL,
                                    &recovered, &error),
                  error);
        quern_task_info *info = rig_inspect(rig, id);
        cause = quern_task_info_cause(info);
        quern_task_info_free(info);
    }
}

/* Keeps the worker from taking the task again: it must stay pending. */
static void pause_queue(struct rig *rig)
{
    quern_error error = {0};
    assert_ok(qn_broker_pause(rig->broker, "default", true, &error), error);
}

static void a_success_after_a_lost_lease_is_salvaged(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put(rig, "a", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    pause_queue(rig);
    lapse(rig, "a");
    rig_wait_state(rig, "a", QUERN_TASK_PENDING);
    rig_open_gate(rig);
    rig_wait_state(rig, "a", 0);
    rig_wait_reports(rig, 1);
    quern_worker_stats stats = rig_stats(&worker);
    assert_int_equal(stats.salvaged, 1);
    assert_int_equal(stats.done, 1);
    assert_int_equal(stats.stale, 0);
    rig_stop(&worker);
    assert_int_equal(rig_queue(rig, "default").processed_total, 1);
    assert_int_equal(rig->start_count, 1);
    rig_free(rig);
}

static void a_failure_after_a_lost_lease_changes_nothing(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put(rig, "a", "hold-retry");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    pause_queue(rig);
    lapse(rig, "a");
    rig_wait_state(rig, "a", QUERN_TASK_PENDING);
    rig_open_gate(rig);
    rig_wait_reports(rig, 1);
    assert_int_equal(rig->stale_count, 1);
    assert_int_equal(rig_stats(&worker).stale, 1);
    rig_stop(&worker);
    quern_task_info *info = rig_inspect(rig, "a");
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    quern_task_info_free(info);
    assert_int_equal(rig_queue(rig, "default").failed_total, 0);
    rig_free(rig);
}

static void the_outcome_of_an_overtaken_run_is_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put(rig, "a", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    lapse(rig, "a");
    rig_wait_starts(rig, 2); /* the same task again, by the same worker */
    rig_open_gate(rig);
    rig_wait_reports(rig, 2);
    quern_worker_stats stats = rig_stats(&worker);
    assert_int_equal(stats.done, 1);
    assert_int_equal(stats.stale, 1);
    struct rig_start second = rig_start_at(rig, 1);
    assert_int_equal(second.cause, QUERN_CAUSE_LEASE_EXPIRED);
    rig_stop(&worker);
    assert_int_equal(rig_queue(rig, "default").processed_total, 1);
    rig_free(rig);
}

static void a_lost_lease_cancels_its_run(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put(rig, "a", "wait");
    struct rig_worker worker;
    /* Short, so that the keeper asks often in real time. */
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .lease_ms = 1000});
    rig_wait_starts(rig, 1);
    pause_queue(rig);
    lapse(rig, "a");
    rig_wait_reports(rig, 1);
    assert_string_equal(rig_start_at(rig, 0).reason, "lease lost");
    assert_int_equal(rig_stats(&worker).lost_leases, 1);
    rig_stop(&worker);
    assert_int_equal(rig_state(rig, "a"), QUERN_TASK_PENDING);
    rig_free(rig);
}

static void leases_are_prolonged_while_a_handler_runs(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put(rig, "a", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2, .lease_ms = 1000});
    rig_wait_starts(rig, 1);
    int64_t started_at_ms = test_now_ms();
    while (test_now_ms() - started_at_ms < 2500) {
        test_pause_ms(10);
    }
    rig_open_gate(rig);
    rig_wait_state(rig, "a", 0);
    rig_wait_reports(rig, 1);
    assert_int_equal(rig->start_count, 1);
    assert_int_equal(rig_stats(&worker).lost_leases, 0);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_clock_that_jumps_neither_kills_nor_loses_runs(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put_task(
        rig, &(quern_task){.id = "a", .payload = "hold", .payload_size = 4, .timeout_ms = 60000});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    static const int64_t jumps_ms[] = {3600000, -7200000, 3600000};
    for (size_t i = 0; i < TEST_COUNT(jumps_ms); i++) {
        quern_clock_jump(&rig->clock, jumps_ms[i]);
        int64_t jumped_at_ms = test_now_ms();
        while (test_now_ms() - jumped_at_ms < 1100) { /* every timer of the keeper rings */
            test_pause_ms(10);
        }
        assert_int_equal(rig_state(rig, "a"), QUERN_TASK_ACTIVE);
    }
    rig_put(rig, "b", "done");
    rig_wait_state(rig, "b", 0);
    rig_open_gate(rig);
    rig_wait_state(rig, "a", 0);
    assert_string_equal(rig_start_at(rig, 0).reason, "");
    assert_int_equal(rig_stats(&worker).lost_leases, 0);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 2);
    rig_free(rig);
}

static void a_retry_that_was_stored_while_the_clock_was_ahead_comes_in_time(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put_task(rig, &(quern_task){.id = "a",
                                    .payload = "retry",
                                    .payload_size = 5,
                                    .retry = QUERN_BACKOFF_FIXED(60000)});
    struct rig_worker worker;
    quern_clock_jump(&rig->clock, 3600000);
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "a", QUERN_TASK_RETRY);
    quern_clock_jump(&rig->clock, -3600000);
    rig_advance(rig, 60000);
    rig_wait_starts(rig, 2);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_timeout_follows_the_time_that_passes(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put_task(rig, &(quern_task){.id = "a",
                                    .payload = "wait",
                                    .payload_size = 4,
                                    .timeout_ms = 10000,
                                    .retry = QUERN_BACKOFF_FIXED(3600000)});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    quern_clock_jump(&rig->clock, -7200000); /* must not make it immortal */
    rig_advance(rig, 10001);
    rig_wait_state(rig, "a", QUERN_TASK_RETRY);
    assert_string_equal(rig_start_at(rig, 0).reason, "timeout");
    rig_stop(&worker);
    rig_free(rig);
}

static quern_outcome inspect_and_fail(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    struct rig *rig = user;
    int state = rig_state(rig, quern_run_task_id(run));
    return quern_run_fail(run, QUERN_RETRY, "state was %d", state);
}

static void an_early_ack_is_confirmed_before_the_handler_starts(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    const quern_handler_options early = {.ack = QUERN_ACK_EARLY};
    assert_ok(quern_mux_handle(rig->mux, "early", inspect_and_fail, rig, &early, &error), error);
    rig_put_task(rig, &(quern_task){.id = "a", .type = "early"});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_reports(rig, 1);
    rig_wait_log(rig, "run failed after its early ack, it is lost");
    rig_wait_log(rig, "error=\"state was 0\"");
    assert_int_equal(rig_state(rig, "a"), 0);
    rig_stop(&worker);
    assert_int_equal(rig_queue(rig, "default").processed_total, 1);
    assert_int_equal(rig_queue(rig, "default").failed_total, 0);
    rig_free(rig);
}

/* Leases the next task of the queue for this worker, past its threads. */
static struct quern_run *lease_run(struct rig *rig, quern_worker *worker)
{
    quern_error error = {0};
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 1};
    struct qn_leased *leased = NULL;
    struct qn_exchange exchange = {.worker_id = worker->id,
                                   .lease_ms = LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 1,
                                   .start_count_now = 1};
    struct qn_exchange_reply reply = {.runs = &leased};
    assert_ok(qn_broker_exchange(rig->broker, &exchange, &reply, &error), error);
    assert_int_equal(reply.run_count, 1);
    struct quern_run *run = qn_run_new(NULL, leased, &qn_execute_sink, worker);
    assert_non_null(run);
    run->lease_until_boot_ms = leased->leased_at_boot_ms + LEASE_MS;
    return run;
}

static void an_early_ack_of_an_overtaken_run_is_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    quern_error error = {0};
    quern_worker *worker = NULL;
    const quern_worker_options options = {.clock = &rig->clock};
    assert_ok(quern_worker_new(rig->url, rig->mux, &options, &worker, &error), error);
    assert_ok(qn_upkeep_heartbeat(worker, &error), error);
    rig_put(rig, "a", "done");
    struct quern_run *first = lease_run(rig, worker);
    lapse(rig, "a");
    rig_advance(rig, 60000); /* a suspect may have to wait */
    static const char *const queue = "default";
    size_t moved = 0;
    int64_t next_due_at_ms = 0;
    assert_ok(qn_broker_forward(rig->broker, (struct qn_upkeep){{&queue, 1}, 10}, &moved,
                                &next_due_at_ms, &error),
              error);
    struct quern_run *second = lease_run(rig, worker);
    assert_false(qn_ack_early_confirm(worker, first));
    assert_true(first->lost);
    assert_int_equal(rig_state(rig, "a"), QUERN_TASK_ACTIVE);
    assert_true(qn_ack_early_confirm(worker, second));
    assert_int_equal(rig_state(rig, "a"), 0);
    qn_run_free(first);
    qn_run_free(second);
    quern_worker_free(worker);
    rig_free(rig);
}

/* A worker without threads that holds one run, which waits in its run table. */
static struct quern_run *hold_run(struct rig *rig, quern_worker **ret_worker)
{
    quern_error error = {0};
    const quern_worker_options options = {.clock = &rig->clock,
                                          .retry = QUERN_BACKOFF_FIXED(60000)};
    assert_ok(quern_worker_new(rig->url, rig->mux, &options, ret_worker, &error), error);
    quern_worker *worker = *ret_worker;
    assert_ok(qn_upkeep_heartbeat(worker, &error), error);
    struct quern_run *run = lease_run(rig, worker);
    pthread_mutex_lock(&worker->mutex);
    worker->state = QN_WORKER_RUNNING;
    qn_run_table_add(&worker->run_table, run);
    pthread_mutex_unlock(&worker->mutex);
    return run;
}

/* Tells the broker of what has ended. */
static void report_outcomes(quern_worker *worker)
{
    quern_error error = {0};
    struct qn_exchange_request *request = &worker->pump.first;
    pthread_mutex_lock(&worker->mutex);
    worker->state = QN_WORKER_DRAINING; /* it fetches nothing */
    pthread_mutex_unlock(&worker->mutex);
    pthread_mutex_lock(&worker->pump.plan_mutex);
    qn_request_build(worker, request, qn_clock_mono_ns());
    if (request->open) {
        assert_ok(qn_response_exchange(worker, request, 0, &error), error);
    }
    pthread_mutex_unlock(&worker->pump.plan_mutex);
}

static void a_run_whose_lease_is_over_is_not_started(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    quern_worker *worker = NULL;
    rig_put(rig, "a", "done");
    struct quern_run *run = hold_run(rig, &worker);
    rig_advance(rig, LEASE_MS);
    qn_execute_item(&run->item);
    report_outcomes(worker);
    assert_int_equal(rig->start_count, 0);
    assert_int_equal(worker->stats.lost_leases, 1);
    assert_int_equal(worker->stats.stale, 0);
    assert_int_equal(worker->run_table.held_count, 0);
    assert_int_equal(rig_state(rig, "a"), QUERN_TASK_ACTIVE); /* the recovery notes the cause */
    quern_worker_free(worker);
    rig_free(rig);
}

static void a_run_whose_lease_is_nearly_over_is_started(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    quern_worker *worker = NULL;
    rig_put(rig, "a", "done");
    struct quern_run *run = hold_run(rig, &worker);
    rig_advance(rig, LEASE_MS - 1);
    qn_execute_item(&run->item);
    report_outcomes(worker);
    assert_int_equal(rig->start_count, 1);
    assert_int_equal(rig_state(rig, "a"), 0);
    quern_worker_free(worker);
    rig_free(rig);
}

static bool has_finished_one(void *user)
{
    quern_worker *worker = user;
    pthread_mutex_lock(&worker->mutex);
    bool has = worker->run_table.finished_count == 1;
    pthread_mutex_unlock(&worker->mutex);
    return has;
}

/* The first sending never arrived, so the lease is new. The worker cannot know that. */
static void a_lease_that_may_be_over_goes_back_to_its_queue(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    quern_worker *worker = NULL;
    quern_error error = {0};
    const quern_worker_options options = {.clock = &rig->clock};
    assert_ok(quern_worker_new(rig->url, rig->mux, &options, &worker, &error), error);
    assert_ok(qn_upkeep_heartbeat(worker, &error), error);
    assert_ok(qn_pool_new(1, &worker->pool, &error), error);
    qn_mux_freeze(worker->mux); /* ending the pool thaws it */
    rig_put(rig, "a", "done");
    struct qn_exchange_request *request = &worker->pump.first;
    worker->state = QN_WORKER_RUNNING;
    pthread_mutex_lock(&worker->pump.plan_mutex);
    qn_request_build(worker, request, qn_clock_mono_ns());
    assert_true(request->open);
    request->in_doubt = true;
    request->sent_at_boot_ms = qn_clock_boot_ms(worker->clock);
    rig_advance(rig, LEASE_MS);
    assert_ok(qn_response_exchange(worker, request, 0, &error), error);
    pthread_mutex_unlock(&worker->pump.plan_mutex);
    assert_true(test_until(has_finished_one, worker));
    report_outcomes(worker);
    assert_int_equal(rig->start_count, 0);
    assert_int_equal(worker->stats.lost_leases, 0);
    assert_int_equal(worker->stats.given_back, 1);
    assert_int_equal(rig_state(rig, "a"), QUERN_TASK_PENDING);
    quern_worker_free(worker);
    rig_free(rig);
}

static void a_run_that_is_cancelled_before_its_start_uses_up_nothing(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    quern_worker *worker = NULL;
    rig_put(rig, "a", "done");
    struct quern_run *run = hold_run(rig, &worker);
    qn_run_cancel(run, QN_REASON_OPERATOR_RETRY);
    qn_execute_item(&run->item);
    report_outcomes(worker);
    assert_int_equal(rig->start_count, 0);
    quern_task_info *info = rig_inspect(rig, "a");
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_RETRY);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_string_equal(quern_task_info_error(info), "cancelled");
    quern_task_info_free(info);
    assert_int_equal(rig_queue(rig, "default").failed_total, 0);
    quern_worker_free(worker);
    rig_free(rig);
}

static void progress_and_result_are_stored_while_the_handler_runs(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put(rig, "a", "result-hold");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_written(rig, 1);
    quern_task_info *info = rig_inspect(rig, "a");
    size_t size = 0;
    assert_memory_equal(quern_task_info_result(info, &size), "42", 2);
    assert_int_equal(size, 2);
    assert_int_equal(quern_task_info_progress(info), 50);
    assert_string_equal(quern_task_info_progress_note(info), "half");
    quern_task_info_free(info);
    rig_open_gate(rig);
    rig_wait_state(rig, "a", 0);
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_success_after_a_lost_lease_is_salvaged),
    cmocka_unit_test(a_failure_after_a_lost_lease_changes_nothing),
    cmocka_unit_test(the_outcome_of_an_overtaken_run_is_refused),
    cmocka_unit_test(a_lost_lease_cancels_its_run),
    cmocka_unit_test(leases_are_prolonged_while_a_handler_runs),
    cmocka_unit_test(a_clock_that_jumps_neither_kills_nor_loses_runs),
    cmocka_unit_test(a_retry_that_was_stored_while_the_clock_was_ahead_comes_in_time),
    cmocka_unit_test(a_timeout_follows_the_time_that_passes),
    cmocka_unit_test(an_early_ack_is_confirmed_before_the_handler_starts),
    cmocka_unit_test(an_early_ack_of_an_overtaken_run_is_refused),
    cmocka_unit_test(a_run_whose_lease_is_over_is_not_started),
    cmocka_unit_test(a_run_whose_lease_is_nearly_over_is_started),
    cmocka_unit_test(a_lease_that_may_be_over_goes_back_to_its_queue),
    cmocka_unit_test(a_run_that_is_cancelled_before_its_start_uses_up_nothing),
    cmocka_unit_test(progress_and_result_are_stored_while_the_handler_runs),
};
TEST_MAIN_OVER_BROKERS(tests)
