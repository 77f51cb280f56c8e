/* SPDX-License-Identifier: MIT */
/* shutdown.c - how a worker ends: nothing is lost, no retry is used up.
 *
 *   1. fetch no more, give back runs that have not started, and let the rest finish
 *      (shutdown_timeout_ms)
 *   2. cancel what still runs, and give it a moment (soft_shutdown_timeout_ms)
 *   3. kill its child; a thread is given up: its task goes back to its queue, and what its handler
 *      returns later is ignored
 *   4. wait until the broker has confirmed all of that, or until it is clear that it does not
 *      answer: then the leases run out, the tasks come back by themselves, and the log names the
 *      outcomes that were not confirmed
 *
 * A worker whose zygote died while it ran does none of this: see `fall`.
 *
 * Where no handler runs, step 4 follows at once; where no outcome is left to send, it is short.
 * Another quern_worker_stop skips the wait of step 1, a third one all of them. */
#include "worker/shutdown.h"

#include <limits.h>

#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "worker/control.h"
#include "worker/internal.h"
#include "worker/keeper/data_loss.h"
#include "worker/run/give_back.h"
#include "worker/run/verdict.h"

enum {
    BREAK_LOOK_MS = 20,
    KILLED_MS = 4000, /* until a child that was killed has ended: its pool gives it up after 2 s */
    GRACE_MS = 1000,
    GRACE_AT_ONCE_MS = 250,
    TELL_MS = 2000,
    DELIVER_MS = 5000,
    OWED_MS = 1000, /* for the answer to a request for tasks, when there is nothing to deliver */
    LOG_AGAIN_MS = 10000
};

static bool is_aggregating(struct quern_worker *worker)
{
    return worker->groups.served && qn_aggregator_is_busy(&worker->groups.aggregator);
}

/* With mutex held. */
static bool is_settled(const struct quern_worker *worker)
{
    return worker->run_table.held_count == 0 && !worker->owes;
}

/* With mutex held. When nothing is fetched those that wait are about to start, or to be given back:
 * a thread or a child has just taken them. */
static size_t unfinished_count(const struct quern_worker *worker)
{
    return worker->run_table.running_count + worker->run_table.waiting_count;
}

/* Shows the user who stopped the worker why it still runs. */
static void log_left(struct quern_worker *worker, int64_t left_ms)
{
    (void)pthread_mutex_lock(&worker->mutex);
    size_t count = unfinished_count(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    count += is_aggregating(worker) ? 1 : 0;
    if (count == 0) {
        return;
    }
    const char *runs = qn_plural(count, "run", "runs");
    if (left_ms < 0) {
        qn_log_write(&worker->log, QUERN_LOG_INFO, "%zu %s left, no limit; again to stop now",
                     count, runs);
    } else {
        qn_log_write(&worker->log, QUERN_LOG_INFO, "%zu %s left, %lld s; again to stop now", count,
                     runs, (long long)(left_ms + 999) / 1000);
    }
}

/* When a wait ends. */
struct goal {
    bool settled;  /* when no run is held or in flight to us; else: when no handler runs */
    int stops_max; /* this many calls of quern_worker_stop end it, too */
};

/* Waits for the goal, or until the time has passed (-1: never). */
static bool wait_for(struct quern_worker *worker, int64_t timeout_ms, struct goal goal)
{
    bool logs = goal.stops_max == 2; /* the first wait, which another signal ends */
    int64_t log_at_mono_ns = 0;
    int64_t end_mono_ns =
        timeout_ms < 0 ? INT64_MAX : qn_clock_mono_ns() + timeout_ms * QN_NS_PER_MS;
    for (;;) {
        (void)pthread_mutex_lock(&worker->mutex);
        bool reached = goal.settled ? is_settled(worker) : unfinished_count(worker) == 0;
        (void)pthread_mutex_unlock(&worker->mutex);
        reached = reached && !is_aggregating(worker);
        int64_t now_mono_ns = qn_clock_mono_ns();
        if (reached || atomic_load(&worker->stops) >= goal.stops_max ||
            now_mono_ns >= end_mono_ns) {
            return reached;
        }
        qn_control_log_runs(worker); /* that is when a user who waits for the end wants to know */
        int64_t left_ms = timeout_ms < 0 ? -1 : (end_mono_ns - now_mono_ns) / QN_NS_PER_MS;
        int64_t sleep_ms = left_ms < 0 ? -1 : left_ms + 1;
        if (logs && now_mono_ns >= log_at_mono_ns) {
            log_left(worker, left_ms);
            log_at_mono_ns = now_mono_ns + LOG_AGAIN_MS * QN_NS_PER_MS;
        }
        if (logs && (sleep_ms < 0 || sleep_ms > LOG_AGAIN_MS)) {
            sleep_ms = LOG_AGAIN_MS;
        }
        qn_signals_wait_main(worker, sleep_ms);
    }
}

static void begin_drain(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->state = QN_WORKER_DRAINING;
    worker->heartbeat_due = true;
    (void)qn_give_back_waiting(worker, qn_clock_mono_ns());
    qn_signals_wake_pump(worker);
    qn_signals_wake_keeper(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (worker->groups.served) {
        qn_aggregator_stop(&worker->groups.aggregator);
    }
}

static void cancel_all(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (run->phase == QN_RUN_RUNNING) {
            qn_run_cancel(run, QN_REASON_SHUTDOWN);
        }
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (worker->groups.served) {
        qn_aggregator_cancel(&worker->groups.aggregator);
    }
}

/* Children are killed, and their runs end as cancelled. False: there are none. */
static bool kill_children(struct quern_worker *worker)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (run->submitted && (run->phase == QN_RUN_RUNNING || run->phase == QN_RUN_WAITING)) {
            qn_run_cancel(run, QN_REASON_SHUTDOWN);
            qn_prefork_kill(worker->prefork, &run->child_item, 0);
            count++;
        }
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (count > 0) {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "children killed at shutdown, their runs given back",
               QN_LOG_NUMBER("count", count));
    }
    return count > 0;
}

/* Returns how many handlers were given up. */
static size_t give_up_all(struct quern_worker *worker)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (run->phase != QN_RUN_RUNNING) {
            continue;
        }
        qn_verdict_give_up(worker, run);
        if (run->submitted) {
            run->stuck = true; /* its child was killed and does not end: it still uses the run */
            worker->run_table.stuck_count++;
        }
        count++;
    }
    qn_signals_wake_pump(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (worker->groups.served && qn_aggregator_give_up(&worker->groups.aggregator)) {
        count++;
    }
    return count;
}

/* The broker takes no outcomes any more: ends commands, asks handlers to end. */
static void break_off(struct quern_worker *worker)
{
    begin_drain(worker);
    cancel_all(worker);
    int64_t end_mono_ns = qn_clock_mono_ns() + GRACE_MS * QN_NS_PER_MS;
    size_t running;
    do {
        (void)pthread_mutex_lock(&worker->mutex);
        running = unfinished_count(worker);
        (void)pthread_mutex_unlock(&worker->mutex);
        running += is_aggregating(worker) ? 1 : 0;
        if (running > 0) {
            qn_signals_wait_main(worker, BREAK_LOOK_MS);
        }
    } while (running > 0 && qn_clock_mono_ns() < end_mono_ns);
    if (kill_children(worker)) {
        (void)wait_for(worker, KILLED_MS, (struct goal){false, INT_MAX});
    }
    (void)give_up_all(worker);
}

/* Waits until the broker has confirmed all outcomes. A request for tasks that it does not answer is
 * no reason to wait for long: tasks that it leased come back by themselves, and none has begun. */
static void deliver(struct quern_worker *worker)
{
    bool settled = wait_for(worker, OWED_MS, (struct goal){true, 4});
    (void)pthread_mutex_lock(&worker->mutex);
    bool has_more = worker->run_table.held_count > 0;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!settled && has_more) {
        (void)wait_for(worker, DELIVER_MS - OWED_MS, (struct goal){true, 4});
    }
}

/* How long a cancelled run may take to end; -1: as long as it wants. */
static int64_t grace_ms(struct quern_worker *worker)
{
    bool at_once = atomic_load(&worker->stops) >= 2;
    int64_t own_ms = worker->options.soft_shutdown_timeout_ms;
    return own_ms != 0 ? own_ms : at_once ? GRACE_AT_ONCE_MS : GRACE_MS;
}

/* With mutex held. Whether the broker knows all that a worker which has fallen still reports:
 * outcomes from before, and which of its runs had started. */
static bool has_told_its_end(struct quern_worker *worker)
{
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        const struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (!run->fallen || !(run->leased->started || run->acked)) {
            return false;
        }
    }
    return !worker->owes;
}

/* Its zygote died: the rest is as if it had been killed, too, so that its recovery charges its runs
 * (docs/internals/deaths.md). It waits for no handler, but for its commands to be ended. */
static void fall(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->state = QN_WORKER_DRAINING;
    (void)qn_give_back_waiting(worker, qn_clock_mono_ns());
    qn_signals_wake_pump(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (worker->groups.served) {
        qn_aggregator_stop(&worker->groups.aggregator);
    }
    cancel_all(worker);
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t end_mono_ns = now_mono_ns + TELL_MS * QN_NS_PER_MS;
    bool told = false;
    while (!told && now_mono_ns < end_mono_ns) {
        qn_signals_wait_main(worker, BREAK_LOOK_MS);
        (void)pthread_mutex_lock(&worker->mutex);
        told = has_told_its_end(worker);
        (void)pthread_mutex_unlock(&worker->mutex);
        now_mono_ns = qn_clock_mono_ns();
    }
}

bool qn_shutdown_has_fallen(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool fallen = worker->fallen;
    (void)pthread_mutex_unlock(&worker->mutex);
    return fallen;
}

void qn_shutdown_drain(struct quern_worker *worker)
{
    if (qn_shutdown_has_fallen(worker)) {
        fall(worker);
        return;
    }
    if (qn_data_loss_found(worker, NULL)) {
        break_off(worker);
        return;
    }
    begin_drain(worker); /* first, so that the log line is true */
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker drains", QN_LOG_TEXT("worker", worker->id));
    bool ended = wait_for(worker, worker->options.shutdown_timeout_ms, (struct goal){false, 2});
    if (!ended) {
        cancel_all(worker);
        ended = wait_for(worker, grace_ms(worker), (struct goal){false, 3});
    }
    if (!ended && kill_children(worker)) {
        ended = wait_for(worker, KILLED_MS, (struct goal){false, INT_MAX});
    }
    size_t count = ended ? 0 : give_up_all(worker);
    if (count > 0) {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "runs given back at shutdown",
               QN_LOG_NUMBER("count", count));
    }
    deliver(worker);
}

/* The runs whose outcome the broker has not confirmed, each with a reference; NULL: none, or out of
 * memory. *ret_count: how many there are; *ret_owes: whether the broker owes an answer. It may have
 * received such an outcome, or may read it later from its socket. */
static struct quern_run **list_unconfirmed(struct quern_worker *worker, size_t *ret_count,
                                           bool *ret_owes)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->run_table.held;
    size_t held_count = worker->run_table.held_count;
    struct quern_run **runs =
        held_count == 0 ? NULL : qn_alloc_zero(held_count, sizeof(struct quern_run *));
    for (struct qn_list *node = held->next; runs != NULL && node != held; node = node->next) {
        runs[count] = QN_CONTAINER_OF(node, struct quern_run, node);
        runs[count++]->references++;
    }
    *ret_count = held_count;
    *ret_owes = worker->owes;
    (void)pthread_mutex_unlock(&worker->mutex);
    return runs;
}

void qn_shutdown_log_unconfirmed(struct quern_worker *worker)
{
    size_t count = 0;
    bool owes = false;
    struct quern_run **runs = list_unconfirmed(worker, &count, &owes);
    for (size_t i = 0; runs != NULL && i < count; i++) {
        const struct qn_task *task = &runs[i]->leased->task;
        char trace[QN_TRACE_ID_SIZE];
        if (runs[i]->started_at_mono_ns != 0 && runs[i]->verdict.offered) {
            QN_LOG(&worker->log, QUERN_LOG_WARN, "outcome not confirmed, the task may run again",
                   QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
                   QN_LOG_TEXT("id", task->id),
                   QN_LOG_TEXT("trace_id", qn_run_trace_id(runs[i], trace)));
        }
    }
    if (count > 0) {
        QN_LOG(&worker->log, QUERN_LOG_ERROR,
               "broker did not confirm all outcomes, unconfirmed tasks run again",
               QN_LOG_NUMBER("count", count));
    } else if (owes) {
        qn_log_write(&worker->log, QUERN_LOG_WARN,
                     "broker did not answer a request for tasks, their leases will run out");
    }
    qn_run_release_all(runs, runs == NULL ? 0 : count, &worker->mutex);
    qn_free(runs);
}
