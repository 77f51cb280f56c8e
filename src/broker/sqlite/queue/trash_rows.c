/* SPDX-License-Identifier: MIT */
/* trash_rows.c - the rows of deleted tasks: hidden, found, removed for good.
 *
 * The row of a task stays; only its queue becomes the negative number. quern_trash lists such rows,
 * and the row of the queue has their number and bytes, so that a full trash is seen without
 * counting. All in the transaction of the caller. */
#include "broker/sqlite/queue/trash_rows.h"

#include "broker/sqlite/queue/trash_rows_sql.h"
#include "broker/sqlite/store/query.h"
#include "task/limits.h"

static quern_status run_on(struct qn_conn *conn, const char *sql, int64_t seq, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    qn_query_int(&query, seq);
    return qn_query_run(&query, NULL, err);
}

static quern_status count(struct qn_conn *conn, int64_t queue_no, int64_t tasks, int64_t bytes,
                          quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_trash_count);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, tasks);
    qn_query_int(&query, bytes);
    return qn_query_run(&query, NULL, err);
}

static quern_status list(struct qn_conn *conn, const struct qn_trash_row *row, int64_t now_ms,
                         int64_t *ret_size, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_trash_add);
    qn_query_int(&query, row->seq);
    qn_query_int(&query, now_ms + QN_TRASH_MS);
    qn_query_int(&query, QN_TRASH_TASK_BYTES);
    *ret_size = 0;
    while (qn_query_row(&query)) {
        *ret_size = qn_query_column_sane(&query, 0);
    }
    return qn_query_finish(&query, err);
}

quern_status qn_trash_rows_add(struct qn_conn *conn, const struct qn_trash_row *row, const char *id,
                               int64_t now_ms, quern_error *err)
{
    struct qn_trash_row former;
    int64_t size = 0;
    quern_status status = qn_trash_rows_find(conn, row->queue_no, id, &former, err);
    if (status == QUERN_OK && former.seq != 0) {
        status = qn_trash_rows_remove(conn, &former, err);
    }
    if (status == QUERN_OK) {
        status = list(conn, row, now_ms, &size, err);
    }
    if (status == QUERN_OK) {
        status = run_on(conn, sql_trash_hide, row->seq, err);
    }
    return status == QUERN_OK ? count(conn, row->queue_no, 1, size, err) : status;
}

quern_status qn_trash_rows_find(struct qn_conn *conn, int64_t queue_no, const char *id,
                                struct qn_trash_row *ret_row, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_trash_find);
    qn_query_int(&query, queue_no);
    qn_query_text(&query, id);
    *ret_row = (struct qn_trash_row){.queue_no = queue_no};
    if (qn_query_row(&query)) {
        ret_row->seq = sqlite3_column_int64(query.statement, 0);
        ret_row->until_ms = sqlite3_column_int64(query.statement, 1);
        ret_row->size = qn_query_column_sane(&query, 2);
        ret_row->lock_until_ms = qn_query_column_sane(&query, 3);
        ret_row->state = (quern_task_state)sqlite3_column_int64(query.statement, 4);
        ret_row->has_lock = sqlite3_column_type(query.statement, 5) != SQLITE_NULL;
    }
    return qn_query_finish(&query, err);
}

quern_status qn_trash_rows_forget(struct qn_conn *conn, const struct qn_trash_row *row,
                                  quern_error *err)
{
    quern_status status = run_on(conn, sql_trash_forget, row->seq, err);
    return status == QUERN_OK ? count(conn, row->queue_no, -1, -row->size, err) : status;
}

quern_status qn_trash_rows_remove(struct qn_conn *conn, const struct qn_trash_row *row,
                                  quern_error *err)
{
    quern_status status = qn_trash_rows_forget(conn, row, err);
    return status == QUERN_OK ? run_on(conn, sql_trash_remove, row->seq, err) : status;
}

/* The next that is over; seq 0: none. */
static quern_status find_over(struct qn_conn *conn, int64_t now_ms, struct qn_trash_row *ret_row,
                              quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_trash_over);
    qn_query_int(&query, now_ms);
    *ret_row = (struct qn_trash_row){.seq = 0};
    if (qn_query_row(&query)) {
        ret_row->seq = sqlite3_column_int64(query.statement, 0);
        ret_row->queue_no = sqlite3_column_int64(query.statement, 1);
        ret_row->size = qn_query_column_sane(&query, 2);
    }
    return qn_query_finish(&query, err);
}

quern_status qn_trash_rows_expire(struct qn_conn *conn, int64_t now_ms, size_t limit,
                                  size_t *ret_count, quern_error *err)
{
    size_t removed = 0;
    quern_status status = QUERN_OK;
    bool more = true;
    while (status == QUERN_OK && more && removed < limit) {
        struct qn_trash_row row;
        status = find_over(conn, now_ms, &row, err);
        more = status == QUERN_OK && row.seq != 0;
        if (more) {
            status = qn_trash_rows_remove(conn, &row, err);
            removed++;
        }
    }
    *ret_count = removed;
    return status;
}

quern_status qn_trash_rows_use(struct qn_conn *conn, int64_t queue_no, struct qn_trash_use *ret_use,
                               quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_trash_room);
    qn_query_int(&query, queue_no);
    *ret_use = (struct qn_trash_use){.count = 0};
    if (qn_query_row(&query)) {
        ret_use->count = (uint64_t)qn_query_column_sane(&query, 0);
        ret_use->bytes = (uint64_t)qn_query_column_sane(&query, 1);
    }
    return qn_query_finish(&query, err);
}
