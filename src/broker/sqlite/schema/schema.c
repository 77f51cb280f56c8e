/* SPDX-License-Identifier: MIT */
/* schema.c - brings the tables of a file to this version, or reports why it cannot.
 *
 * First come the first bytes: a text file or a file cut short is refused before SQLite takes it for
 * an empty one. They are read through SQLite's own file object, since POSIX drops all locks of a
 * process with any of its descriptors. The version is a row of quern_meta. An empty file gets the
 * tables; a file that has only tables of others is refused unless `quern db init` adds ours to
 * them; a newer version is refused, and so are tables that differ from quern's (trust.c).
 * Migrations run in one transaction, after a second check of the version inside it, so that two
 * processes that open a new file together do it once. */
#include "broker/sqlite/schema/schema.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "broker/owner.h"
#include "broker/sqlite/schema/migrate.h"
#include "broker/sqlite/schema/trust.h"
#include "broker/sqlite/store/open_sql.h"
#include "broker/sqlite/store/query.h"

#define HEADER_SIZE 16
#define PAGE_SIZE_MIN 512
static const char header_text[HEADER_SIZE] = "SQLite format 3";

quern_status qn_sqlite_schema_check_file(struct qn_conn *conn, quern_error *err)
{
    sqlite3_file *file = NULL;
    char header[HEADER_SIZE] = "";
    struct stat info;
    if (stat(conn->path, &info) != 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "sqlite %s: %s", conn->path, strerror(errno));
    }
    int code = sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file);
    if (code == SQLITE_OK && info.st_size > 0) {
        code = file->pMethods->xRead(file, header, sizeof header, 0);
    }
    if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) {
        return qn_conn_fail(conn, code, err);
    }
    /* One of less than a page SQLite would take for an empty one, and write over it. */
    bool too_short = info.st_size > 0 && info.st_size < PAGE_SIZE_MIN;
    if (too_short || (info.st_size > 0 && memcmp(header, header_text, sizeof header) != 0)) {
        return qn_error_set(err, QUERN_E_CORRUPT,
                            "sqlite %s: not an SQLite database; it was not touched: name another "
                            "file, or restore this one",
                            conn->path);
    }
    return QUERN_OK;
}

/* Which tables the file has. */
struct tables {
    int64_t version; /* of ours; 0: they are missing */
    bool others;     /* of another program */
};

static quern_status read_tables(struct qn_conn *conn, struct tables *ret_tables, quern_error *err)
{
    struct qn_query query = qn_query_start_once(conn, sql_tables);
    bool ours = false;
    if (qn_query_row(&query)) {
        ours = sqlite3_column_int64(query.statement, 0) > 0;
        ret_tables->others = sqlite3_column_int64(query.statement, 1) > 0;
    }
    quern_status status = qn_query_finish(&query, err);
    ret_tables->version = 0;
    if (status != QUERN_OK || !ours) {
        return status;
    }
    query = qn_query_start_once(conn, sql_version);
    bool found = qn_query_row(&query);
    if (found) {
        ret_tables->version = sqlite3_column_int64(query.statement, 0);
    }
    status = qn_query_finish(&query, err);
    if (status == QUERN_OK && (!found || ret_tables->version < 1)) {
        status =
            qn_error_set(err, QUERN_E_CORRUPT, "sqlite %s: quern_meta has no version", conn->path);
    }
    return status;
}

static quern_status check_tables(struct qn_conn *conn, const struct tables *tables, bool create,
                                 bool init, quern_error *err)
{
    int64_t version = tables->version;
    if (version > QN_SQLITE_SCHEMA_VERSION) {
        return qn_error_set(err, QUERN_E_CORRUPT,
                            "sqlite %s: made by a newer quern (schema %lld, this one knows %d); "
                            "nothing was changed: use that version",
                            conn->path, (long long)version, QN_SQLITE_SCHEMA_VERSION);
    }
    if (version == 0 && tables->others && !init) {
        return qn_error_set(err, QUERN_E_STATE,
                            "sqlite %s: holds the tables of another program; to add quern's beside "
                            "them: quern db init FILE",
                            conn->path);
    }
    if (version == 0 && !create && !init) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "sqlite %s: an empty file, no queues in it",
                            conn->path);
    }
    return version == 0 ? QUERN_OK : qn_sqlite_trust_check(conn, version, err);
}

static quern_status make_tables(struct qn_conn *conn, int64_t from, int64_t now_ms,
                                quern_error *err)
{
    quern_status status = qn_sqlite_migrate(conn, from, QN_SQLITE_SCHEMA_VERSION, err);
    if (status != QUERN_OK) {
        return status;
    }
    char boot_id[QN_BOOT_ID_SIZE];
    struct qn_query query = qn_query_start_once(conn, sql_set_version);
    qn_query_int(&query, QN_SQLITE_SCHEMA_VERSION);
    qn_query_int(&query, now_ms);
    qn_query_text(&query, qn_owner_boot_id(boot_id) ? boot_id : "");
    return qn_query_run(&query, NULL, err);
}

/* Two processes that both make the WAL of a new file are in each other's way, and SQLite then fails
 * one of them at once, without the busy handler. */
static quern_status set_wal(struct qn_conn *conn, quern_error *err)
{
    int64_t until_ns = qn_clock_mono_ns() + conn->busy_max_ms * INT64_C(1000000);
    quern_status status = qn_conn_exec(conn, sql_set_wal, err);
    while (status == QUERN_E_BUSY && qn_clock_mono_ns() < until_ns) {
        qn_conn_give_way();
        status = qn_conn_exec(conn, sql_set_wal, err);
    }
    return status;
}

quern_status qn_sqlite_schema_prepare(struct qn_conn *conn, bool create, bool init, int64_t now_ms,
                                      quern_error *err)
{
    struct tables tables = {0};
    quern_status status = read_tables(conn, &tables, err);
    if (status == QUERN_OK) {
        status = check_tables(conn, &tables, create, init, err);
    }
    if (status == QUERN_OK) {
        status = set_wal(conn, err);
    }
    if (status != QUERN_OK || tables.version == QN_SQLITE_SCHEMA_VERSION) {
        return status;
    }
    qn_conn_limit(conn, 0); /* a migration may rewrite every row */
    status = qn_conn_exec(conn, "BEGIN IMMEDIATE", err);
    if (status != QUERN_OK) {
        return status;
    }
    status = read_tables(conn, &tables, err);
    if (status == QUERN_OK) {
        status = check_tables(conn, &tables, create, init, err);
    }
    if (status == QUERN_OK && tables.version < QN_SQLITE_SCHEMA_VERSION) {
        status = make_tables(conn, tables.version, now_ms, err);
    }
    if (status == QUERN_OK) {
        status = qn_conn_exec(conn, "COMMIT", err);
    }
    if (status != QUERN_OK) {
        (void)sqlite3_exec(conn->db, "ROLLBACK", NULL, NULL, NULL); /* the first error is
                                                                     * reported */
    }
    return status;
}
