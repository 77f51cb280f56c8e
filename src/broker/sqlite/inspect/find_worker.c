/* SPDX-License-Identifier: MIT */
/* find_worker.c - the record of one worker. */
#include "broker/owner.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/worker_status.h"

static void take_record(const struct qn_query *query, int64_t now_ms,
                        struct qn_found_worker *ret_worker)
{
    int64_t heartbeat_at_ms = qn_query_column_moment_ms(query->statement, 3);
    ret_worker->is_there = true;
    ret_worker->lives = qn_owner_lives(qn_query_column_text(query, 0), heartbeat_at_ms, now_ms);
    ret_worker->status = qn_worker_status_read(qn_query_column_text(query, 1));
    qn_command_read_answer(qn_query_column_text(query, 2), &ret_worker->answer);
}

quern_status qn_sqlite_find_worker(struct qn_broker *broker, const char *id,
                                   struct qn_found_worker *ret_worker, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_worker_of_id);
    qn_query_text(&query, id);
    if (qn_query_row(&query)) {
        take_record(&query, qn_clock_wall_ms(broker->clock), ret_worker);
    }
    status = qn_query_finish(&query, err);
    qn_transaction_read_end(self);
    return status;
}
