/* SPDX-License-Identifier: MIT */
/* queue_counters.c - the state and the counters of each queue in one transaction.
 *
 * Counters are collected per queue and written once at the end of the transaction, with the UTC
 * day of now. The brake of the queue on the host of the exchange is read with the queue, and
 * written only if it has changed. */
#include "broker/sqlite/queue/queue_counters.h"

#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "broker/sqlite/queue/brake.h"
#include "broker/sqlite/queue/meter.h"
#include "broker/sqlite/queue/queue_counters_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "task/brake.h"

#define MS_PER_DAY (24 * 3600 * INT64_C(1000))

void qn_queue_counters_init(struct qn_queue_counters *counters, struct qn_conn *conn,
                            int64_t now_ms)
{
    *counters = (struct qn_queue_counters){.conn = conn, .now_ms = now_ms};
}

void qn_queue_counters_finish(struct qn_queue_counters *counters)
{
    qn_free(counters->queues);
    *counters = (struct qn_queue_counters){0};
}

static enum qn_solo_state solo_state(const struct qn_queue_counters *counters,
                                     const struct qn_query *query)
{
    const char *owner = qn_query_column_text(query, 2);
    if (owner[0] == '\0') {
        return QN_SOLO_FREE;
    }
    bool ours = counters->worker_id != NULL && strcmp(owner, counters->worker_id) == 0;
    return ours ? QN_SOLO_OURS : QN_SOLO_OTHERS;
}

static quern_status read_queue(struct qn_queue_counters *counters, const char *name,
                               struct qn_counted_queue *queue, quern_error *err)
{
    *queue = (struct qn_counted_queue){.name = name, .due_at_ms = -1};
    struct qn_query query = qn_query_start(counters->conn, sql_queue_counters_read);
    qn_query_text(&query, name);
    qn_query_text(&query, counters->host);
    if (qn_query_row(&query)) {
        queue->no = sqlite3_column_int64(query.statement, 0);
        queue->paused = sqlite3_column_int64(query.statement, 1) != 0;
        queue->solo = (struct qn_solo_lock){.state = solo_state(counters, &query),
                                            .since_ms = qn_query_column_sane(&query, 3),
                                            .until_ms = qn_query_column_sane(&query, 4),
                                            .rest_ms = qn_query_column_sane(&query, 5)};
        qn_brake_columns(&query, 6, &queue->brake);
        queue->limits = sqlite3_column_int64(query.statement, 11);
        queue->lanes = sqlite3_column_int64(query.statement, 12);
        queue->terms = sqlite3_column_int64(query.statement, 13) != 0;
        queue->sort = sqlite3_column_int64(query.statement, 14);
    }
    return qn_query_finish(&query, err);
}

quern_status qn_queue_counters_queue(struct qn_queue_counters *counters, const char *name,
                                     struct qn_counted_queue **ret_queue, quern_error *err)
{
    for (size_t i = 0; i < counters->count; i++) {
        if (strcmp(counters->queues[i].name, name) == 0) {
            *ret_queue = &counters->queues[i];
            return QUERN_OK;
        }
    }
    struct qn_counted_queue *queues =
        qn_vec_grow(counters->queues, counters->count, &counters->capacity, sizeof *queues);
    if (queues == NULL) {
        return qn_error_nomem(err);
    }
    counters->queues = queues;
    struct qn_counted_queue *queue = &queues[counters->count];
    quern_status status = read_queue(counters, name, queue, err);
    if (status == QUERN_OK && queue->no != 0 && counters->host != NULL &&
        (QN_BUG(BRAKE_EVERYWHERE) || QN_BUG(OK_ELSEWHERE))) {
        status = qn_brake_read(counters->conn, queue->no, counters->host, &queue->brake, err);
    }
    if (status == QUERN_OK) {
        counters->count++;
        *ret_queue = queue;
    }
    return status;
}

void qn_queue_counters_count(struct qn_counted_queue *queue, int64_t processed, int64_t failed)
{
    queue->processed += processed;
    queue->failed += failed;
    queue->changed = queue->changed || processed > 0;
}

void qn_queue_counters_release(struct qn_queue_counters *counters, struct qn_counted_queue *queue)
{
    if (counters->is_leaving && !QN_BUG(LEAVING_WORKER_RELEASES)) {
        return;
    }
    counters->wake = counters->wake || qn_brake_is_on(&queue->brake);
    if (qn_brake_release(&queue->brake, counters->now_ms)) {
        queue->brake_changed = true;
    }
}

void qn_queue_counters_free_place(struct qn_queue_counters *counters,
                                  const struct qn_counted_queue *queue)
{
    bool waits = (queue->limits & QN_METER_RUNS) != 0;
    if (QN_BUG(HOLDER_END_UNNOTICED) && (queue->limits & QN_METER_SEMAPHORES) != 0) {
        waits = false;
    }
    counters->wake = counters->wake || waits;
}

quern_status qn_queue_counters_due(struct qn_queue_counters *counters,
                                   struct qn_counted_queue *queue, int64_t at_ms, quern_error *err)
{
    if (counters->wake) {
        return QUERN_OK;
    }
    if (queue->due_at_ms < 0) {
        quern_status status = qn_tables_next_due(counters->conn, queue->no, &queue->due_at_ms, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
    counters->wake = at_ms < queue->due_at_ms && !QN_BUG(EARLIER_DUE_NOT_ARMED);
    return QUERN_OK;
}

static quern_status write_queue(struct qn_queue_counters *counters,
                                const struct qn_counted_queue *queue, quern_error *err)
{
    struct qn_query query = qn_query_start(counters->conn, sql_queue_counters_write);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, queue->processed);
    qn_query_int(&query, queue->failed);
    quern_status status = qn_query_run(&query, NULL, err);
    if (status != QUERN_OK || queue->processed == 0) {
        return status;
    }
    query = qn_query_start(counters->conn, sql_queue_counters_day);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, counters->now_ms / MS_PER_DAY);
    qn_query_int(&query, queue->processed);
    qn_query_int(&query, queue->failed);
    return qn_query_run(&query, NULL, err);
}

static bool has_brake_news(const struct qn_queue_counters *counters,
                           const struct qn_counted_queue *queue)
{
    return queue->brake_changed && counters->host != NULL && queue->no != 0;
}

quern_status qn_queue_counters_write(struct qn_queue_counters *counters, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < counters->count; i++) {
        const struct qn_counted_queue *queue = &counters->queues[i];
        if (queue->changed) {
            status = write_queue(counters, queue, err);
        }
        if (status == QUERN_OK && has_brake_news(counters, queue)) {
            status = qn_brake_write(counters, queue->no, counters->host, &queue->brake, err);
        }
    }
    return status;
}
