/* SPDX-License-Identifier: MIT */
/* trash_use.c - how much is in the trash of a queue. */
#include "broker/sqlite/queue/trash_rows.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"

quern_status qn_sqlite_trash_use(struct qn_broker *broker, const char *queue,
                                 struct qn_trash_use *ret_use, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    int64_t queue_no = 0;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_tables_queue_no(conn, queue, false, &queue_no, err);
    if (status == QUERN_OK) {
        status = qn_trash_rows_use(conn, queue_no, ret_use, err);
    }
    qn_transaction_read_end(self);
    return status;
}
