/* SPDX-License-Identifier: MIT */
/* report.c - the end of a run for the outside: the counts, the log, the caller's on_run.
 *
 * Called by the pump once the broker has answered, so that the report matches the stored data.
 * on_run and on_log come one at a time: both are called under the log's mutex. */
#include "worker/run/report.h"

#include <stdio.h>

#include "worker/internal.h"

enum { LOGGED_ERROR_SIZE = 512 }; /* the whole text is with the task */

void qn_report_count(struct quern_worker *worker, const struct quern_run *run,
                     enum qn_applied applied)
{
    quern_worker_stats *stats = &worker->stats;
    if (run->unknown) {
        return; /* never a run of this worker: it was left to others */
    }
    if (applied == QN_STALE) {
        stats->stale += run->started_at_mono_ns != 0 ? 1 : 0; /* else it has no outcome */
        return;
    }
    stats->salvaged += applied == QN_SALVAGED ? 1 : 0;
    /* A run that was acked early is done for the broker, however it ended. */
    switch (run->acked ? QN_DONE : run->verdict.kind) {
    case QN_DONE:
        stats->done++;
        break;
    case QN_DROP:
        stats->dropped++;
        break;
    case QN_RETRY:
        stats->retried += applied == QN_ARCHIVED ? 0 : 1;
        stats->archived += applied == QN_ARCHIVED ? 1 : 0;
        break;
    case QN_SNOOZE:
    case QN_ASIDE:
        stats->snoozed++;
        break;
    case QN_ARCHIVE:
    case QN_CANCEL:
        stats->archived++;
        break;
    case QN_GIVE_BACK:
        stats->given_back++;
        break;
    case QN_CRASH:
        stats->crashed++;
        stats->archived += applied == QN_ARCHIVED ? 1 : 0;
        break;
    case QN_ENDED: /* no verdict, see add_outcome */
        break;
    }
}

/* The event, and its level; NULL: not worth a line. */
static const char *describe(const struct quern_run *run, enum qn_applied applied,
                            quern_log_level *level)
{
    *level = QUERN_LOG_WARN;
    if (applied == QN_STALE) {
        return run->started_at_mono_ns == 0 ? "run not started, its lease is lost"
                                            : "outcome refused, the lease was lost";
    }
    if (applied == QN_SALVAGED) {
        return "outcome salvaged after the lease was lost";
    }
    if (applied == QN_UNMOVED) {
        return "task stays in its queue, the other one has its id or its lock";
    }
    if (applied == QN_ARCHIVED) {
        bool is_spent = run->leased->retry_count >= run->leased->task.retry_max;
        return run->verdict.kind == QN_CRASH && !is_spent
                   ? "task archived as poison"
                   : "task archived, its attempts are used up";
    }
    switch (run->verdict.kind) {
    case QN_ARCHIVE:
    case QN_CANCEL:
        return "task archived";
    case QN_CRASH:
        return "run crashed";
    case QN_RETRY:
        return run->acked ? "run failed after its early ack, it is lost" : "run failed";
    case QN_GIVE_BACK:
        /* A handler that had begun will be called again: at a level that is logged by default. */
        *level = qn_run_began(run) ? QUERN_LOG_INFO : QUERN_LOG_DEBUG;
        return "run given back";
    case QN_DROP:
        return run->crashed ? "run crashed, its task is dropped" : NULL;
    case QN_DONE:
    case QN_SNOOZE:
    case QN_ASIDE:
    case QN_ENDED:
        return NULL;
    }
    return NULL;
}

static void log_run(struct quern_worker *worker, const struct quern_run *run,
                    enum qn_applied applied)
{
    quern_log_level level;
    const char *what = describe(run, applied, &level);
    if (what == NULL) {
        return;
    }
    const struct qn_task *task = &run->leased->task;
    char error[LOGGED_ERROR_SIZE];
    char trace[QN_TRACE_ID_SIZE];
    if (run->verdict.error != NULL) {
        (void)snprintf(error, sizeof error, "%s", run->verdict.error);
    }
    QN_LOG(&worker->log, level, what, QN_LOG_TEXT("queue", task->queue),
           QN_LOG_TEXT("type", task->type), QN_LOG_TEXT("id", task->id),
           QN_LOG_TEXT("trace_id", qn_run_trace_id(run, trace)),
           QN_LOG_TEXT("error", run->verdict.error == NULL ? NULL : error));
}

void qn_report_output(struct quern_worker *worker, const struct quern_run *run)
{
    const struct qn_task *task = &run->leased->task;
    char text[QN_TRACE_ID_SIZE];
    const char *trace = qn_run_trace_id(run, text);
    if (run->output_dropped > 0) {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "output of a command was cut",
               QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
               QN_LOG_TEXT("id", task->id), QN_LOG_TEXT("trace_id", trace),
               QN_LOG_NUMBER("dropped_bytes", run->output_dropped));
    }
    if (run->progress_garbled) {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "progress of a command was cut or is not UTF-8",
               QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
               QN_LOG_TEXT("id", task->id), QN_LOG_TEXT("trace_id", trace));
    }
    if (run->wrong_order != NULL) {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "a line on descriptor 3 is no order, it is ignored",
               QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
               QN_LOG_TEXT("id", task->id), QN_LOG_TEXT("trace_id", trace),
               QN_LOG_TEXT("line", run->wrong_order),
               QN_LOG_TEXT("orders", "retry-in=30s, snooze=5m, no-retry=CLASS, error-class=CLASS"));
    }
    if (run->replaced != NULL) {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "a process that stays was replaced",
               QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
               QN_LOG_TEXT("reason", run->replaced));
    }
    if (run->stderr_text != NULL) {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "stderr of a command that succeeded",
               QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
               QN_LOG_TEXT("id", task->id), QN_LOG_TEXT("trace_id", trace),
               QN_LOG_TEXT("stderr", run->stderr_text));
    }
}

void qn_report_run(struct quern_worker *worker, const struct quern_run *run,
                   enum qn_applied applied)
{
    log_run(worker, run, applied);
    /* A run that never started is not reported. */
    if (worker->options.on_run == NULL || !qn_run_began(run)) {
        return;
    }
    const struct qn_task *task = &run->leased->task;
    int64_t ended_at_ns = run->phase == QN_RUN_FENCED ? qn_clock_mono_ns() : run->ended_at_mono_ns;
    char text[QN_TRACE_ID_SIZE];
    const char *trace = qn_run_trace_id(run, text);
    const quern_run_report report = {
        .id = task->id,
        .queue = task->queue,
        .type = task->type,
        .error = run->verdict.error != NULL ? run->verdict.error : "",
        .outcome = run->verdict.outcome,
        .applied = applied != QN_STALE,
        .run_ns = ended_at_ns > run->started_at_mono_ns ? ended_at_ns - run->started_at_mono_ns : 0,
        .trace_id = trace != NULL ? trace : "",
    };
    (void)pthread_mutex_lock(&worker->log.mutex);
    worker->options.on_run(&report, worker->options.user);
    (void)pthread_mutex_unlock(&worker->log.mutex);
}

const char *qn_report_outcome(const struct quern_run *run, enum qn_applied applied)
{
    if (applied == QN_STALE) {
        return "stale";
    }
    if (applied == QN_ARCHIVED && run->verdict.kind == QN_RETRY && !run->acked) {
        return "archived";
    }
    switch (run->acked ? QN_DONE : run->verdict.kind) {
    case QN_DONE:
    case QN_ENDED:
        return "done";
    case QN_DROP:
        return "dropped";
    case QN_RETRY:
        return "retried";
    case QN_SNOOZE:
    case QN_ASIDE:
        return "snoozed";
    case QN_ARCHIVE:
    case QN_CANCEL:
        return "archived";
    case QN_GIVE_BACK:
        return "given_back";
    case QN_CRASH:
        return "crashed";
    }
    return "";
}

void qn_report_measure(struct quern_worker *worker, const struct quern_run *run,
                       enum qn_applied applied)
{
    const struct qn_task *task = &run->leased->task;
    bool began = qn_run_began(run);
    if (run->unknown || (applied == QN_STALE && !began)) {
        return; /* as qn_report_count */
    }
    int64_t ended_at_ns = run->phase == QN_RUN_FENCED ? qn_clock_mono_ns() : run->ended_at_mono_ns;
    const struct qn_measured_run measured = {
        .queue = task->queue,
        .type = task->type,
        .outcome = qn_report_outcome(run, applied),
        .began = began,
        .is_retried = applied != QN_STALE && applied != QN_ARCHIVED && !run->acked &&
                      run->verdict.kind == QN_RETRY,
        .signal = run->phase != QN_RUN_FENCED && run->crashed ? run->signal : 0,
        .wait_ns = (run->started_at_wall_ms - task->process_at_ms) * QN_NS_PER_MS,
        .run_ns = ended_at_ns - run->started_at_mono_ns,
    };
    qn_measure_run(&worker->measures, &measured);
}

void qn_report_unusable(const struct qn_unusable *unusable, void *user)
{
    struct quern_worker *worker = user;
    QN_LOG(&worker->log, QUERN_LOG_WARN, "task archived, its message cannot be used",
           QN_LOG_TEXT("queue", unusable->queue), QN_LOG_TEXT("id", unusable->id),
           QN_LOG_TEXT("error", unusable->why));
    (void)pthread_mutex_lock(&worker->mutex);
    worker->stats.archived++;
    (void)pthread_mutex_unlock(&worker->mutex);
}
