/* SPDX-License-Identifier: MIT */
/* lock_holder.c - which task holds a unique lock. */
#include <stdio.h>

#include "base/error.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"
#include "task/limits.h"

quern_status qn_sqlite_lock_holder(struct qn_broker *broker, const char *unique_key, char *ret_id,
                                   quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_lock_holder);
    qn_query_text(&query, unique_key);
    qn_query_int(&query, qn_clock_wall_ms(broker->clock));
    bool is_held = qn_query_row(&query);
    if (is_held) {
        (void)snprintf(ret_id, QN_NAME_SIZE_MAX + 1, "%s", qn_query_column_text(&query, 0));
    }
    status = qn_query_finish(&query, err);
    qn_transaction_read_end(self);
    if (status == QUERN_OK && !is_held) {
        status = qn_error_set(err, QUERN_E_NOT_FOUND, "no task holds the lock");
    }
    return status;
}
