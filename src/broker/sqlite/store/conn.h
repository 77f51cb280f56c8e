/* SPDX-License-Identifier: MIT */
/* conn.h - one connection to the file, with its prepared statements. One thread at a time uses it;
 * which one is the business of transaction.h. */
#ifndef QN_BROKER_SQLITE_STORE_CONN_H
#define QN_BROKER_SQLITE_STORE_CONN_H

#include <sqlite3.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "quern/status.h"

#define QN_CONN_STATEMENTS_MAX 256 /* slots of the hash table; about 90 are used */

struct qn_conn {
    sqlite3 *db;
    const char *path;                   /* for the texts of errors; borrowed */
    int64_t busy_max_ms;                /* how long to wait for the locks of other processes */
    const _Atomic int64_t *patience_ms; /* if not NULL: instead of busy_max_ms, from now on */
    int64_t busy_since_ns;              /* of the wait in progress */
    struct qn_random jitter;            /* so that waiting processes do not march in step */
    int64_t deadline_ns;         /* CLOCK_MONOTONIC; statements are given up then; 0: never */
    int64_t hurried_ns;          /* the same, while *hurries */
    const _Atomic bool *hurries; /* NULL: never */
    bool reopen;                 /* a commit failed half-way: not to be used again as it is */
    bool searches;               /* it has the functions of inspect/search_where.c */
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } statements[QN_CONN_STATEMENTS_MAX];
};

/* flags as for sqlite3_open_v2. The contents of the file are not trusted: neither its triggers and
 * views run, nor functions that its schema calls. */
QUERN_NODISCARD quern_status qn_conn_open(struct qn_conn *conn, const char *path, int flags,
                                          int64_t busy_max_ms, quern_error *err);
/* The same for a database in the memory of this process: all connections with this name, which
 * begins with '/', use the same one. url: for the texts of errors; borrowed. */
QUERN_NODISCARD quern_status qn_conn_open_memory(struct qn_conn *conn, const char *name,
                                                 const char *url, int64_t busy_max_ms,
                                                 quern_error *err);
/* Statements that still run this long from now are interrupted (QUERN_E_TIMEOUT); 0: never. While
 * the connection's broker is in a hurry the limit is a second at most. */
void qn_conn_limit(struct qn_conn *conn, int64_t timeout_ms);
/* Forgets the statements and closes. A zeroed struct is fine. */
void qn_conn_close(struct qn_conn *conn);
/* Between two steps of a long piece of work: long enough for every process that waits for the lock
 * to look once. Without it one that commits and begins again at once shuts the others out. */
void qn_conn_give_way(void);
/* Uses a connection of the caller; qn_conn_return gives it back without our statements. */
void qn_conn_borrow(struct qn_conn *conn, sqlite3 *db, const char *path);
void qn_conn_return(struct qn_conn *conn);
/* Runs statements that need no parameters and are run seldom. */
QUERN_NODISCARD quern_status qn_conn_exec(struct qn_conn *conn, const char *sql, quern_error *err);
/* Maps the last error of the connection (`code`, extended) to a status, with a text that carries
 * the path and SQLite's words. */
quern_status qn_conn_fail(struct qn_conn *conn, int code, quern_error *err);

#endif
