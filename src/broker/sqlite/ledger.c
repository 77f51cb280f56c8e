/* SPDX-License-Identifier: MIT */
/* ledger.c - what one transaction knows and counts of each queue, and what a crash means.
 *
 * Counters are collected per queue and written once at the end of the transaction, with the UTC
 * day of now. A crash is charged only to a run that had started, and not while so many different
 * tasks crashed in a row that the program must be broken, not the tasks. The first crash gives the
 * task back, the next ones let it wait, the last within the window archives it as poison. */
#include "broker/sqlite/ledger.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/ledger_sql.h"

#define MS_PER_DAY (24 * 3600 * INT64_C(1000))

void qn_ledger_init(struct qn_ledger *ledger, struct qn_conn *conn, int64_t now_ms)
{
    *ledger = (struct qn_ledger){.conn = conn, .now_ms = now_ms};
}

void qn_ledger_finish(struct qn_ledger *ledger)
{
    qn_free(ledger->queues);
    *ledger = (struct qn_ledger){0};
}

static bool reserve(struct qn_ledger *ledger)
{
    if (ledger->count < ledger->capacity) {
        return true;
    }
    size_t capacity = ledger->capacity == 0 ? 4 : ledger->capacity * 2;
    struct qn_ledger_queue *queues =
        qn_realloc(ledger->queues, capacity * sizeof ledger->queues[0]);
    if (queues == NULL) {
        return false;
    }
    ledger->queues = queues;
    ledger->capacity = capacity;
    return true;
}

quern_status qn_ledger_queue(struct qn_ledger *ledger, const char *name,
                             struct qn_ledger_queue **ret_queue, quern_error *err)
{
    for (size_t i = 0; i < ledger->count; i++) {
        if (strcmp(ledger->queues[i].name, name) == 0) {
            *ret_queue = &ledger->queues[i];
            return QUERN_OK;
        }
    }
    if (!reserve(ledger)) {
        return qn_error_nomem(err);
    }
    struct qn_ledger_queue *queue = &ledger->queues[ledger->count];
    *queue = (struct qn_ledger_queue){.name = name, .due_at_ms = -1};
    struct qn_query query = qn_query_start(ledger->conn, sql_ledger_read);
    qn_query_text(&query, name);
    if (qn_query_row(&query)) {
        queue->no = sqlite3_column_int64(query.statement, 0);
        queue->paused = sqlite3_column_int64(query.statement, 1) != 0;
        queue->crash_streak = qn_column_count(query.statement, 2);
        (void)snprintf(queue->streak_id, sizeof queue->streak_id, "%s",
                       qn_query_column_text(&query, 3));
    }
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        ledger->count++;
        *ret_queue = queue;
    }
    return status;
}

void qn_ledger_count(struct qn_ledger_queue *queue, int64_t processed, int64_t failed)
{
    queue->processed += processed;
    queue->failed += failed;
    queue->changed = queue->changed || processed > 0 || queue->crash_streak > 0;
    queue->crash_streak = 0;
    queue->streak_id[0] = '\0';
}

quern_status qn_ledger_due(struct qn_ledger *ledger, struct qn_ledger_queue *queue, int64_t at_ms,
                           quern_error *err)
{
    if (ledger->wake) {
        return QUERN_OK;
    }
    if (queue->due_at_ms < 0) {
        quern_status status = qn_sqlite_next_due(ledger->conn, queue->no, &queue->due_at_ms, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
    ledger->wake = at_ms < queue->due_at_ms && !QN_BUG(EARLIER_DUE_NOT_ARMED);
    return QUERN_OK;
}

static quern_status write_queue(struct qn_ledger *ledger, const struct qn_ledger_queue *queue,
                                quern_error *err)
{
    struct qn_query query = qn_query_start(ledger->conn, sql_ledger_write);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, queue->processed);
    qn_query_int(&query, queue->failed);
    qn_query_int(&query, queue->crash_streak);
    qn_query_text(&query, queue->streak_id);
    quern_status status = qn_query_run(&query, NULL, err);
    if (status != QUERN_OK || queue->processed == 0) {
        return status;
    }
    query = qn_query_start(ledger->conn, sql_ledger_day);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, ledger->now_ms / MS_PER_DAY);
    qn_query_int(&query, queue->processed);
    qn_query_int(&query, queue->failed);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_ledger_write(struct qn_ledger *ledger, quern_error *err)
{
    for (size_t i = 0; i < ledger->count; i++) {
        if (ledger->queues[i].changed) {
            quern_status status = write_queue(ledger, &ledger->queues[i], err);
            if (status != QUERN_OK) {
                return status;
            }
        }
    }
    return QUERN_OK;
}

bool qn_crash_chargeable(const struct qn_ledger_queue *queue)
{
    return queue->crash_streak < QN_BRAKE_CRASHES;
}

void qn_crash_streak(struct qn_ledger_queue *queue, const char *id)
{
    if (queue->crash_streak > 0 && strcmp(queue->streak_id, id) == 0) {
        return;
    }
    queue->crash_streak++;
    (void)snprintf(queue->streak_id, sizeof queue->streak_id, "%s", id);
    queue->changed = true;
}

/* What the row becomes. */
struct verdict {
    quern_task_state state;
    int64_t at_ms;
    int64_t crash_count;
    int64_t crashed_at_ms;
    const char *error;
};

static quern_status write_verdict(struct qn_ledger *ledger, const struct qn_crash *crash,
                                  const struct verdict *verdict, quern_error *err)
{
    struct qn_query query = qn_query_start(ledger->conn, sql_crash_write);
    qn_query_int(&query, crash->seq);
    qn_query_int(&query, verdict->state);
    qn_query_int(&query, verdict->at_ms);
    qn_query_int(&query, verdict->crash_count);
    qn_query_int(&query, verdict->crashed_at_ms);
    qn_query_int(&query, crash->cause);
    qn_query_text(&query, verdict->error);
    qn_query_int(&query, ledger->now_ms);
    qn_query_int(&query, ledger->shift_ms);
    return qn_query_run(&query, NULL, err);
}

/* Counts the crash; crashed_at_ms is the first one of the window. */
static void charge_crash(const struct qn_ledger *ledger, const struct qn_crash *crash,
                         struct verdict *verdict, char *text, size_t text_size)
{
    bool in_window =
        verdict->crash_count > 0 && ledger->now_ms - verdict->crashed_at_ms <= QN_CRASH_WINDOW_MS;
    verdict->crash_count = in_window ? verdict->crash_count + 1 : 1;
    verdict->crashed_at_ms = in_window ? verdict->crashed_at_ms : ledger->now_ms;
    if (verdict->crash_count >= QN_CRASH_MAX) {
        const char *last = crash->error != NULL ? crash->error : quern_cause_name(crash->cause);
        verdict->state = QUERN_TASK_ARCHIVED;
        verdict->at_ms = ledger->now_ms;
        (void)snprintf(text, text_size, "poison: %lld crashes; the last: %s",
                       (long long)verdict->crash_count, last);
        verdict->error = text;
    } else if (verdict->crash_count > 1) {
        verdict->state = QUERN_TASK_RETRY;
        verdict->at_ms = ledger->now_ms + QN_CRASH_RETRY_MS;
    }
}

quern_status qn_crash_apply(struct qn_ledger *ledger, struct qn_ledger_queue *queue,
                            const struct qn_crash *crash, bool charge,
                            enum qn_crash_result *ret_result, quern_error *err)
{
    struct verdict verdict = {.state = QUERN_TASK_PENDING, .error = crash->error};
    struct qn_query query = qn_query_start(ledger->conn, sql_crash_read);
    qn_query_int(&query, crash->seq);
    qn_query_int(&query, (int64_t)crash->token);
    bool held = qn_query_row(&query);
    if (held) {
        verdict.crash_count = qn_column_count(query.statement, 0);
        verdict.crashed_at_ms = qn_column_moment_ms(query.statement, 1);
    }
    quern_status status = qn_query_finish(&query, err);
    if (status != QUERN_OK || !held) {
        *ret_result = QN_CRASH_STALE;
        return status;
    }
    bool charged = charge && (crash->started || QN_BUG(UNSTARTED_CHARGED));
    char text[QN_ERROR_TEXT_SIZE_MAX + 64];
    if (charged) {
        charge_crash(ledger, crash, &verdict, text, sizeof text);
    }
    if (verdict.state == QUERN_TASK_PENDING) {
        ledger->wake = true;
    } else if (verdict.state == QUERN_TASK_RETRY) {
        status = qn_ledger_due(ledger, queue, verdict.at_ms, err);
    }
    if (status == QUERN_OK) {
        status = write_verdict(ledger, crash, &verdict, err);
    }
    if (verdict.state == QUERN_TASK_ARCHIVED) {
        queue->processed++;
        queue->failed++;
        queue->changed = true;
    }
    *ret_result = verdict.state == QUERN_TASK_ARCHIVED ? QN_CRASH_POISON
                  : charged                            ? QN_CRASH_CHARGED
                                                       : QN_CRASH_GIVEN_BACK;
    return status;
}
