/* SPDX-License-Identifier: MIT */
/* pause.c - pauses and resumes queues. */
#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/operate/operate.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"

quern_status qn_sqlite_pause_read(struct qn_conn *conn, const char *name,
                                  struct qn_queue_row *ret_row, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_queue_read);
    qn_query_text(&query, name);
    bool found = qn_query_row(&query);
    struct qn_queue_row row = {0};
    if (found) {
        row.no = sqlite3_column_int64(query.statement, 0);
        row.paused_at_ms = sqlite3_column_int64(query.statement, 1);
    }
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && !found) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no queue \"%s\"", name);
    }
    if (status == QUERN_OK) {
        *ret_row = row;
    }
    return status;
}

quern_status qn_sqlite_pause_write(struct qn_conn *conn, int64_t queue_no, int64_t paused_at_ms,
                                   quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_queue_pause);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, paused_at_ms);
    return qn_query_run(&query, NULL, err);
}

static quern_status change_pause(struct qn_conn *conn, const char *queue, bool pause,
                                 int64_t now_ms, quern_error *err)
{
    struct qn_queue_row row;
    quern_status status = qn_sqlite_pause_read(conn, queue, &row, err);
    if (status != QUERN_OK) {
        return status;
    }
    if ((row.paused_at_ms != 0) == pause) {
        return qn_error_set(err, QUERN_E_STATE, "queue \"%s\" is %s", queue,
                            pause ? "already paused" : "not paused");
    }
    return qn_sqlite_pause_write(conn, row.no, pause ? now_ms : 0, err);
}

quern_status qn_sqlite_pause(struct qn_broker *broker, const char *queue, bool pause,
                             quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = change_pause(conn, queue, pause, qn_clock_wall_ms(broker->clock), err);
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    status = qn_transaction_commit(self, err);
    /* After a pause, too: a worker may hold runs that it has not started. */
    if (status == QUERN_OK && (pause || !QN_BUG(PAUSE_NOT_ARMED))) {
        qn_waiters_wake(self);
    }
    return status;
}
