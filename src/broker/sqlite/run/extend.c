/* SPDX-License-Identifier: MIT */
/* extend.c - what a worker writes about its runs while they run: longer leases, results, progress.
 *
 * Everything is tied to the token; a lease that was lost is told as such and nothing is changed.
 * Extension passes all other writers of this process, since a late one costs a second run. It also
 * brings the cancellations, so that none is lost when its datagram is. */
#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/run/extend_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"

static quern_status extend_one(struct qn_conn *conn, struct qn_extension *extension,
                               int64_t lease_until, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_extend);
    qn_query_int(&query, extension->run->row);
    qn_query_int(&query, (int64_t)extension->run->token);
    qn_query_int(&query, lease_until);
    extension->held = qn_query_row(&query);
    extension->cancel =
        extension->held ? (enum qn_cancel)sqlite3_column_int(query.statement, 0) : QN_CANCEL_NONE;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && extension->held && QN_BUG(EXTEND_CHANGES_TOKEN)) {
        query = qn_query_start(conn, sql_extend_bug);
        qn_query_int(&query, extension->run->row);
        status = qn_query_run(&query, NULL, err);
    }
    return status;
}

quern_status qn_sqlite_extend(struct qn_broker *broker, struct qn_extension *extensions,
                              size_t count, int64_t lease_ms, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    if (count == 0) {
        return QUERN_OK;
    }
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, true, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    int64_t lease_until = qn_clock_boot_ms(broker->clock) + lease_ms;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        status = extend_one(conn, &extensions[i], lease_until, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    return qn_transaction_commit(self, err);
}

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
