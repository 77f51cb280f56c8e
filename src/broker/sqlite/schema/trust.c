/* SPDX-License-Identifier: MIT */
/* trust.c - checks that the schema of a file is the one that quern makes.
 *
 * A file may come from anywhere, and others may write to it. A table of ours with another text
 * could hold a CHECK that calls functions, a generated column, or simply lack something that our
 * statements rely on, so such a file is refused when it is opened. Our own statements make the
 * expected schema in a database in memory (schema_made; for an older version, the migrations), and
 * both are compared without comments, spaces and quotes. Objects of others are ignored, also
 * triggers, views and indexes on our tables: triggers and views are switched off for our
 * connections (conn.c), and `quern doctor` names them. */
#include "broker/sqlite/schema/trust.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/arena.h"
#include "base/text/str.h"
#include "base/text/utf8.h"
#include "broker/sqlite/schema/late.h"
#include "broker/sqlite/schema/migrate.h"
#include "broker/sqlite/schema/schema_made_sql.h"
#include "broker/sqlite/store/open_sql.h"
#include "broker/sqlite/store/query.h"

#define NAME_SHOWN_MAX 80

/* --- Reading ------------------------------------------------------------------------------- */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) != 0 || c == '_' || (unsigned char)c >= 0x80;
}

/* The end of a comment at `at`; `at` itself if there is none. */
static const char *skip_comment(const char *at)
{
    if (at[0] == '-' && at[1] == '-') {
        return at + strcspn(at, "\n");
    }
    if (at[0] == '/' && at[1] == '*') {
        const char *end = strstr(at + 2, "*/");
        return end == NULL ? at + strlen(at) : end + 2;
    }
    return at;
}

/* The size of the quoted token at `at`, with its quotes; 0: it is none. */
static size_t quoted_size(const char *at)
{
    if (*at != '\'' && *at != '"' && *at != '`' && *at != '[') {
        return 0;
    }
    size_t size = 1;
    while (at[size] != '\0' && at[size] != (*at == '[' ? ']' : *at)) {
        size++;
    }
    return at[size] == '\0' ? size : size + 1;
}

/* A name in quotes that needs none: they are left out. */
static bool is_plain_name(const char *token, size_t size)
{
    bool plain = *token != '\'' && size > 2;
    for (size_t i = 1; plain && i + 1 < size; i++) {
        plain = is_word(token[i]);
    }
    return plain;
}

/* A statement as it is written down plainly. */
struct plain {
    char *start;
    char *out;
    bool gap; /* something was left out before the next character */
};

static void put_token(struct plain *plain, const char *token, size_t size)
{
    if (plain->gap && plain->out > plain->start && is_word(plain->out[-1]) && is_word(*token)) {
        *plain->out++ = ' ';
    }
    memcpy(plain->out, token, size);
    plain->out += size;
    plain->gap = false;
}

/* The statement without comments, without quotes around plain names, and with a space only between
 * two words. NULL: out of memory. */
static const char *plain_text(struct qn_arena *arena, const char *sql)
{
    struct plain plain = {.start = qn_arena_alloc(arena, strlen(sql) + 1)};
    if (plain.start == NULL) {
        return NULL;
    }
    plain.out = plain.start;
    while (*sql != '\0') {
        const char *behind = skip_comment(sql);
        size_t quoted = quoted_size(sql);
        if (behind > sql || isspace((unsigned char)*sql)) {
            sql = behind > sql ? behind : sql + 1;
            plain.gap = true;
        } else if (quoted > 0 && is_plain_name(sql, quoted)) {
            plain.gap = true;
            put_token(&plain, sql + 1, quoted - 2);
            plain.gap = true;
            sql += quoted;
        } else {
            size_t size = quoted > 0 ? quoted : 1;
            put_token(&plain, sql, size);
            sql += size;
        }
    }
    *plain.out = '\0';
    return plain.start;
}

static struct qn_schema_object *read_object(struct qn_arena *arena, const struct qn_query *query)
{
    struct qn_schema_object *object = qn_arena_alloc(arena, sizeof *object);
    if (object == NULL) {
        return NULL;
    }
    *object =
        (struct qn_schema_object){.type = qn_arena_strdup(arena, qn_query_column_text(query, 0)),
                                  .name = qn_arena_strdup(arena, qn_query_column_text(query, 1)),
                                  .table = qn_arena_strdup(arena, qn_query_column_text(query, 2)),
                                  .text = plain_text(arena, qn_query_column_text(query, 3))};
    bool whole = object->type != NULL && object->name != NULL && object->table != NULL &&
                 object->text != NULL;
    object->unique = whole && qn_str_starts_with(object->text, "CREATE UNIQUE ");
    return whole ? object : NULL;
}

quern_status qn_sqlite_trust_read(struct qn_conn *conn, struct qn_arena *arena,
                                  struct qn_schema_object **ret_objects, quern_error *err)
{
    struct qn_query query = qn_query_start_once(conn, sql_our_objects);
    struct qn_schema_object *first = NULL;
    bool memory = true;
    while (memory && qn_query_row(&query)) {
        struct qn_schema_object *object = read_object(arena, &query);
        memory = object != NULL;
        if (memory) {
            object->next = first;
            first = object;
        }
    }
    quern_status status = qn_query_finish(&query, err);
    *ret_objects = first;
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}

/* Makes the tables of this version in memory. The caller closes the connection, also on failure. */
static quern_status open_expected(struct qn_conn *conn, int64_t version, quern_error *err)
{
    quern_status status = qn_conn_open(
        conn, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY, 0, err);
    if (status != QUERN_OK || version != QN_SQLITE_SCHEMA_VERSION) {
        return status == QUERN_OK ? qn_sqlite_migrate(conn, 0, version, err) : status;
    }
    status = qn_conn_exec(conn, sql_schema_made, err);
    if (status == QUERN_OK) {
        status = qn_conn_exec(conn, sql_schema_made_rest, err);
    }
    if (status == QUERN_OK) {
        status = qn_conn_exec(conn, sql_schema_made_limits, err);
    }
    if (status == QUERN_OK) {
        status = qn_sqlite_late_lanes(conn, err);
    }
    return status == QUERN_OK ? qn_sqlite_late_groups(conn, err) : status;
}

quern_status qn_sqlite_trust_read_expected(int64_t version, struct qn_arena *arena,
                                           struct qn_schema_object **ret_objects, quern_error *err)
{
    struct qn_conn expected = {0};
    quern_status status = open_expected(&expected, version, err);
    if (status == QUERN_OK) {
        status = qn_sqlite_trust_read(&expected, arena, ret_objects, err);
    }
    qn_conn_close(&expected);
    return status;
}

const struct qn_schema_object *qn_sqlite_trust_find(const struct qn_schema_object *objects,
                                                    const struct qn_schema_object *wanted)
{
    while (objects != NULL &&
           (strcmp(objects->name, wanted->name) != 0 || strcmp(objects->type, wanted->type) != 0)) {
        objects = objects->next;
    }
    return objects;
}

/* --- Opening ------------------------------------------------------------------------------- */

/* The first column that `conn` has in this table and `other` has not; "" if there is none. */
static quern_status find_column(struct qn_conn *conn, struct qn_conn *other, const char *table,
                                char out[NAME_SHOWN_MAX + 1], quern_error *err)
{
    struct qn_query mine = qn_query_start_once(conn, sql_columns);
    qn_query_text(&mine, table);
    out[0] = '\0';
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && out[0] == '\0' && qn_query_row(&mine)) {
        const char *name = qn_query_column_text(&mine, 0);
        struct qn_query theirs = qn_query_start_once(other, sql_column);
        qn_query_text(&theirs, table);
        qn_query_text(&theirs, name);
        if (!qn_query_row(&theirs)) {
            (void)qn_utf8_sanitize(name, strlen(name), out, NAME_SHOWN_MAX + 1);
        }
        status = qn_query_finish(&theirs, err);
    }
    quern_status finished = qn_query_finish(&mine, status == QUERN_OK ? err : NULL);
    return status == QUERN_OK ? finished : status;
}

static quern_status refuse_table(struct qn_conn *conn, struct qn_conn *expected, const char *table,
                                 quern_error *err)
{
    char added[NAME_SHOWN_MAX + 1];
    char lost[NAME_SHOWN_MAX + 1];
    quern_status status = find_column(conn, expected, table, added, err);
    if (status == QUERN_OK) {
        status = find_column(expected, conn, table, lost, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    const char *column = added[0] != '\0' ? added : lost;
    return qn_error_set(
        err, QUERN_E_CORRUPT,
        "sqlite %s: the table %s is not as quern created it%s%s%s; it was not used: "
        "undo that change, or restore a copy",
        conn->path, table, column[0] != '\0' ? ": the column " : "", column,
        added[0] != '\0'  ? " is not quern's"
        : lost[0] != '\0' ? " is missing"
                          : "");
}

static quern_status compare_schemas(struct qn_conn *conn, struct qn_conn *expected,
                                    struct qn_arena *arena, quern_error *err)
{
    struct qn_schema_object *objects = NULL;
    struct qn_schema_object *wanted = NULL;
    quern_status status = qn_sqlite_trust_read(conn, arena, &objects, err);
    if (status == QUERN_OK) {
        status = qn_sqlite_trust_read(expected, arena, &wanted, err);
    }
    for (; status == QUERN_OK && wanted != NULL; wanted = wanted->next) {
        bool is_table = strcmp(wanted->type, "table") == 0;
        const struct qn_schema_object *found = qn_sqlite_trust_find(objects, wanted);
        if (found == NULL && is_table) {
            status = qn_error_set(err, QUERN_E_CORRUPT,
                                  "sqlite %s: the table %s is missing; restore a copy", conn->path,
                                  wanted->name);
        } else if (found != NULL && strcmp(found->text, wanted->text) != 0) {
            status =
                is_table
                    ? refuse_table(conn, expected, wanted->name, err)
                    : qn_error_set(err, QUERN_E_CORRUPT,
                                   "sqlite %s: the %s %s is not as quern created it; it was not "
                                   "used: undo that change, or restore a copy",
                                   conn->path, wanted->type, wanted->name);
        }
    }
    return status;
}

quern_status qn_sqlite_trust_check(struct qn_conn *conn, int64_t version, quern_error *err)
{
    struct qn_arena arena = {0};
    struct qn_conn expected = {0};
    quern_status status = open_expected(&expected, version, err);
    if (status == QUERN_OK && !QN_BUG(SCHEMA_TRUSTED)) {
        status = compare_schemas(conn, &expected, &arena, err);
    }
    qn_conn_close(&expected);
    qn_arena_finish(&arena);
    return status;
}
