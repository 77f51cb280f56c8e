/* SPDX-License-Identifier: MIT */
/* server_info.c - facts about the file: durability, size, versions. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "broker/sqlite/file/place.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/schema/migrate.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"
#include "quern/version.h"

#define WARNING_SIZE 200
#define JOURNAL_TEXT_SIZE 32

struct fact_sink {
    void (*on_fact)(const char *name, const char *text, void *user);
    void *user;
};

static void report_number(const struct fact_sink *sink, const char *name, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    sink->on_fact(name, text, sink->user);
}

static quern_status read_journal(struct qn_sqlite *self, char out[JOURNAL_TEXT_SIZE],
                                 quern_error *err)
{
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_journal_mode);
    if (qn_query_row(&query)) {
        (void)snprintf(out, JOURNAL_TEXT_SIZE, "%s", qn_query_column_text(&query, 0));
    }
    status = qn_query_finish(&query, err);
    qn_transaction_read_end(self);
    return status;
}

static int64_t file_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

/* The caller's function is called outside of any transaction: it may use the inspector. */
quern_status qn_sqlite_server_info(struct qn_broker *broker,
                                   void (*on_fact)(const char *name, const char *text, void *user),
                                   void *user, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    const struct fact_sink sink = {.on_fact = on_fact, .user = user};
    char journal[JOURNAL_TEXT_SIZE] = "";
    quern_status status = read_journal(self, journal, err);
    if (status != QUERN_OK) {
        return status;
    }
    on_fact("broker", "sqlite", user);
    on_fact("version", QUERN_VERSION, user);
    on_fact("path", self->path, user);
    on_fact("durability", qn_sqlite_server_info_durability(self), user);
    char warning[WARNING_SIZE];
    if (qn_sqlite_place_warning(self, warning, sizeof warning)) {
        on_fact("warning", warning, user);
    }
    if (self->memory == NULL) {
        report_number(&sink, "size", file_size(self->path));
        report_number(&sink, "wal_size", file_size(self->wal_path));
    }
    on_fact("journal_mode", journal, user);
    on_fact("sqlite_version", sqlite3_libversion(), user);
    report_number(&sink, "schema_version", QN_SQLITE_SCHEMA_VERSION);
    return QUERN_OK;
}

const char *qn_sqlite_server_info_durability(const struct qn_sqlite *self)
{
    if (self->memory != NULL) {
        return "D0: in memory, lost when the process closes it";
    }
    return self->full_sync
               ? "D2: survives power loss"
               : "D1: survives kill -9; up to 2 s of acknowledged tasks lost on power loss";
}
