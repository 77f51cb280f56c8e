/* SPDX-License-Identifier: MIT */
/* set_queue.c - the settings of a queue. */
#include "broker/sqlite/operate/operate.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"

static quern_status write_max_pending(struct qn_conn *conn, int64_t queue_no, int64_t max_pending,
                                      quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_queue_set_max_pending);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, max_pending == QUERN_MAX_PENDING_NONE ? 0 : max_pending);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_sqlite_set_queue(struct qn_broker *broker, const char *queue,
                                 const quern_queue_settings *settings, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    int64_t queue_no = 0;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_tables_queue_no(conn, queue, true, &queue_no, err);
    if (status == QUERN_OK && settings->max_pending != 0) {
        status = write_max_pending(conn, queue_no, settings->max_pending, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    return qn_transaction_commit(self, err);
}
