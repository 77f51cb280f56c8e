/* SPDX-License-Identifier: MIT */
/* conn.c - one connection to the file: opening, waiting for locks, limits of time, errors.
 *
 * The wait for locks of other processes consists of short, growing, jittered sleeps: the usual
 * holder is done within 100 us, and SQLite offers no wake-up. After busy_max_ms the caller gets
 * QUERN_E_BUSY. SQLite's errors become ours in one place, qn_conn_fail, with the path and SQLite's
 * own text. */
#include "broker/sqlite/store/conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"

#define BUSY_PAUSE_US_MIN 50
#define BUSY_PAUSE_US_MAX 800
#define PATH_SHOWN_MAX 120
#define HURRY_MS 1000
#define STEPS_PER_LOOK 5000 /* of SQLite's machine, between two readings of the clock */
/* The longest row that is read: a payload of 512 MiB, which a client may allow, and the rest. */
#define ROW_SIZE_MAX (576 << 20)

static int wait_for_lock(void *user, int tries)
{
    struct qn_conn *conn = user;
    int64_t now_ns = qn_clock_mono_ns();
    if (tries == 0) {
        conn->busy_since_ns = now_ns;
    }
    int64_t max_ms = conn->patience_ms != NULL ? atomic_load(conn->patience_ms) : conn->busy_max_ms;
    if (now_ns - conn->busy_since_ns >= max_ms * 1000000) {
        return 0;
    }
    uint64_t pause_us = BUSY_PAUSE_US_MIN;
    for (int i = 0; i < tries && pause_us < BUSY_PAUSE_US_MAX; i++) {
        pause_us *= 2;
    }
    pause_us = pause_us / 2 + qn_random_below(&conn->jitter, pause_us);
    struct timespec pause = {.tv_nsec = (long)pause_us * 1000};
    (void)nanosleep(&pause, NULL); /* cut short by a signal: tries again a little earlier */
    return 1;
}

void qn_conn_give_way(void)
{
    struct timespec pause = {.tv_nsec = (long)BUSY_PAUSE_US_MAX * 3 / 2 * 1000};
    (void)nanosleep(&pause, NULL); /* cut short by a signal: they get their turn at the next step */
}

static int look_at_clock(void *user)
{
    const struct qn_conn *conn = user;
    bool hurries = conn->hurries != NULL && atomic_load(conn->hurries);
    int64_t deadline_ns = hurries ? conn->hurried_ns : conn->deadline_ns;
    return conn->deadline_ns != 0 && qn_clock_mono_ns() > deadline_ns ? 1 : 0;
}

void qn_conn_limit(struct qn_conn *conn, int64_t timeout_ms)
{
    int64_t now_ns = timeout_ms == 0 ? 0 : qn_clock_mono_ns();
    int64_t hurried_ms = timeout_ms < HURRY_MS ? timeout_ms : HURRY_MS;
    conn->deadline_ns = timeout_ms == 0 ? 0 : now_ns + timeout_ms * INT64_C(1000000);
    conn->hurried_ns = now_ns + hurried_ms * INT64_C(1000000);
}

/* The file may come from anywhere, and others may have written to it. */
static int distrust(struct qn_conn *conn)
{
    const struct {
        int setting;
        int value;
    } settings[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, QN_BUG(TRIGGERS_RUN)},
        {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 0},
    };
    int code = SQLITE_OK;
    for (size_t i = 0; code == SQLITE_OK && i < sizeof settings / sizeof settings[0]; i++) {
        code = sqlite3_db_config(conn->db, settings[i].setting, settings[i].value, (int *)NULL);
    }
    (void)sqlite3_limit(conn->db, SQLITE_LIMIT_LENGTH, ROW_SIZE_MAX);
    (void)sqlite3_limit(conn->db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_progress_handler(conn->db, STEPS_PER_LOOK, look_at_clock, conn);
    return code == SQLITE_OK
               ? sqlite3_exec(conn->db, "PRAGMA cell_size_check = ON", NULL, NULL, NULL)
               : code;
}

/* vfs: NULL for SQLite's usual one. */
static quern_status open_database(struct qn_conn *conn, const char *name, int flags,
                                  const char *vfs, quern_error *err)
{
    qn_random_init(&conn->jitter);
    int code =
        sqlite3_open_v2(name, &conn->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, vfs);
    if (code == SQLITE_OK) {
        (void)sqlite3_busy_handler(conn->db, wait_for_lock, conn);
        code = distrust(conn);
    }
    if (code != SQLITE_OK) {
        quern_status status = qn_conn_fail(conn, code, err);
        qn_conn_close(conn);
        return status;
    }
    return QUERN_OK;
}

quern_status qn_conn_open(struct qn_conn *conn, const char *path, int flags, int64_t busy_max_ms,
                          quern_error *err)
{
    *conn = (struct qn_conn){.path = path, .busy_max_ms = busy_max_ms};
    return open_database(conn, path, flags, NULL, err);
}

quern_status qn_conn_open_memory(struct qn_conn *conn, const char *name, const char *url,
                                 int64_t busy_max_ms, quern_error *err)
{
    *conn = (struct qn_conn){.path = url, .busy_max_ms = busy_max_ms};
    return open_database(conn, name, SQLITE_OPEN_READWRITE, "memdb", err);
}

static void forget_statements(struct qn_conn *conn)
{
    for (size_t i = 0; i < QN_CONN_STATEMENTS_MAX; i++) {
        (void)sqlite3_finalize(conn->statements[i].statement);
        conn->statements[i].statement = NULL;
        conn->statements[i].sql = NULL;
    }
}

void qn_conn_close(struct qn_conn *conn)
{
    forget_statements(conn);
    int code = sqlite3_close(conn->db);
    QN_ASSERT(code == SQLITE_OK); /* else a statement was not finished */
    conn->db = NULL;
}

void qn_conn_borrow(struct qn_conn *conn, sqlite3 *db, const char *path)
{
    *conn = (struct qn_conn){.db = db, .path = path};
}

void qn_conn_return(struct qn_conn *conn)
{
    forget_statements(conn);
    conn->db = NULL;
}

quern_status qn_conn_exec(struct qn_conn *conn, const char *sql, quern_error *err)
{
    int code = sqlite3_exec(conn->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? QUERN_OK
                             : qn_conn_fail(conn, sqlite3_extended_errcode(conn->db), err);
}

/* Our statements are constant: if they do not find a table or column, another program changed
 * it. */
static bool is_schema_lost(int code, const char *words)
{
    return (code & 0xff) == SQLITE_ERROR &&
           (strncmp(words, "no such table", strlen("no such table")) == 0 ||
            strncmp(words, "no such column", strlen("no such column")) == 0 ||
            strncmp(words, "ON CONFLICT clause", strlen("ON CONFLICT clause")) == 0);
}

static quern_status status_of(int code, int system_error)
{
    if (code == SQLITE_IOERR_SHORT_READ || code == SQLITE_IOERR_CORRUPTFS) {
        return QUERN_E_CORRUPT; /* pages that were there no longer are */
    }
    if (system_error == ENOSPC || system_error == EDQUOT) {
        return QUERN_E_FULL;
    }
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: /* the locks of the WAL index could not be had in time */
        return QUERN_E_BUSY;
    case SQLITE_FULL:
        return QUERN_E_FULL;
    case SQLITE_NOMEM:
        return QUERN_E_NOMEM;
    case SQLITE_INTERRUPT: /* look_at_clock */
        return QUERN_E_TIMEOUT;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return QUERN_E_CORRUPT;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return QUERN_E_CONNECT;
    default:
        return QUERN_E_BROKER;
    }
}

/* What a full disk leaves, and what is missing: so much the WAL may grow until it is moved into the
 * database (sync.c). */
#define SPACE_WANTED (INT64_C(16) << 20)
#define SPACE_TEXT_SIZE 80
static void describe_space(const char *path, char out[SPACE_TEXT_SIZE])
{
    struct statvfs fs;
    out[0] = '\0';
    if (statvfs(path, &fs) == 0) {
        int64_t left = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
        int64_t missing = left < SPACE_WANTED ? SPACE_WANTED - left : 0;
        (void)snprintf(out, SPACE_TEXT_SIZE, "; %lld KiB are free there, %lld KiB more are needed",
                       (long long)(left >> 10), (long long)(missing >> 10));
    }
}

quern_status qn_conn_fail(struct qn_conn *conn, int code, quern_error *err)
{
    bool io = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
    int system_error = io && conn->db != NULL ? sqlite3_system_errno(conn->db) : 0;
    const char *words = conn->db != NULL ? sqlite3_errmsg(conn->db) : sqlite3_errstr(code);
    quern_status status =
        is_schema_lost(code, words) ? QUERN_E_CORRUPT : status_of(code, system_error);
    conn->reopen = conn->reopen || status == QUERN_E_CORRUPT; /* its cache may be wrong */
    if (status == QUERN_E_NOMEM) {
        return qn_error_nomem(err);
    }
    size_t size = strlen(conn->path);
    bool cut = size > PATH_SHOWN_MAX;
    char space[SPACE_TEXT_SIZE];
    describe_space(conn->path, space);
    const char *advice = status == QUERN_E_FULL ? space
                         : status == QUERN_E_CORRUPT
                             ? "; keep a copy, then try .recover of the sqlite3 shell"
                         : status == QUERN_E_TIMEOUT ? ": it took too long; try quern doctor"
                         : status == QUERN_E_BUSY ? " (by another process or connection; try again)"
                                                  : "";
    return qn_error_set(err, status, "sqlite %s%s: %s%s%s%s", cut ? "..." : "",
                        cut ? conn->path + size - PATH_SHOWN_MAX : conn->path, words,
                        system_error != 0 ? ": " : "",
                        system_error != 0 ? strerror(system_error) : "", advice);
}
