/* SPDX-License-Identifier: MIT */
/* control.c - the thread of quern_worker_run until the worker is stopped.
 *
 * It sleeps at wake_fd. When a public function of signals.c wakes it, it logs what changed and lets
 * the other threads act on it. It also watches whether commands can be started again (shortage.c),
 * and threads (supply.c), whether a slot is left (stuck.c), and the health of all (health.c). */
#include "worker/control.h"

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "worker/internal.h"
#include "worker/run/stuck.h"

static const char *phase_name(const struct quern_run *run)
{
    switch (run->phase) {
    case QN_RUN_WAITING:
        return "waiting";
    case QN_RUN_RUNNING:
        return "running";
    case QN_RUN_FINISHED:
        return "ended";
    case QN_RUN_FENCED:
        return "given up";
    }
    return NULL;
}

/* A run for the log: phase and time are copied under the mutex. */
struct noted_run {
    struct quern_run *run; /* with a reference */
    const char *phase;
    int64_t since_mono_ns;
};

static void log_each(struct quern_worker *worker, const struct noted_run *noted, size_t count)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    for (size_t i = 0; i < count; i++) {
        const struct qn_task *task = &noted[i].run->leased->task;
        char trace[QN_TRACE_ID_SIZE];
        const char *cancelled = quern_run_cancel_reason(noted[i].run);
        QN_LOG(&worker->log, QUERN_LOG_INFO, "run", QN_LOG_TEXT("phase", noted[i].phase),
               QN_LOG_NUMBER("for_ms", (now_mono_ns - noted[i].since_mono_ns) / QN_NS_PER_MS),
               QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
               QN_LOG_TEXT("id", task->id),
               QN_LOG_TEXT("trace_id", qn_run_trace_id(noted[i].run, trace)),
               QN_LOG_TEXT("cancelled", cancelled[0] == '\0' ? NULL : cancelled));
    }
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < count; i++) {
        qn_run_release(noted[i].run);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Out of memory it logs only the figures. */
static void log_runs(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_run_table *table = &worker->run_table;
    struct qn_pool_counts threads = {0};
    struct qn_pool_counts children = {0};
    qn_pool_count(worker->pool, &threads);
    if (worker->prefork != NULL) {
        qn_prefork_count(worker->prefork, &children);
    }
    size_t held_count = table->held_count;
    size_t waiting_count = table->waiting_count;
    size_t running_count = table->running_count;
    bool asleep = worker->signals.pump_asleep;
    struct noted_run *noted =
        held_count == 0 ? NULL : qn_alloc_zero(held_count, sizeof(struct noted_run));
    size_t count = 0;
    for (struct qn_list *node = table->held.next; noted != NULL && node != &table->held;
         node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        run->references++;
        noted[count++] = (struct noted_run){.run = run,
                                            .phase = phase_name(run),
                                            .since_mono_ns = run->started_at_mono_ns != 0
                                                                 ? run->started_at_mono_ns
                                                                 : run->leased_at_mono_ns};
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker state", QN_LOG_TEXT("worker", worker->id),
           QN_LOG_NUMBER("slots", qn_worker_slots(worker)), QN_LOG_NUMBER("running", running_count),
           QN_LOG_NUMBER("waiting", waiting_count), QN_LOG_NUMBER("held", held_count),
           QN_LOG_NUMBER("hang", qn_stuck_hung_count(worker)),
           QN_LOG_NUMBER("threads", threads.alive), QN_LOG_NUMBER("idle_threads", threads.sleeping),
           QN_LOG_NUMBER("children", children.alive),
           QN_LOG_NUMBER("idle_children", children.sleeping),
           QN_LOG_TEXT("fetching", asleep ? "sleeps" : "works"),
           QN_LOG_TEXT("quiet", atomic_load(&worker->quiet) ? "yes" : "no"));
    log_each(worker, noted, count);
    qn_free(noted);
}

void qn_control_log_runs(struct quern_worker *worker)
{
    if (atomic_exchange(&worker->log_runs, false)) {
        log_runs(worker);
    }
}

/* Acts on a change of worker->quiet; *was: its value at the call before. */
static void follow_quiet(struct quern_worker *worker, bool *was)
{
    bool quiet = atomic_load(&worker->quiet);
    if (quiet == *was) {
        return;
    }
    *was = quiet;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->heartbeat_due = true;
    worker->look = worker->look || !quiet;
    qn_signals_wake_keeper(worker);
    qn_signals_wake_pump(worker);
    size_t running_count = worker->run_table.running_count;
    (void)pthread_mutex_unlock(&worker->mutex);
    QN_LOG(&worker->log, QUERN_LOG_INFO,
           quiet ? "worker is quiet, it takes no more tasks" : "worker takes tasks again",
           QN_LOG_TEXT("worker", worker->id), QN_LOG_NUMBER("running", running_count));
}

quern_status qn_control_until_stopped(struct quern_worker *worker, quern_error *err)
{
    struct qn_stuck stuck = {.since_mono_ns = 0};
    struct qn_health_watch health = {.is_known = false};
    struct qn_supply_watch supply = {.pause_ms = 0};
    bool quiet = false;
    while (atomic_load(&worker->stops) == 0) {
        follow_quiet(worker, &quiet);
        if (qn_hand_over_prepare(worker)) {
            return QUERN_OK;
        }
        qn_control_log_runs(worker);
        int64_t pause_ms = qn_shortage_watch(worker);
        int64_t look_ms = qn_health_watch(worker, &health);
        int64_t threads_ms = qn_supply_watch_threads(worker, &supply);
        look_ms = threads_ms >= 0 ? qn_earlier(look_ms, threads_ms) : look_ms;
        int64_t wait_ms = qn_stuck_check(worker, &stuck);
        if (wait_ms == 0) {
            size_t hung = qn_stuck_hung_count(worker);
            return qn_error_set(
                err, QUERN_E_STATE,
                "stuck: handlers that ignore their cancellation hold all slots (%zu "
                "%s, concurrency %u); restart the process",
                hung, qn_plural(hung, "handler", "handlers"), qn_worker_slots(worker));
        }
        bool pause_first = wait_ms < 0 || (pause_ms >= 0 && pause_ms < wait_ms);
        wait_ms = pause_first ? pause_ms : wait_ms;
        qn_signals_wait_main(worker, wait_ms < 0 ? look_ms : qn_earlier(wait_ms, look_ms));
    }
    return QUERN_OK;
}
