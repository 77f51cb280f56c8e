/* SPDX-License-Identifier: MIT */
/* result.c - data that a run writes while it runs: its result and its progress. Both are written
 * only while the token is valid. */
#include "base/error.h"
#include "broker/sqlite/run/result_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"

/* Ends the transaction of a write that is nothing when the lease is lost. */
static quern_status finish_write(struct qn_sqlite *self, struct qn_query *query,
                                 const struct qn_leased *run, quern_error *err)
{
    int64_t changes = 0;
    quern_status status = qn_query_run(query, &changes, err);
    if (status == QUERN_OK && changes == 0) {
        status = qn_error_set(err, QUERN_E_STALE, "the lease of task %s is lost", run->task.id);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    return qn_transaction_commit(self, err);
}

quern_status qn_sqlite_write_result(struct qn_broker *broker, const struct qn_leased *run,
                                    struct qn_bytes result, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_write_result);
    qn_query_int(&query, run->row);
    qn_query_int(&query, (int64_t)run->token);
    qn_query_blob(&query, result.data != NULL ? result.data : "",
                  result.size); /* an empty result is not none */
    return finish_write(self, &query, run, err);
}

quern_status qn_sqlite_write_progress(struct qn_broker *broker, const struct qn_leased *run,
                                      int32_t percent, const char *note, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_write_progress);
    qn_query_int(&query, run->row);
    qn_query_int(&query, (int64_t)run->token);
    qn_query_int(&query, percent);
    qn_query_text(&query, note);
    return finish_write(self, &query, run, err);
}
