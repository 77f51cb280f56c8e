/* SPDX-License-Identifier: MIT */
/* sort.c - gives the tasks of a queue their lanes.
 *
 * With a million tasks this takes seconds, so it is not done in one transaction, which would keep
 * all other writers waiting: each lease gives some pages of tasks their lanes. The pending ones
 * come first, in their order, and then all others by id, which also finds those that have become
 * pending meanwhile; new tasks are stored with their lane. A task without a lane, or with one of
 * the former kind, is not leased, as limits would not count it (queue/meter.sql counts by lane). So
 * active tasks are given theirs at once, and charged ones, which are not found by lane, when they
 * are leased. */
#include "broker/sqlite/run/limits/sort.h"

#include "base/bug.h"
#include "broker/sqlite/run/limits/sort_sql.h"
#include "broker/sqlite/schema/late.h"

/* At the beginning, and of a lease: a short queue is sorted at once. */
#define PAGES_MAX 3

/* quern_queue.sort */
enum { SORTED = 0, SORT_PENDING, SORT_REST };

static quern_status start_next(struct qn_conn *conn, struct qn_counted_queue *queue,
                               quern_error *err)
{
    queue->sort = queue->sort == SORT_PENDING ? SORT_REST : SORTED;
    struct qn_query query = qn_query_start(conn, sql_sort_next);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, queue->sort);
    return qn_query_run(&query, NULL, err);
}

/* *ret_any: the page had tasks. */
static quern_status give_page(struct qn_conn *conn, const struct qn_counted_queue *queue,
                              bool *ret_any, quern_error *err)
{
    int64_t changes = 0;
    bool pending = queue->sort == SORT_PENDING;
    struct qn_query query = qn_query_start(conn, pending ? sql_sort_pending : sql_sort_rest);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, queue->lanes);
    qn_query_int(&query, QN_LIMIT_SORT_MAX);
    quern_status status = qn_query_run(&query, NULL, err);
    if (status != QUERN_OK) {
        return status;
    }
    query = qn_query_start(conn, pending ? sql_sort_pending_to : sql_sort_rest_to);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, QN_LIMIT_SORT_MAX);
    status = qn_query_run(&query, &changes, err);
    *ret_any = changes > 0;
    return status;
}

/* Gives some pages of tasks their lanes. */
static quern_status sort_some(struct qn_conn *conn, struct qn_counted_queue *queue,
                              quern_error *err)
{
    quern_status status = QUERN_OK;
    size_t pages = 0;
    while (status == QUERN_OK && queue->sort != SORTED && pages < PAGES_MAX) {
        bool any = false;
        status = give_page(conn, queue, &any, err);
        pages += any ? 1 : 0;
        if (status == QUERN_OK && !any) {
            status = start_next(conn, queue, err);
        }
    }
    return status;
}

quern_status qn_sort_begin(struct qn_conn *conn, int64_t queue_no, int64_t lanes, quern_error *err)
{
    quern_status status = qn_sqlite_late_lanes(conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_sort_begin);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, lanes);
    qn_query_int(&query, SORT_PENDING);
    qn_query_int(&query, INT64_MIN);
    status = qn_query_run(&query, NULL, err);
    if (status != QUERN_OK || QN_BUG(ACTIVE_NOT_SORTED)) {
        return status;
    }
    query = qn_query_start(conn, sql_sort_active);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, lanes);
    status = qn_query_run(&query, NULL, err);
    struct qn_counted_queue queue = {.no = queue_no, .lanes = lanes, .sort = SORT_PENDING};
    return status == QUERN_OK ? sort_some(conn, &queue, err) : status;
}

quern_status qn_sort_pages(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                           quern_error *err)
{
    return sort_some(batch->counters->conn, source->queue, err);
}

quern_status qn_sort_row(struct qn_conn *conn, const struct qn_counted_queue *queue, int64_t row,
                         quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_sort_row);
    qn_query_int(&query, row);
    qn_query_int(&query, queue->lanes);
    return qn_query_run(&query, NULL, err);
}
