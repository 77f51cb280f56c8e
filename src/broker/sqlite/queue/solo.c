/* SPDX-License-Identifier: MIT */
/* solo.c - takes, keeps and returns the solo lock of a queue.
 *
 * All its moments are on the wall clock. Where that went back to before the lock was taken, they
 * mean nothing: then the lock is free, and the queue does not rest. */
#include "broker/sqlite/queue/solo.h"

#include "base/bug.h"
#include "base/text/number.h"
#include "broker/sqlite/queue/solo_sql.h"
#include "broker/sqlite/store/query.h"

#define NONE INT64_MIN                          /* no task is charged */
#define REST_MS_MAX (24 * 3600 * INT64_C(1000)) /* the clock was ahead when it was stored */

/* The first level that such a statement finds. */
static quern_status read_level(struct qn_conn *conn, const char *sql, int64_t queue_no,
                               int64_t *ret_level, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    qn_query_int(&query, queue_no);
    *ret_level = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : NONE;
    return qn_query_finish(&query, err);
}

quern_status qn_solo_level(struct qn_conn *conn, int64_t queue_no, int32_t *ret_level,
                           quern_error *err)
{
    int64_t top = NONE;
    int64_t lowest = 0;
    quern_status status = read_level(conn, sql_solo_level, queue_no, &top, err);
    if (status == QUERN_OK && top != NONE) {
        status = read_level(conn, sql_solo_lowest, queue_no, &lowest, err);
    }
    if (status == QUERN_OK && (top > QN_ALONE_CHARGES || lowest < 0)) {
        struct qn_query query = qn_query_start(conn, sql_solo_repair);
        qn_query_int(&query, queue_no);
        status = qn_query_run(&query, NULL, err);
        if (status == QUERN_OK) {
            status = read_level(conn, sql_solo_level, queue_no, &top, err);
        }
    }
    *ret_level = top == NONE ? -1 : (int32_t)qn_number_clamp(top, 0, QN_ALONE_CHARGES);
    return status;
}

int64_t qn_solo_wait_ms(const struct qn_solo_lock *lock, int64_t now_ms)
{
    bool went_back = now_ms < lock->since_ms || lock->rest_ms > now_ms + REST_MS_MAX;
    int64_t until_ms = lock->rest_ms;
    if (lock->state == QN_SOLO_OTHERS) {
        until_ms = lock->until_ms;
    } else if (lock->state == QN_SOLO_OURS || QN_BUG(REST_FORGOTTEN)) {
        until_ms = 0;
    }
    return until_ms > now_ms && !went_back ? until_ms - now_ms : 0;
}

quern_status qn_solo_take(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                          quern_error *err)
{
    queue->solo = (struct qn_solo_lock){.state = QN_SOLO_OURS,
                                        .since_ms = counters->now_ms,
                                        .until_ms = counters->now_ms + QN_SOLO_MS};
    struct qn_query query = qn_query_start(counters->conn, sql_solo_take);
    qn_query_int(&query, queue->no);
    qn_query_text(&query, counters->worker_id);
    qn_query_int(&query, queue->solo.since_ms);
    qn_query_int(&query, queue->solo.until_ms);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_solo_keep(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                          bool *ret_held, quern_error *err)
{
    *ret_held = queue->solo.state == QN_SOLO_OURS;
    if (!*ret_held) {
        return QUERN_OK;
    }
    queue->solo.until_ms = counters->now_ms + QN_SOLO_MS;
    struct qn_query query = qn_query_start(counters->conn, sql_solo_keep);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, counters->now_ms);
    qn_query_int(&query, QN_SOLO_MS);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_solo_return(struct qn_conn *conn, const char *worker_id, int64_t now_ms,
                            int64_t extra_ms, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_solo_return);
    qn_query_text(&query, worker_id);
    qn_query_int(&query, now_ms);
    qn_query_int(&query, extra_ms);
    qn_query_int(&query, QN_SOLO_MS);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_solo_end(struct qn_queue_counters *counters, struct qn_counted_queue *queue,
                         quern_error *err)
{
    struct qn_solo_lock *lock = &queue->solo;
    if (lock->state != QN_SOLO_OURS) {
        return QUERN_OK;
    }
    lock->state = QN_SOLO_FREE;
    lock->since_ms = counters->now_ms;
    counters->wake = true;
    quern_status status =
        qn_solo_return(counters->conn, counters->worker_id, counters->now_ms, 0, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(counters->conn, sql_solo_rest);
    qn_query_int(&query, queue->no);
    lock->rest_ms = qn_query_row(&query) ? qn_query_column_sane(&query, 0) : 0;
    return qn_query_finish(&query, err);
}
