/* SPDX-License-Identifier: MIT */
/* query.c - the statements of a connection, and the rows of a query.
 *
 * Statements are prepared once and found again by the address of their text. */
#include "broker/sqlite/store/query.h"

#include "base/assert.h"
#include "base/text/number.h"
#include "task/retry.h"

#define SANE_MAX (INT64_C(1) << 53)

static sqlite3_stmt *prepare(struct qn_conn *conn, const char *sql, unsigned flags)
{
    sqlite3_stmt *statement = NULL;
    (void)sqlite3_prepare_v3(conn->db, sql, -1, flags, &statement, NULL);
    return statement;
}

static sqlite3_stmt *find_statement(struct qn_conn *conn, const char *sql)
{
    size_t slot = (size_t)(((uintptr_t)sql >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    for (size_t i = 0; i < QN_CONN_STATEMENTS_MAX; i++, slot++) {
        slot %= QN_CONN_STATEMENTS_MAX;
        if (conn->statements[slot].sql == sql) {
            return conn->statements[slot].statement;
        }
        if (conn->statements[slot].sql == NULL) {
            sqlite3_stmt *statement = prepare(conn, sql, SQLITE_PREPARE_PERSISTENT);
            if (statement != NULL) {
                conn->statements[slot].sql = sql;
                conn->statements[slot].statement = statement;
            }
            return statement;
        }
    }
    QN_ASSERT(!"more statements than QN_CONN_STATEMENTS_MAX");
    return NULL;
}

static struct qn_query make_query(struct qn_conn *conn, sqlite3_stmt *statement, bool once)
{
    struct qn_query query = {.conn = conn, .statement = statement, .once = once};
    if (statement == NULL) {
        query.code = sqlite3_extended_errcode(conn->db);
        QN_ASSERT(query.code != SQLITE_OK);
    }
    return query;
}

struct qn_query qn_query_start(struct qn_conn *conn, const char *sql)
{
    struct qn_query query = make_query(conn, find_statement(conn, sql), false);
    QN_ASSERT(query.statement == NULL || !sqlite3_stmt_busy(query.statement));
    return query;
}

struct qn_query qn_query_start_once(struct qn_conn *conn, const char *sql)
{
    return make_query(conn, prepare(conn, sql, 0), true);
}

static void note_bind(struct qn_query *query, int code)
{
    if (code != SQLITE_OK) {
        query->code = sqlite3_extended_errcode(query->conn->db);
        QN_ASSERT((code & 0xff) != SQLITE_RANGE); /* more values than the statement has */
    }
}

void qn_query_int(struct qn_query *query, int64_t value)
{
    if (query->code == SQLITE_OK) {
        note_bind(query, sqlite3_bind_int64(query->statement, ++query->bound, value));
    }
}

void qn_query_text(struct qn_query *query, const char *text)
{
    if (query->code == SQLITE_OK) {
        note_bind(query,
                  sqlite3_bind_text(query->statement, ++query->bound, text, -1, SQLITE_STATIC));
    }
}

void qn_query_blob(struct qn_query *query, const void *data, size_t size)
{
    if (query->code == SQLITE_OK) {
        note_bind(query,
                  sqlite3_bind_blob64(query->statement, ++query->bound, data, size, SQLITE_STATIC));
    }
}

void qn_query_pointer(struct qn_query *query, const void *data, const char *type)
{
    if (query->code == SQLITE_OK) {
        note_bind(query, sqlite3_bind_pointer(query->statement, ++query->bound,
                                              (void *)(uintptr_t)data, type, NULL));
    }
}

bool qn_query_row(struct qn_query *query)
{
    if (query->code != SQLITE_OK) {
        return false;
    }
    int code = sqlite3_step(query->statement);
    if (code == SQLITE_ROW) {
        return true;
    }
    query->code = code == SQLITE_DONE ? SQLITE_DONE : sqlite3_extended_errcode(query->conn->db);
    return false;
}

quern_status qn_query_finish(struct qn_query *query, quern_error *err)
{
    quern_status status = QUERN_OK;
    if (query->code != SQLITE_OK && query->code != SQLITE_DONE) {
        status = qn_conn_fail(query->conn, query->code, err);
    }
    if (query->once) {
        (void)sqlite3_finalize(query->statement);
    } else {
        (void)sqlite3_reset(query->statement);
    }
    query->statement = NULL;
    return status;
}

quern_status qn_query_run(struct qn_query *query, int64_t *ret_changes, quern_error *err)
{
    while (qn_query_row(query)) {
    }
    struct qn_conn *conn = query->conn;
    quern_status status = qn_query_finish(query, err);
    if (status == QUERN_OK && ret_changes != NULL) {
        *ret_changes = sqlite3_changes64(conn->db);
    }
    return status;
}

int64_t qn_query_column_sane(const struct qn_query *query, int column)
{
    int64_t value = sqlite3_column_int64(query->statement, column);
    return value >= 0 && value <= SANE_MAX ? value : 0;
}

const char *qn_query_column_text(const struct qn_query *query, int column)
{
    const unsigned char *text = sqlite3_column_text(query->statement, column);
    return text == NULL ? "" : (const char *)text;
}

int64_t qn_query_column_moment_ms(sqlite3_stmt *row, int column)
{
    return qn_moment_ms_of(sqlite3_column_int64(row, column));
}

int64_t qn_query_column_duration_ms(sqlite3_stmt *row, int column)
{
    return qn_duration_ms_of(sqlite3_column_int64(row, column));
}

int64_t qn_query_column_count(sqlite3_stmt *row, int column)
{
    return qn_number_clamp(sqlite3_column_int64(row, column), 0, INT32_MAX);
}

quern_retry_policy qn_query_column_retry(sqlite3_stmt *row, int first_column)
{
    int64_t kind = sqlite3_column_int64(row, first_column);
    bool is_known = kind >= QN_BACKOFF_DEFAULT && kind <= QN_BACKOFF_EXPONENTIAL;
    return (quern_retry_policy){.kind = is_known ? (int32_t)kind : QN_BACKOFF_DEFAULT,
                                .base_ms = qn_query_column_duration_ms(row, first_column + 1),
                                .cap_ms = qn_query_column_duration_ms(row, first_column + 2)};
}
