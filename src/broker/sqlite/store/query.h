/* SPDX-License-Identifier: MIT */
/* query.h - how a query is written down.
 *
 *     struct qn_query query = qn_query_start(conn, sql_lock_find);
 *     qn_query_text(&query, key);
 *     if (qn_query_row(&query)) {
 *         until_ms = sqlite3_column_int64(query.statement, 0);
 *     }
 *     status = qn_query_finish(&query, err);
 *
 * The query keeps its first error: after it binding does nothing, qn_query_row returns false, and
 * qn_query_finish reports it; so a query needs one test, at its end. */
#ifndef QN_BROKER_SQLITE_STORE_QUERY_H
#define QN_BROKER_SQLITE_STORE_QUERY_H

#include "broker/sqlite/store/conn.h"
#include "quern/task.h"

struct qn_query {
    struct qn_conn *conn;
    sqlite3_stmt *statement; /* NULL when it could not be prepared */
    int bound;               /* parameters so far */
    int code;                /* SQLITE_OK, SQLITE_DONE, or the first error */
    bool once;               /* not kept in the cache */
};

/* `sql` is one of the embedded sql_* constants: kept prepared, found again by its address. One
 * query of the same statement at a time. */
struct qn_query qn_query_start(struct qn_conn *conn, const char *sql);
/* For texts that are put together at run time: prepared now, forgotten by qn_query_finish. */
struct qn_query qn_query_start_once(struct qn_conn *conn, const char *sql);
/* These bind the next parameter (?1, ?2, ...). Texts and blobs stay the caller's until
 * qn_query_finish; NULL binds NULL. */
void qn_query_int(struct qn_query *query, int64_t value);
void qn_query_text(struct qn_query *query, const char *text);
void qn_query_blob(struct qn_query *query, const void *data, size_t size);
/* An address for a function of ours; type: as it asks for it. */
void qn_query_pointer(struct qn_query *query, const void *data, const char *type);
/* True: there is a row, read it with sqlite3_column_*. */
bool qn_query_row(struct qn_query *query);
/* Resets the statement, so that others can use it, and returns whether it succeeded. */
QUERN_NODISCARD quern_status qn_query_finish(struct qn_query *query, quern_error *err);
/* For statements whose rows do not matter: runs to the end and finishes. ret_changes may be NULL:
 * rows inserted, updated or deleted. */
QUERN_NODISCARD quern_status qn_query_run(struct qn_query *query, int64_t *ret_changes,
                                          quern_error *err);
/* A number or a moment that is never negative; 0 for NULL and for values that can only be damage,
 * so that sums of such numbers never overflow. */
int64_t qn_query_column_sane(const struct qn_query *query, int column);
/* The text of a column, "" for NULL; valid until the next row. */
const char *qn_query_column_text(const struct qn_query *query, int column);

/* Numbers of a row, clamped (number.h), as anybody can write anything into the file: a moment, a
 * duration, and a count, which is at most INT32_MAX. */
int64_t qn_query_column_moment_ms(sqlite3_stmt *row, int column);
int64_t qn_query_column_duration_ms(sqlite3_stmt *row, int column);
int64_t qn_query_column_count(sqlite3_stmt *row, int column);
/* Of three columns: kind, base_ms, cap_ms. */
quern_retry_policy qn_query_column_retry(sqlite3_stmt *row, int first_column);

#endif
