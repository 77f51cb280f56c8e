/* SPDX-License-Identifier: MIT */
/* drained.c - whether queues hold anything that still has to be run; for --drain and
 * --until-idle. */
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/upkeep/drained_sql.h"

quern_status qn_sqlite_drained(struct qn_broker *broker, struct qn_names queues,
                               enum qn_until until, bool *ret_drained, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    bool busy = false;
    for (size_t i = 0; status == QUERN_OK && !busy && i < queues.count; i++) {
        int64_t no = 0;
        status = qn_tables_queue_no(conn, queues.items[i], false, &no, err);
        if (status == QUERN_OK && no != 0) {
            struct qn_query query =
                qn_query_start(conn, until == QN_UNTIL_IDLE ? sql_queue_pending : sql_queue_busy);
            qn_query_int(&query, no);
            busy = qn_query_row(&query) && sqlite3_column_int(query.statement, 0) != 0;
            status = qn_query_finish(&query, err);
        }
    }
    qn_transaction_read_end(self);
    if (status == QUERN_OK) {
        *ret_drained = !busy;
    }
    return status;
}
