/* SPDX-License-Identifier: MIT */
/* outcome.c - applies the outcome of one finished run (enum qn_outcome_kind, broker.h).
 *
 * Each kind is one statement that names row, token and state: if it changes nothing the lease was
 * lost, and the outcome is stale. Only success is worth salvaging then, and only if the task still
 * waits for its next run because of this very lease. Other necessary data (attempts, retention, the
 * lock's key) is in the run as it was leased; it must not be changed while the task is active. */
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "broker/past/run_entry.h"
#include "broker/sqlite/queue/brake.h"
#include "broker/sqlite/queue/deaths.h"
#include "broker/sqlite/queue/locks.h"
#include "broker/sqlite/queue/meter.h"
#include "broker/sqlite/run/change/change.h"
#include "broker/sqlite/run/exchange.h"
#include "broker/sqlite/run/outcome_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "task/brake.h"
#include "task/deaths.h"

static quern_status token_of(struct qn_queue_counters *counters, const struct qn_outcome *outcome,
                             int64_t *ret_token, quern_error *err)
{
    *ret_token = (int64_t)outcome->run->token;
    if (!QN_BUG(TOKEN_UNCHECKED)) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(counters->conn, sql_bug_token);
    qn_query_int(&query, outcome->run->row);
    if (qn_query_row(&query)) {
        *ret_token = sqlite3_column_int64(query.statement, 0);
    }
    return qn_query_finish(&query, err);
}

/* Starts a statement of outcome.sql with its first two parameters. */
static quern_status start(struct qn_queue_counters *counters, const struct qn_outcome *outcome,
                          const char *sql, struct qn_query *ret_query, quern_error *err)
{
    int64_t token = 0;
    quern_status status = token_of(counters, outcome, &token, err);
    if (status == QUERN_OK) {
        *ret_query = qn_query_start(counters->conn, sql);
        qn_query_int(ret_query, outcome->run->row);
        qn_query_int(ret_query, token);
    }
    return status;
}

static quern_status finish(struct qn_query *query, bool *ret_changed, quern_error *err)
{
    int64_t changes = 0;
    quern_status status = qn_query_run(query, &changes, err);
    *ret_changed = changes > 0;
    return status;
}

/* An outcome that leaves the task there. */
struct ending {
    const struct qn_outcome *outcome;
    bool salvages;
    struct qn_bytes entry; /* of this run, once it is written; empty: it is not noted */
};

/* The past runs of a task that had some. Of one that is salvaged the newest is this run's loss,
 * which this end replaces. */
static quern_status finish_later(struct qn_queue_counters *counters, const struct ending *ending,
                                 struct qn_query *query, bool *ret_changed, quern_error *err)
{
    struct qn_query reading;
    qn_past_runs_text runs;
    quern_status status = start(counters, ending->outcome, sql_outcome_runs, &reading, err);
    if (status == QUERN_OK) {
        const char *text = qn_query_row(&reading) ? qn_query_column_text(&reading, 0) : "";
        struct qn_bytes before = {text, strlen(text)};
        before = ending->salvages ? qn_past_runs_older(before) : before;
        qn_past_runs_add(counters->now_ms, ending->entry, before, runs);
        status = qn_query_finish(&reading, err);
    }
    if (status != QUERN_OK) {
        quern_status finished = qn_query_finish(query, NULL);
        (void)finished; /* the first error is reported */
        return status;
    }
    qn_query_text(query, runs);
    return finish(query, ret_changed, err);
}

/* A task that never ran before has no past runs, which need not be read, and no large buffer is
 * necessary for them: the compiler clears each. */
static quern_status finish_run(struct qn_queue_counters *counters, const struct ending *ending,
                               struct qn_query *query, bool *ret_changed, quern_error *err)
{
    qn_past_run_text text;
    qn_past_run_text run;
    struct ending noted = *ending;
    size_t size = qn_run_entry_write(ending->outcome, &counters->reporter, text);
    noted.entry = (struct qn_bytes){text, size};
    if (ending->salvages || ending->outcome->run->cause != QUERN_CAUSE_NONE) {
        return finish_later(counters, &noted, query, ret_changed, err);
    }
    qn_past_runs_first(counters->now_ms, noted.entry, run);
    qn_query_text(query, run);
    return finish(query, ret_changed, err);
}

/* The same with its past runs as the last parameter; NULL: they stay as they are. */
static quern_status finish_noted(struct qn_queue_counters *counters, const struct ending *ending,
                                 struct qn_query *query, bool *ret_changed, quern_error *err)
{
    if (ending->salvages || qn_run_entry_is_due(ending->outcome)) {
        return finish_run(counters, ending, query, ret_changed, err);
    }
    qn_query_text(query, NULL);
    return finish(query, ret_changed, err);
}

/* Counts an end that is not a death. An end before the start is no evidence about the host. */
static void count(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                  const struct qn_outcome *outcome, bool failed)
{
    bool counts = outcome->kind != QN_SNOOZE && outcome->kind != QN_ASIDE;
    qn_queue_counters_count(queue, counts ? 1 : 0, failed ? 1 : 0);
    if (outcome->started && outcome->kind != QN_ASIDE) {
        qn_queue_counters_release(counters, queue);
    }
}

static quern_status delete_task(struct qn_queue_counters *counters,
                                const struct qn_outcome *outcome, const char *sql,
                                bool *ret_changed, quern_error *err)
{
    struct qn_query query;
    quern_status status = start(counters, outcome, sql, &query, err);
    return status != QUERN_OK ? status : finish(&query, ret_changed, err);
}

static quern_status complete_task(struct qn_queue_counters *counters,
                                  const struct qn_outcome *outcome, bool salvage, bool *ret_changed,
                                  quern_error *err)
{
    struct qn_query query;
    const char *sql = salvage ? sql_salvage_complete : sql_outcome_complete;
    quern_status status = start(counters, outcome, sql, &query, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_query_int(&query, counters->now_ms + outcome->run->task.retention_ms);
    qn_query_int(&query, counters->now_ms);
    qn_query_int(&query, outcome->has_result ? 1 : 0);
    /* An empty result is not the same as none. */
    qn_query_blob(&query, outcome->result != NULL ? outcome->result : "", outcome->result_size);
    return finish_noted(counters, &(struct ending){.outcome = outcome, .salvages = salvage}, &query,
                        ret_changed, err);
}

/* Done and drop: the task leaves the queue. */
static quern_status finish_task(struct qn_queue_counters *counters,
                                const struct qn_outcome *outcome, bool salvage, bool *ret_changed,
                                quern_error *err)
{
    if (outcome->kind == QN_DONE && outcome->run->task.retention_ms > 0) {
        return complete_task(counters, outcome, salvage, ret_changed, err);
    }
    const char *sql = salvage ? sql_salvage_delete : sql_outcome_delete;
    return delete_task(counters, outcome, sql, ret_changed, err);
}

/* Afterwards: it is counted, and its lock is free. */
static quern_status count_finished(struct qn_queue_counters *counters,
                                   struct qn_counted_queue *queue, const struct qn_outcome *outcome,
                                   quern_error *err)
{
    const struct qn_task *task = &outcome->run->task;
    count(counters, queue, outcome, false);
    return QN_BUG(UNIQUE_LOCK_WRONG)
               ? QUERN_OK
               : qn_tables_unlock(counters->conn, task->unique_key, queue->no, task->id, err);
}

static quern_status apply_done(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                               const struct qn_outcome *outcome, enum qn_applied *ret_applied,
                               quern_error *err)
{
    bool changed = false;
    quern_status status = finish_task(counters, outcome, false, &changed, err);
    if (status == QUERN_OK && changed) {
        *ret_applied = QN_APPLIED;
    } else if (status == QUERN_OK && outcome->kind == QN_DONE) {
        status = finish_task(counters, outcome, true, &changed, err);
        *ret_applied = changed ? QN_SALVAGED : QN_STALE;
    }
    return status == QUERN_OK && changed ? count_finished(counters, queue, outcome, err) : status;
}

static quern_status apply_archive(struct qn_queue_counters *counters,
                                  struct qn_counted_queue *queue, const struct qn_outcome *outcome,
                                  enum qn_applied *ret_applied, quern_error *err)
{
    struct qn_query query;
    quern_status status = start(counters, outcome, sql_outcome_archive, &query, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_query_int(&query, counters->now_ms);
    qn_query_text(&query, outcome->error);
    bool changed = false;
    status = finish_noted(counters, &(struct ending){.outcome = outcome}, &query, &changed, err);
    if (status == QUERN_OK && changed) {
        count(counters, queue, outcome, true);
        *ret_applied = outcome->kind == QN_RETRY ? QN_ARCHIVED : QN_APPLIED;
        const struct qn_task *task = &outcome->run->task;
        if (task->unique_key != NULL) {
            status = qn_locks_archived(counters->conn, outcome->run->row, task->unique_until,
                                       counters->now_ms, err);
        }
    }
    return status;
}

static bool has_begun(const struct qn_outcome *outcome)
{
    return qn_outcome_has_begun(outcome) && !QN_BUG(STARTED_EXPIRES);
}

static quern_cause cause_of_later(const struct qn_outcome *outcome)
{
    if (outcome->kind == QN_ASIDE) {
        return outcome->run->cause;
    }
    return outcome->kind == QN_RETRY ? QUERN_CAUSE_RETRY : QUERN_CAUSE_SNOOZE;
}

/* Retry, and snooze and aside, which are retries that count for nothing. */
static quern_status apply_later(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                                const struct qn_outcome *outcome, enum qn_applied *ret_applied,
                                quern_error *err)
{
    bool failed = outcome->kind == QN_RETRY;
    int64_t at_ms = counters->now_ms + outcome->delay_ms;
    quern_status status = qn_queue_counters_due(counters, queue, at_ms, err);
    struct qn_query query;
    if (status == QUERN_OK) {
        status = start(counters, outcome, sql_outcome_retry, &query, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    qn_query_int(&query, at_ms);
    qn_query_int(&query, !failed ? 0 : QN_BUG(RETRY_COUNTED_TWICE) ? 2 : 1);
    qn_query_int(&query, cause_of_later(outcome));
    qn_query_text(&query, outcome->error);
    qn_query_int(&query, counters->now_ms);
    qn_query_int(&query, counters->shift_ms);
    qn_query_int(&query, has_begun(outcome) ? 1 : 0);
    bool changed = false;
    status = finish_noted(counters, &(struct ending){.outcome = outcome}, &query, &changed, err);
    if (status == QUERN_OK && changed) {
        const struct qn_task *task = &outcome->run->task;
        count(counters, queue, outcome, failed);
        *ret_applied = QN_APPLIED;
        if (task->unique_key != NULL) {
            status =
                qn_locks_waits(counters->conn, outcome->run->row, at_ms, counters->now_ms, err);
        }
        if (status == QUERN_OK && failed && QN_BUG(UNIQUE_LOCK_WRONG)) {
            status = qn_tables_unlock(counters->conn, task->unique_key, queue->no, task->id, err);
        }
    }
    return status;
}

static quern_status apply_retry(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                                const struct qn_outcome *outcome, enum qn_applied *ret_applied,
                                quern_error *err)
{
    const struct qn_leased *run = outcome->run;
    quern_status status = run->retry_count < qn_task_change_retry_max(outcome)
                              ? apply_later(counters, queue, outcome, ret_applied, err)
                              : apply_archive(counters, queue, outcome, ret_applied, err);
    bool changed = false;
    if (status == QUERN_OK && *ret_applied == QN_STALE && QN_BUG(FAILED_RUN_SALVAGED)) {
        status = finish_task(counters, outcome, true, &changed, err);
        *ret_applied = changed ? QN_SALVAGED : QN_STALE;
    }
    return status == QUERN_OK && changed ? count_finished(counters, queue, outcome, err) : status;
}

static quern_status apply_give_back(struct qn_queue_counters *counters,
                                    const struct qn_outcome *outcome, enum qn_applied *ret_applied,
                                    quern_error *err)
{
    struct qn_query query;
    quern_status status = start(counters, outcome, sql_outcome_give_back, &query, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_query_int(&query, outcome->cause);
    qn_query_int(&query, has_begun(outcome) ? 1 : 0);
    bool changed = false;
    status = finish_noted(counters, &(struct ending){.outcome = outcome}, &query, &changed, err);
    if (status == QUERN_OK && changed) {
        counters->wake = true;
        *ret_applied = QN_APPLIED;
        if (outcome->run->task.unique_key != NULL) {
            status = qn_locks_waits(counters->conn, outcome->run->row, counters->now_ms,
                                    counters->now_ms, err);
        }
        if (status == QUERN_OK && QN_BUG(GIVE_BACK_AT_TAIL)) {
            int64_t place = 0;
            status = qn_tables_numbers(counters->conn, 1, &place, err);
            query = qn_query_start(counters->conn, sql_bug_place);
            qn_query_int(&query, outcome->run->row);
            qn_query_int(&query, place);
            status = status == QUERN_OK ? qn_query_run(&query, NULL, err) : status;
        }
    }
    return status;
}

/* A child or a command: it died alone. */
static quern_status apply_crash(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                                const struct qn_outcome *outcome, enum qn_applied *ret_applied,
                                quern_error *err)
{
    struct qn_end end = {.seq = outcome->run->row,
                         .started = outcome->started,
                         .is_death = !counters->is_leaving,
                         .is_lone = true,
                         .is_child = true,
                         .is_spent = outcome->run->retry_count >= qn_task_change_retry_max(outcome),
                         .started_at_ms = counters->now_ms - outcome->lived_ms,
                         .ok_at_ms = queue->brake.ok_at_ms,
                         .cause = outcome->cause,
                         .error = outcome->error};
    qn_past_run_text entry;
    int64_t token = 0;
    end.run = (struct qn_bytes){entry, qn_run_entry_write(outcome, &counters->reporter, entry)};
    quern_status status = token_of(counters, outcome, &token, err);
    end.token = (uint64_t)token;
    struct qn_ended ended = {0};
    if (status == QUERN_OK) {
        status = qn_deaths_end(counters, queue, &end, &ended, err);
    }
    if (status != QUERN_OK || !ended.held) {
        return status;
    }
    *ret_applied = ended.archived ? QN_ARCHIVED : QN_APPLIED;
    if (!outcome->started || !end.is_death) {
        return QUERN_OK;
    }
    bool is_probe = end.token == queue->brake.probe_token;
    qn_brake_death(&queue->brake, is_probe, counters->now_ms);
    queue->brake_changed = true;
    return is_probe ? qn_brake_put_behind(counters->conn, end.seq, err) : QUERN_OK;
}

/* In a queue with limits: its place is free, and a start that was none is returned. */
static quern_status leave_limits(struct qn_queue_counters *counters,
                                 const struct qn_counted_queue *queue,
                                 const struct qn_outcome *outcome, quern_error *err)
{
    const struct qn_leased *run = outcome->run;
    bool began = outcome->started && outcome->kind != QN_ASIDE;
    bool returns = outcome->kind == QN_GIVE_BACK || outcome->kind == QN_ASIDE;
    qn_queue_counters_free_place(counters, queue);
    if (began || !returns || (queue->limits & QN_METER_STARTS) == 0) {
        return QUERN_OK;
    }
    struct qn_meters meters;
    const struct qn_metered task = {.queue_no = queue->no,
                                    .limits = queue->limits,
                                    .type = run->task.type,
                                    .key = run->task.limit_key};
    int64_t age_ms = counters->now_boot_ms - run->leased_at_boot_ms;
    qn_meters_init(&meters, counters->conn, counters->now_ms);
    quern_status status = qn_meters_give_back(&meters, &task, age_ms < 0 ? 0 : age_ms, err);
    if (status == QUERN_OK) {
        status = qn_meters_write(&meters, err);
    }
    qn_meters_finish(&meters);
    counters->wake = true;
    return status;
}

static quern_status apply(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                          const struct qn_outcome *outcome, enum qn_applied *ret_applied,
                          quern_error *err)
{
    switch (outcome->kind) {
    case QN_DONE:
    case QN_DROP:
        return apply_done(counters, queue, outcome, ret_applied, err);
    case QN_RETRY:
        return apply_retry(counters, queue, outcome, ret_applied, err);
    case QN_SNOOZE:
    case QN_ASIDE:
        return apply_later(counters, queue, outcome, ret_applied, err);
    case QN_ARCHIVE:
    case QN_CANCEL:
        return apply_archive(counters, queue, outcome, ret_applied, err);
    case QN_GIVE_BACK:
        return apply_give_back(counters, outcome, ret_applied, err);
    case QN_CRASH:
        return apply_crash(counters, queue, outcome, ret_applied, err);
    case QN_ENDED:
        qn_queue_counters_release(counters, queue);
        *ret_applied = QN_APPLIED;
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_INVALID, "no such outcome");
}

quern_status qn_outcome_apply(struct qn_queue_counters *counters, const struct qn_outcome *outcome,
                              enum qn_applied *ret_applied, quern_error *err)
{
    struct qn_counted_queue *queue = NULL;
    *ret_applied = QN_STALE;
    quern_status status = qn_queue_counters_queue(counters, outcome->run->task.queue, &queue, err);
    if (status == QUERN_OK && outcome->change != NULL) {
        status = qn_change_data(counters, outcome, err);
    }
    if (status == QUERN_OK) {
        status = apply(counters, queue, outcome, ret_applied, err);
    }
    if (status == QUERN_OK && outcome->change != NULL) {
        status = qn_change_queue(counters, outcome, ret_applied, err);
        if (status == QUERN_OK) { /* it may have moved in memory */
            status = qn_queue_counters_queue(counters, outcome->run->task.queue, &queue, err);
        }
    }
    return status == QUERN_OK && queue->limits != 0 && *ret_applied != QN_STALE
               ? leave_limits(counters, queue, outcome, err)
               : status;
}
