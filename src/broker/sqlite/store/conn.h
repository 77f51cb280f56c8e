/* SPDX-License-Identifier: MIT */
/* conn.h - one connection to the file, its statements, and how a query is written down.
 *
 *     struct qn_query query = qn_query_start(conn, sql_lock_find);
 *     qn_query_text(&query, key);
 *     if (qn_query_row(&query)) {
 *         until_ms = sqlite3_column_int64(query.statement, 0);
 *     }
 *     status = qn_query_finish(&query, err);
 *
 * The first error sticks: binding does nothing after it, qn_query_row says false, and
 * qn_query_finish reports it; so a query needs one test, at its end. A connection is used by one
 * thread at a time; who may is the business of sqlite.h. */
#ifndef QN_BROKER_SQLITE_STORE_CONN_H
#define QN_BROKER_SQLITE_STORE_CONN_H

#include <sqlite3.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "quern/status.h"
#include "quern/task.h"

#define QN_CONN_STATEMENTS_MAX 256 /* slots of the hash table; about 90 are used */

struct qn_conn {
    sqlite3 *db;
    const char *path;                   /* for the texts of errors; borrowed */
    int64_t busy_max_ms;                /* how long to wait for the locks of other processes */
    const _Atomic int64_t *patience_ms; /* if not NULL: instead of busy_max_ms, from now on */
    int64_t busy_since_ns;              /* of the wait under way */
    struct qn_random jitter;            /* so that waiting processes do not march in step */
    int64_t deadline_ns;         /* CLOCK_MONOTONIC; statements are given up then; 0: never */
    int64_t hurried_ns;          /* the same, while *hurries */
    const _Atomic bool *hurries; /* NULL: never */
    bool reopen;                 /* a commit failed half-way: not to be used again as it is */
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } statements[QN_CONN_STATEMENTS_MAX];
};

/* flags as for sqlite3_open_v2. What is in the file is not trusted: neither triggers nor views of
 * it run, nor functions that its schema calls. */
QUERN_NODISCARD quern_status qn_conn_open(struct qn_conn *conn, const char *path, int flags,
                                          int64_t busy_max_ms, quern_error *err);
/* Statements that still run so long from now are given up (QUERN_E_TIMEOUT); 0: never. While the
 * connection's broker is in a hurry that is a second at most. */
void qn_conn_limit(struct qn_conn *conn, int64_t timeout_ms);
/* Forgets the statements and closes. A zeroed struct is fine. */
void qn_conn_close(struct qn_conn *conn);
/* Between two steps of a long piece of work: long enough for every process that waits for the lock
 * to look once. Without it one that commits and begins again at once shuts the others out. */
void qn_conn_give_way(void);
/* Uses a connection of somebody else; qn_conn_return gives it back without our statements. */
void qn_conn_borrow(struct qn_conn *conn, sqlite3 *db, const char *path);
void qn_conn_return(struct qn_conn *conn);
/* Runs statements that need no parameters and are run seldom. */
QUERN_NODISCARD quern_status qn_conn_exec(struct qn_conn *conn, const char *sql, quern_error *err);
/* Maps the last error of the connection (`code`, extended) to a status, with a text that carries
 * the path and SQLite's words. */
quern_status qn_conn_fail(struct qn_conn *conn, int code, quern_error *err);

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
/* True: there is a row, read it with sqlite3_column_*. */
bool qn_query_row(struct qn_query *query);
/* Rewinds the statement, so that others can use it, and says whether all went well. */
QUERN_NODISCARD quern_status qn_query_finish(struct qn_query *query, quern_error *err);
/* For statements whose rows do not matter: runs to the end and finishes. ret_changes may be NULL:
 * rows inserted, updated or deleted. */
QUERN_NODISCARD quern_status qn_query_run(struct qn_query *query, int64_t *ret_changes,
                                          quern_error *err);
/* A number or a moment that is never negative; 0 for NULL, and for what can only be damage, so that
 * sums of such numbers never overflow. */
int64_t qn_query_column_sane(const struct qn_query *query, int column);
/* The text of a column, "" for NULL; valid until the next row. */
const char *qn_query_column_text(const struct qn_query *query, int column);

/* Numbers of a row, clamped (number.h), as anybody can write anything into the file: a moment, a
 * duration, and a count, which is at most INT32_MAX. */
int64_t qn_column_moment_ms(sqlite3_stmt *row, int column);
int64_t qn_column_duration_ms(sqlite3_stmt *row, int column);
int64_t qn_column_count(sqlite3_stmt *row, int column);
/* Of three columns: kind, base_ms, cap_ms. */
quern_retry_policy qn_column_retry(sqlite3_stmt *row, int first_column);

#endif
