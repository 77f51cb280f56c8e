/* SPDX-License-Identifier: MIT */
/* find_queue.c - whether there is a queue of a name. */
#include "base/error.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"

quern_status qn_sqlite_find_queue(struct qn_broker *broker, const char *queue, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    int64_t no = 0;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_tables_queue_no(conn, queue, false, &no, err);
    qn_transaction_read_end(self);
    if (status == QUERN_OK && no == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no queue \"%s\"", queue);
    }
    return status;
}
