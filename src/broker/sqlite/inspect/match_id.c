/* SPDX-License-Identifier: MIT */
/* match_id.c - the tasks whose ids begin alike: a part of the index of ids, queue by queue. */
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"

quern_status qn_sqlite_match_id(struct qn_broker *broker, const char *prefix,
                                bool (*on_id)(const char *queue, const char *id, void *user),
                                void *user, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_match_id);
    qn_query_text(&query, prefix);
    bool wanted = true;
    while (wanted && qn_query_row(&query)) {
        wanted = on_id(qn_query_column_text(&query, 0), qn_query_column_text(&query, 1), user);
    }
    status = qn_query_finish(&query, err);
    qn_transaction_read_end(self);
    return status;
}
