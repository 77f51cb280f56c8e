/* SPDX-License-Identifier: MIT */
/* tables.c - the few statements on our tables that several rooms need: the number of a queue, the
 * counter of the database, the next due task, the end of a unique lock. */
#include "broker/sqlite/store/tables.h"

#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables_sql.h"

quern_status qn_tables_queue_no(struct qn_conn *conn, const char *name, bool create,
                                int64_t *ret_no, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_queue_find);
    qn_query_text(&query, name);
    int64_t no = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && no == 0 && create) {
        query =
            qn_query_start(conn, QN_BUG(NEW_QUEUE_UNBOUND) ? sql_bug_queue_make : sql_queue_make);
        qn_query_text(&query, name);
        no = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
        status = qn_query_finish(&query, err);
    }
    if (status == QUERN_OK) {
        *ret_no = no;
    }
    return status;
}

quern_status qn_tables_numbers(struct qn_conn *conn, size_t count, int64_t *ret_first,
                               quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_numbers);
    qn_query_int(&query, (int64_t)count);
    int64_t last = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && last == 0 && count > 0) {
        status = qn_error_set(err, QUERN_E_CORRUPT,
                              "sqlite %s: the counter in quern_meta is damaged (see quern doctor)",
                              conn->path);
    }
    if (status == QUERN_OK) {
        *ret_first = last - (int64_t)count + 1;
    }
    return status;
}

quern_status qn_tables_next_due(struct qn_conn *conn, int64_t queue_no, int64_t *ret_due_at_ms,
                                quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_next_due);
    qn_query_int(&query, queue_no);
    int64_t due_at_ms =
        qn_query_row(&query) ? qn_query_column_moment_ms(query.statement, 0) : INT64_MAX;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        *ret_due_at_ms = due_at_ms;
    }
    return status;
}

quern_status qn_tables_unlock(struct qn_conn *conn, const char *key, int64_t queue_no,
                              const char *id, quern_error *err)
{
    if (key == NULL) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(conn, sql_lock_free);
    qn_query_text(&query, key);
    qn_query_int(&query, queue_no);
    qn_query_text(&query, id);
    return qn_query_run(&query, NULL, err);
}
