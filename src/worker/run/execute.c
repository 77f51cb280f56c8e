/* SPDX-License-Identifier: MIT */
/* execute.c - one run on a pool thread: start it, call its handler, finish it.
 *
 * A run that must not start any more (drain, pause, lost lease, cancelled, past its deadline) is
 * finished here without calling the handler. A run that was abandoned while its handler ran
 * (QN_RUN_FENCED) has its verdict already: the handler's return value is ignored. */
#include "worker/run/execute.h"

#include <stdio.h>

#include "base/bug.h"
#include "task/task.h"
#include "worker/internal.h"
#include "worker/run/mux.h"
#include "worker/run/report.h"
#include "worker/run/verdict.h"

static quern_status store_result(struct quern_run *run, const void *data, size_t size,
                                 quern_error *err)
{
    struct quern_worker *worker = run->owner;
    return qn_broker_write_result(worker->broker, run->leased, (struct qn_bytes){data, size}, err);
}

static quern_status store_progress(struct quern_run *run, int32_t percent, const char *note,
                                   quern_error *err)
{
    struct quern_worker *worker = run->owner;
    return qn_broker_write_progress(worker->broker, run->leased, percent, note, err);
}

static void note_posted(struct quern_run *run)
{
    struct quern_worker *worker = run->owner;
    atomic_store(&worker->progress_posted, true);
}

/* With mutex held. A run that waits for its child learns it there, before its handler is called. */
static void cancel_in_child(struct quern_run *run, enum qn_cancel_reason reason)
{
    struct quern_worker *worker = run->owner;
    if (run->submitted && run->phase == QN_RUN_RUNNING) {
        qn_prefork_cancel(worker->prefork, &run->child_item, (uint32_t)reason);
    }
}

/* With mutex held. True, with the verdict, when the run must not start. Where the lease may be over
 * (its request was sent twice, and the first copy may have been the one that counted) the run is
 * given back, so that its task need not wait for recovery; the broker knows whether it was over. */
static bool must_not_start(struct quern_worker *worker, struct quern_run *run, int64_t wall_ms,
                           struct qn_verdict *verdict)
{
    const struct qn_task *task = &run->leased->task;
    bool is_over = qn_clock_boot_ms(worker->clock) >= run->lease_until_boot_ms;
    if (is_over && !run->lease_unsure && !run->lost && !QN_BUG(LEASE_END_IGNORED)) {
        run->lost = true;
        worker->stats.lost_leases++;
    }
    if (run->lost) {
        qn_verdict_interrupt(worker, run, QN_REASON_LEASE_LOST, verdict);
        return true;
    }
    enum qn_cancel_reason reason = qn_run_cancel_reason(run);
    bool may_be_over = is_over && run->lease_unsure;
    if (may_be_over || reason != QN_REASON_NONE || worker->state != QN_WORKER_RUNNING ||
        worker->clearing || worker->paused[run->leased->queue_index]) {
        qn_verdict_interrupt(worker, run, reason, verdict);
        return true;
    }
    if (task->deadline_at_ms != 0 && wall_ms >= task->deadline_at_ms && !QN_BUG(DEADLINE_IGNORED)) {
        *verdict = (struct qn_verdict){.offered = true,
                                       .kind = QN_ARCHIVE,
                                       .error = "deadline exceeded",
                                       .outcome = QUERN_ARCHIVE};
        return true;
    }
    return false;
}

/* A child may be killed, so its time may be shorter than that of a thread, too. */
static int64_t grace_ms(const struct quern_worker *worker, const struct quern_run *run)
{
    int64_t own_ms = run->leased->task.kill_after_ms;
    int64_t usual_ms = worker->options.quarantine_after_ms;
    const struct qn_mux_entry *entry = run->entry;
    if (entry == NULL) {
        return run->in_child && own_ms > 0 ? own_ms : usual_ms;
    }
    own_ms = own_ms > 0 ? own_ms : entry->options.kill_after_ms;
    if (run->in_child && own_ms > 0) {
        return own_ms + (entry->grace_ms > 0 ? QN_GRACE_SPARE_MS : 0);
    }
    int64_t least_ms = qn_mux_grace_ms(entry, own_ms);
    return least_ms > usual_ms ? least_ms : usual_ms;
}

/* Timeouts are measured with a clock that does not jump; only a deadline, which is a moment of the
 * day, follows the wall clock. */
static void set_limits(struct quern_worker *worker, struct quern_run *run, int64_t wall_ms)
{
    const struct qn_task *task = &run->leased->task;
    run->started_at_wall_ms = wall_ms;
    run->deadline_at_ms = qn_task_run_deadline_ms(task, wall_ms);
    int64_t timeout_ms = task->timeout_ms;
    if (timeout_ms == 0 && run->deadline_at_ms != 0 && task->deadline_at_ms == 0) {
        timeout_ms = run->deadline_at_ms - wall_ms;
    }
    run->timeout_ms = timeout_ms > 0 ? timeout_ms : 0;
    run->timeout_at_boot_ms = timeout_ms > 0 ? qn_clock_boot_ms(worker->clock) + timeout_ms : 0;
    run->grace_ms = grace_ms(worker, run);
}

/* With mutex held. The keeper must not sleep beyond the end of this run, whose time begins now.
 * While it is awake, it is woken only for an end within its usual pace. */
static void limit_keeper_sleep(struct quern_worker *worker, const struct quern_run *run,
                               int64_t wall_ms)
{
    if (run->deadline_at_ms == 0 && run->timeout_at_boot_ms == 0) {
        return;
    }
    int64_t left_ms = run->deadline_at_ms - wall_ms;
    bool awake = worker->signals.keeper_until_mono_ns == INT64_MAX;
    int64_t asleep_ms = (worker->signals.keeper_until_mono_ns - qn_clock_mono_ns()) / QN_NS_PER_MS;
    if (left_ms < (awake ? 2 * QN_SAFETY_NET_MS : asleep_ms)) {
        qn_signals_wake_keeper(worker);
    }
}

static void hold_clock(struct quern_run *run, bool held)
{
    struct quern_worker *worker = run->owner;
    int64_t wall_ms = qn_clock_wall_ms(worker->clock);
    int64_t boot_ms = qn_clock_boot_ms(worker->clock);
    (void)pthread_mutex_lock(&worker->mutex);
    run->timeout_at_boot_ms = held || run->timeout_ms == 0 ? 0 : boot_ms + run->timeout_ms;
    if (!held) {
        run->deadline_at_ms = qn_task_run_deadline_ms(&run->leased->task, wall_ms);
        limit_keeper_sleep(worker, run, wall_ms);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

const struct qn_run_sink qn_execute_sink = {
    .write_result = store_result,
    .write_progress = store_progress,
    .progress_posted = note_posted,
    .hold_clock = hold_clock,
    .cancelled = cancel_in_child,
};

/* has_started: it cannot be refused any more. */
static bool start_run(struct quern_worker *worker, struct quern_run *run, bool has_started)
{
    int64_t wall_ms = qn_clock_wall_ms(worker->clock);
    set_limits(worker, run, wall_ms);
    int64_t now_mono_ns = qn_clock_mono_ns();
    struct qn_verdict verdict;
    (void)pthread_mutex_lock(&worker->mutex);
    bool refused = !has_started && must_not_start(worker, run, wall_ms, &verdict);
    if (refused) {
        qn_run_table_finish(&worker->run_table, run, &verdict);
        qn_signals_run_finished(worker);
    } else {
        run->started_at_mono_ns = now_mono_ns;
        qn_run_table_start(&worker->run_table, run);
        limit_keeper_sleep(worker, run, wall_ms);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return !refused;
}

/* With mutex held. Its verdict was given before. */
static void leave_fence(struct quern_worker *worker, const struct quern_run *run)
{
    if (run->stuck) {
        worker->run_table.stuck_count--;
        qn_signals_wake_main(worker);
        qn_signals_wake_pump(worker); /* a slot is free again */
    }
}

/* With mutex held: the worker has fallen. The start of the run may still have to be reported, so it
 * stays among those that run. */
static void fall_run(struct quern_worker *worker, struct quern_run *run)
{
    if (run->phase == QN_RUN_FENCED) {
        leave_fence(worker, run);
    }
    run->submitted = false; /* no child has it */
    run->fallen = true;
    qn_run_release(run);
    qn_signals_wake_main(worker);
}

static void finish_run(struct quern_worker *worker, struct quern_run *run,
                       struct qn_verdict *verdict)
{
    (void)pthread_mutex_lock(&worker->mutex);
    if (worker->fallen && !run->not_started) {
        fall_run(worker, run); /* a command: it ended because the worker ends, or meanwhile */
        (void)pthread_mutex_unlock(&worker->mutex);
        return;
    }
    if (run->phase == QN_RUN_FENCED) {
        leave_fence(worker, run);
    } else {
        qn_verdict_revise(run, verdict);
        qn_run_table_finish(&worker->run_table, run, verdict);
        qn_signals_run_finished(worker);
        qn_signals_run_settled(worker);
    }
    qn_run_release(run);
    bool wake = qn_execute_submit_ready(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (wake) {
        qn_pool_wake(worker->pool);
    }
}

bool qn_execute_submit_ready(struct quern_worker *worker)
{
    struct qn_list items;
    qn_list_init(&items);
    return qn_run_table_take_ready(&worker->run_table, qn_clock_mono_ns(), &items) &&
           qn_execute_give(worker, &items);
}

/* With mutex held. Where the pool of children has ended, a run for it goes back. */
static void refuse_run(struct quern_worker *worker, struct quern_run *run)
{
    struct qn_verdict verdict;
    qn_verdict_interrupt(worker, run, QN_REASON_SHUTDOWN, &verdict);
    qn_run_table_finish(&worker->run_table, run, &verdict);
    qn_signals_wake_pump(worker);
}

bool qn_execute_give(struct quern_worker *worker, struct qn_list *take_runs)
{
    struct qn_list items;
    struct qn_list child_items;
    qn_list_init(&items);
    qn_list_init(&child_items);
    struct qn_list *node = qn_list_shift(take_runs);
    while (node != NULL) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, item.node);
        if (run->in_child && worker->children_gone.code != QUERN_OK) {
            refuse_run(worker, run);
        } else if (run->in_child && !run->acks_first) {
            run->submitted = true;
            qn_list_append(&child_items, &run->child_item.node);
        } else {
            qn_list_append(&items, node);
        }
        node = qn_list_shift(take_runs);
    }
    if (!qn_list_empty(&child_items)) {
        qn_prefork_submit(worker->prefork, &child_items);
    }
    return qn_pool_submit(worker->pool, &items);
}

void qn_execute_handler(struct quern_run *run, const quern_mux *mux)
{
    int outcome = (int)qn_mux_call(mux, run, &run->view);
    switch (outcome) {
    case QUERN_RETRY:
        run->outcome = run->crashed ? QN_OUTCOME_CRASHED : QUERN_RETRY;
        return;
    case QUERN_DONE:
    case QUERN_ARCHIVE:
    case QUERN_DROP:
    case QUERN_SNOOZE:
        run->outcome = outcome;
        return;
    default: /* a number of the handler's own: not an enum of ours */
        break;
    }
    if (run->error == NULL) {
        (void)quern_run_fail(run, QUERN_RETRY, "handler returned the unknown outcome %d", outcome);
    } else {
        char text[QN_ERROR_TEXT_SIZE_MAX + 1];
        (void)snprintf(text, sizeof text, "%s", run->error);
        (void)quern_run_fail(run, QUERN_RETRY, "handler returned the unknown outcome %d: %s",
                             outcome, text);
    }
    run->outcome = QUERN_RETRY;
}

void qn_execute_submit(struct quern_worker *worker, struct quern_run *run)
{
    struct qn_list items;
    qn_list_init(&items);
    qn_list_append(&items, &run->child_item.node);
    run->submitted = true;
    qn_prefork_submit(worker->prefork, &items);
}

void qn_execute_item(struct qn_pool_item *item)
{
    struct quern_run *run = QN_CONTAINER_OF(item, struct quern_run, item);
    struct quern_worker *worker = run->owner;
    if (!start_run(worker, run, false)) {
        return;
    }
    if (run->acks_first && !qn_ack_early_confirm(worker, run)) {
        struct qn_verdict verdict;
        qn_verdict_interrupt(worker, run, QN_REASON_SHUTDOWN, &verdict);
        finish_run(worker, run, &verdict);
    } else if (run->in_child) {
        (void)pthread_mutex_lock(&worker->mutex);
        qn_execute_submit(worker, run);
        (void)pthread_mutex_unlock(&worker->mutex);
    } else {
        qn_execute_handler(run, worker->mux);
        qn_execute_end(worker, run);
    }
}

bool qn_execute_begin(struct quern_worker *worker, struct quern_run *run, bool has_started)
{
    if (!run->acks_first) {
        return start_run(worker, run, has_started);
    }
    /* It began when its early ack was written, and may have been given up since. */
    (void)pthread_mutex_lock(&worker->mutex);
    bool goes_on = run->phase == QN_RUN_RUNNING || has_started;
    if (!goes_on) {
        qn_run_release(run);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return goes_on;
}

void qn_execute_return(struct quern_worker *worker, struct quern_run *run)
{
    struct qn_verdict verdict;
    (void)pthread_mutex_lock(&worker->mutex);
    bool waits = run->phase == QN_RUN_WAITING;
    if (waits) {
        qn_verdict_interrupt(worker, run, qn_run_cancel_reason(run), &verdict);
        qn_run_table_finish(&worker->run_table, run, &verdict);
        qn_signals_run_finished(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!waits) {
        run->ended_at_mono_ns = qn_clock_mono_ns();
        run->not_started = true;
        qn_verdict_judge(worker, run, &verdict);
        finish_run(worker, run, &verdict);
    }
}

void qn_execute_fall(struct quern_worker *worker, struct quern_run *run)
{
    (void)pthread_mutex_lock(&worker->mutex);
    fall_run(worker, run);
    (void)pthread_mutex_unlock(&worker->mutex);
}

void qn_execute_end(struct quern_worker *worker, struct quern_run *run)
{
    struct qn_verdict verdict;
    run->ended_at_mono_ns = qn_clock_mono_ns();
    qn_shortage_note(worker, run);
    qn_report_output(worker, run);
    qn_verdict_judge(worker, run, &verdict);
    finish_run(worker, run, &verdict);
}
