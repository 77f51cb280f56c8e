/* SPDX-License-Identifier: MIT */
/* heartbeat.c - the worker's record.
 *
 * The first heartbeat inserts the record and makes the queues that do not exist yet, the following
 * ones update it. A record that was removed (its worker seemed gone, but was only stopped) comes
 * back with the next heartbeat, under a new number. */
#include "broker/sqlite/queue/solo.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/upkeep/heartbeat_sql.h"
#include "broker/sqlite/wake/waiters.h"

static quern_status update(struct qn_conn *conn, const struct qn_heartbeat *heartbeat,
                           int64_t now_ms, bool *ret_found, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_worker_update);
    qn_query_text(&query, heartbeat->worker_id);
    qn_query_text(&query, heartbeat->status);
    qn_query_text(&query, heartbeat->queues);
    qn_query_int(&query, heartbeat->concurrency);
    qn_query_int(&query, heartbeat->strict ? 1 : 0);
    qn_query_int(&query, now_ms);
    int64_t changes = 0;
    quern_status status = qn_query_run(&query, &changes, err);
    *ret_found = changes > 0;
    return status;
}

static quern_status insert(struct qn_conn *conn, const struct qn_heartbeat *heartbeat,
                           int64_t now_ms, quern_error *err)
{
    int64_t no = 0;
    quern_status status = qn_tables_numbers(conn, 1, &no, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_worker_insert);
    qn_query_int(&query, no);
    qn_query_text(&query, heartbeat->worker_id);
    qn_query_text(&query, heartbeat->owner);
    qn_query_text(&query, heartbeat->host);
    qn_query_int(&query, heartbeat->pid);
    qn_query_text(&query, heartbeat->status);
    qn_query_text(&query, heartbeat->queues);
    qn_query_int(&query, heartbeat->concurrency);
    qn_query_int(&query, heartbeat->strict ? 1 : 0);
    qn_query_int(&query, heartbeat->started_at_ms);
    qn_query_int(&query, now_ms);
    return qn_query_run(&query, NULL, err);
}

static quern_status make_queues(struct qn_conn *conn, const struct qn_heartbeat *heartbeat,
                                quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < heartbeat->queue_count; i++) {
        int64_t no = 0;
        status = qn_tables_queue_no(conn, heartbeat->queue_shares[i].name, true, &no, err);
    }
    return status;
}

quern_status qn_sqlite_heartbeat(struct qn_broker *broker, const struct qn_heartbeat *heartbeat,
                                 quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    int64_t now_ms = qn_clock_wall_ms(broker->clock);
    bool found = false;
    status = update(conn, heartbeat, now_ms, &found, err);
    if (status == QUERN_OK && !found) {
        status = insert(conn, heartbeat, now_ms, err);
    }
    if (status == QUERN_OK) {
        status = make_queues(conn, heartbeat, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    return qn_transaction_commit(self, err);
}

static quern_status run_for_worker(struct qn_conn *conn, const char *sql, const char *worker_id,
                                   int64_t *ret_changes, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    qn_query_text(&query, worker_id);
    return qn_query_run(&query, ret_changes, err);
}

quern_status qn_sqlite_deregister(struct qn_broker *broker, const char *worker_id, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    int64_t voided = 0;
    status = run_for_worker(conn, sql_worker_void_leases, worker_id, &voided, err);
    if (status == QUERN_OK) {
        status = qn_solo_return(conn, worker_id, qn_clock_wall_ms(broker->clock), 0, err);
    }
    if (status == QUERN_OK) {
        status = run_for_worker(conn, sql_worker_delete, worker_id, NULL, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    status = qn_transaction_commit(self, err);
    if (status == QUERN_OK && voided > 0) {
        qn_waiters_wake(self);
    }
    return status;
}
