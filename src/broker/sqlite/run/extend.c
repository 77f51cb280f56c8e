/* SPDX-License-Identifier: MIT */
/* extend.c - longer leases for runs that continue.
 *
 * Everything is tied to the token; of a lease that was lost nothing is changed, and the worker
 * learns it. Extension passes all other writers of this process, since a late one costs a second
 * run. It also brings the cancellations, so that none is lost when its datagram is. */
#include "base/bug.h"
#include "broker/sqlite/queue/locks.h"
#include "broker/sqlite/run/extend_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"

struct times {
    struct qn_span lease;
    int64_t lease_until; /* on the boot clock */
};

static quern_status extend_one(struct qn_conn *conn, struct qn_extension *extension,
                               const struct times *times, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_extend);
    qn_query_int(&query, extension->run->row);
    qn_query_int(&query, (int64_t)extension->run->token);
    qn_query_int(&query, times->lease_until);
    extension->held = qn_query_row(&query);
    extension->cancel =
        extension->held ? (enum qn_cancel)sqlite3_column_int(query.statement, 0) : QN_CANCEL_NONE;
    quern_status status = qn_query_finish(&query, err);
    const struct qn_task *task = &extension->run->task;
    if (status == QUERN_OK && extension->held && task->unique_key != NULL) {
        status = qn_locks_leased(conn, extension->run->row, task->unique_until, times->lease, err);
    }
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
    const struct times times = {.lease = {qn_clock_wall_ms(broker->clock), lease_ms},
                                .lease_until = qn_clock_boot_ms(broker->clock) + lease_ms};
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        status = extend_one(conn, &extensions[i], &times, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    return qn_transaction_commit(self, err);
}
