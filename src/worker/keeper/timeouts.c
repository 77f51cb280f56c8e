/* SPDX-License-Identifier: MIT */
/* timeouts.c - ends runs that take too long.
 *
 * First a run is cancelled: its timeout on the boot clock, its deadline on the wall clock. A
 * handler that ignores that for its grace period is abandoned: the run is fenced off with the
 * outcome that the cancellation means, its thread is quarantined and, up to a limit, replaced. Its
 * later return value is ignored. Beyond the limit the worker has one slot less until it returns.
 * A child is killed instead.
 *
 * A shutdown measures its own time and is not checked here. */
#include "worker/keeper/timeouts.h"

#include "worker/internal.h"
#include "worker/run/verdict.h"

enum { GIVEN_UP_MAX = 32, LOOK_AGAIN_MS = 100 };

struct given_up {
    struct quern_run *runs[GIVEN_UP_MAX]; /* each with a reference */
    size_t count;
};

/* With mutex held. How long the run may continue, in ms; 0 or less: its time is up. */
static int64_t time_left_ms(const struct quern_worker *worker, const struct quern_run *run,
                            enum qn_cancel_reason *ret_reason)
{
    int64_t left_ms = INT64_MAX;
    *ret_reason = QN_REASON_NONE;
    if (run->timeout_at_boot_ms != 0) {
        left_ms = run->timeout_at_boot_ms - qn_clock_boot_ms(worker->clock);
        *ret_reason = QN_REASON_TIMEOUT;
    }
    int64_t deadline_at_ms = run->leased->task.deadline_at_ms;
    if (deadline_at_ms != 0) {
        int64_t until_deadline_ms = deadline_at_ms - qn_clock_wall_ms(worker->clock);
        if (until_deadline_ms < left_ms) {
            left_ms = until_deadline_ms;
            *ret_reason = QN_REASON_DEADLINE;
        }
    }
    return left_ms;
}

static void note_given_up(struct quern_run *run, struct given_up *given_up)
{
    run->references++;
    given_up->runs[given_up->count++] = run;
}

/* With mutex held. */
static void give_up(struct quern_worker *worker, struct quern_run *run, struct given_up *given_up)
{
    qn_verdict_give_up(worker, run);
    size_t limit = QN_REPLACED_MAX(qn_worker_slots(worker));
    run->stuck = !qn_pool_quarantine(worker->pool, &run->item, limit);
    worker->run_table.stuck_count += run->stuck ? 1 : 0;
    worker->heartbeat_due = true; /* the heartbeat reports how many hang */
    qn_signals_wake_main(worker);
    qn_signals_wake_pump(worker);
    note_given_up(run, given_up);
}

/* With mutex held. Ends the child of a run, and so the run, whose outcome is that of its
 * cancellation. If even that does not help (it hangs in the kernel), the run is given up as that of
 * a thread. Returns when to check the run again. */
static int64_t kill_run(struct quern_worker *worker, struct quern_run *run, int64_t now_mono_ns,
                        struct given_up *given_up)
{
    if (!run->submitted) {
        return now_mono_ns + LOOK_AGAIN_MS * QN_NS_PER_MS; /* its early ack is about to fail */
    }
    if (!run->killed) {
        run->killed = true;
        run->killed_at_mono_ns = now_mono_ns;
        qn_prefork_kill(worker->prefork, &run->child_item, QN_KILL_AFTER_MS);
        note_given_up(run, given_up);
    }
    int64_t end_mono_ns = run->killed_at_mono_ns + 2 * QN_KILL_AFTER_MS * QN_NS_PER_MS;
    if (now_mono_ns < end_mono_ns) {
        return end_mono_ns;
    }
    qn_verdict_give_up(worker, run);
    run->stuck = true;
    worker->run_table.stuck_count++;
    worker->heartbeat_due = true;
    qn_signals_wake_main(worker);
    qn_signals_wake_pump(worker);
    return INT64_MAX;
}

/* With mutex held. Returns when to check the run again. */
static int64_t check_run(struct quern_worker *worker, struct quern_run *run, int64_t now_mono_ns,
                         struct given_up *given_up)
{
    if (run->phase != QN_RUN_RUNNING) {
        return INT64_MAX;
    }
    if (qn_run_cancel_reason(run) == QN_REASON_NONE) {
        enum qn_cancel_reason reason;
        int64_t left_ms = time_left_ms(worker, run, &reason);
        if (left_ms > 0) {
            /* No more than a second ahead: clocks that are not ours may jump. */
            return now_mono_ns + qn_earlier(left_ms, QN_SAFETY_NET_MS) * QN_NS_PER_MS;
        }
        qn_run_cancel(run, reason);
    }
    if (qn_run_cancel_reason(run) == QN_REASON_SHUTDOWN) {
        return INT64_MAX;
    }
    int64_t end_mono_ns = atomic_load(&run->cancelled_at_mono_ns) + run->grace_ms * QN_NS_PER_MS;
    if (now_mono_ns >= end_mono_ns && given_up->count < GIVEN_UP_MAX) {
        if (run->in_child) {
            return kill_run(worker, run, now_mono_ns, given_up);
        }
        give_up(worker, run, given_up);
        return INT64_MAX;
    }
    return end_mono_ns;
}

static void log_given_up(struct quern_worker *worker, struct given_up *given_up)
{
    for (size_t i = 0; i < given_up->count; i++) {
        const struct quern_run *run = given_up->runs[i];
        char trace[QN_TRACE_ID_SIZE];
        QN_LOG(&worker->log, QUERN_LOG_ERROR, "handler ignores its cancellation",
               QN_LOG_TEXT("child", run->in_child ? "killed" : NULL),
               QN_LOG_TEXT("thread", run->in_child ? NULL
                                     : run->stuck  ? "lost"
                                                   : "replaced"),
               QN_LOG_TEXT("queue", quern_run_queue(run)),
               QN_LOG_TEXT("type", run->leased->task.type),
               QN_LOG_TEXT("id", quern_run_task_id(run)),
               QN_LOG_TEXT("trace_id", qn_run_trace_id(run, trace)),
               QN_LOG_TEXT("reason", quern_run_cancel_reason(run)));
    }
    qn_run_release_all(given_up->runs, given_up->count, &worker->mutex);
}

int64_t qn_timeouts_check(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct given_up given_up = {.count = 0};
    int64_t until_mono_ns = INT64_MAX;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        until_mono_ns = qn_earlier(until_mono_ns, check_run(worker, run, now_mono_ns, &given_up));
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (given_up.count > 0) {
        log_given_up(worker, &given_up);
    }
    return until_mono_ns;
}
