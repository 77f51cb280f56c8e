/* SPDX-License-Identifier: MIT */
/* inspect.c - looks at queues, their history and the file itself.
 *
 * Each look is one read transaction on the reading connection, so what it shows is one moment, and
 * no writer waits for it. Counts come from the partial indexes of the schema. */
#include "broker/sqlite/inspect/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "broker/owner.h"
#include "broker/sqlite/file/place.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/schema/migrate.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "quern/version.h"

#define DAY_MS (24 * 3600 * INT64_C(1000))
#define WARNING_SIZE 200
#define JOURNAL_TEXT_SIZE 32

/* Where several hosts share a file (unsafe_fs), each has a boot of its own, and only its own clock.
 */
quern_status qn_sqlite_inspect_leases_over(struct qn_sqlite *self, struct qn_conn *conn,
                                           int64_t *ret_boot_ms, quern_error *err)
{
    char boot_id[QN_BOOT_ID_SIZE];
    bool same = true;
    struct qn_query query = qn_query_start(conn, sql_boot);
    if (qn_query_row(&query) && !self->unsafe_fs && qn_owner_boot_id(boot_id)) {
        const char *stored = qn_query_column_text(&query, 0);
        same = stored[0] == '\0' || strcmp(stored, boot_id) == 0;
    }
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        *ret_boot_ms = same ? qn_clock_boot_ms(self->base.clock) : INT64_MAX;
    }
    return status;
}

/* --- Queues --------------------------------------------------------------------------- */

struct queue_look {
    struct qn_conn *conn;
    int64_t now_ms;
};

static quern_status read_latency(const struct queue_look *look, int64_t queue_no,
                                 int64_t *ret_latency_ms, quern_error *err)
{
    struct qn_query query = qn_query_start(look->conn, sql_pending_since);
    qn_query_int(&query, queue_no);
    int64_t latency_ms = 0;
    while (qn_query_row(&query)) {
        int64_t waited_ms = look->now_ms - qn_query_column_moment_ms(query.statement, 0);
        latency_ms = waited_ms > latency_ms ? waited_ms : latency_ms;
    }
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        *ret_latency_ms = latency_ms;
    }
    return status;
}

static uint64_t column_count(const struct qn_query *query, int column)
{
    int64_t count = sqlite3_column_int64(query->statement, column);
    return count < 0 ? 0 : (uint64_t)count;
}

static void read_queue(const struct qn_query *query, quern_queue_info *info)
{
    info->name = qn_query_column_text(query, 1);
    info->paused_at_ms = qn_query_column_moment_ms(query->statement, 2);
    info->processed_total = column_count(query, 3);
    info->failed_total = column_count(query, 4);
    info->trimmed_total = column_count(query, 5);
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        info->counts[state] = column_count(query, 5 + state);
        info->size += info->counts[state];
    }
    info->group_count = column_count(query, 13);
    info->processed_today = column_count(query, 14);
    info->failed_today = column_count(query, 15);
    info->braked_hosts = (uint32_t)sqlite3_column_int(query->statement, 16);
    info->probe_at_ms = qn_query_column_sane(query, 17);
    info->memory_bytes = -1;
}

quern_status qn_sqlite_queues(struct qn_broker *broker,
                              bool (*on_queue)(const quern_queue_info *queue, void *user),
                              void *user, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct queue_look look = {.now_ms = qn_clock_wall_ms(broker->clock)};
    quern_status status = qn_transaction_read_begin(self, &look.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(look.conn, sql_queues);
    qn_query_int(&query, look.now_ms / DAY_MS);
    qn_query_int(&query, QN_BRAKE_DEATHS);
    bool go_on = true;
    while (status == QUERN_OK && go_on && qn_query_row(&query)) {
        quern_queue_info info = {0};
        read_queue(&query, &info);
        status =
            read_latency(&look, sqlite3_column_int64(query.statement, 0), &info.latency_ms, err);
        go_on = status == QUERN_OK && on_queue(&info, user);
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    qn_transaction_read_end(self);
    return status == QUERN_OK ? finished : status;
}

/* --- History ---------------------------------------------------------------------------- */

static void init_days(quern_day *days, size_t count, int64_t today)
{
    for (size_t i = 0; i < count; i++) {
        time_t seconds = (time_t)((today - (int64_t)i) * (DAY_MS / 1000));
        struct tm date = {0};
        (void)gmtime_r(&seconds, &date);
        days[i] = (quern_day){0};
        (void)strftime(days[i].date, sizeof days[i].date, "%Y-%m-%d", &date);
    }
}

static quern_status read_history(struct qn_conn *conn, const char *queue, int64_t today,
                                 size_t count, quern_day *days, quern_error *err)
{
    int64_t queue_no = 0;
    quern_status status = qn_tables_queue_no(conn, queue, false, &queue_no, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (queue_no == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no queue \"%s\"", queue);
    }
    init_days(days, count, today);
    struct qn_query query = qn_query_start(conn, sql_history);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, today - (int64_t)count + 1);
    qn_query_int(&query, today);
    while (qn_query_row(&query)) {
        quern_day *day = &days[today - sqlite3_column_int64(query.statement, 0)];
        day->processed = column_count(&query, 1);
        day->failed = column_count(&query, 2);
    }
    return qn_query_finish(&query, err);
}

quern_status qn_sqlite_history(struct qn_broker *broker, const char *queue, size_t days,
                               quern_day *ret_days, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status == QUERN_OK) {
        int64_t today = qn_clock_wall_ms(broker->clock) / DAY_MS;
        status = read_history(conn, queue, today, days, ret_days, err);
        qn_transaction_read_end(self);
    }
    return status;
}

/* --- Facts ------------------------------------------------------------------------------ */

struct fact_sink {
    void (*on_fact)(const char *name, const char *text, void *user);
    void *user;
};

static void tell_number(const struct fact_sink *sink, const char *name, int64_t number)
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
    on_fact("durability", qn_sqlite_inspect_durability(self), user);
    char warning[WARNING_SIZE];
    if (qn_sqlite_place_warning(self, warning, sizeof warning)) {
        on_fact("warning", warning, user);
    }
    tell_number(&sink, "size", file_size(self->path));
    tell_number(&sink, "wal_size", file_size(self->wal_path));
    on_fact("journal_mode", journal, user);
    on_fact("sqlite_version", sqlite3_libversion(), user);
    tell_number(&sink, "schema_version", QN_SQLITE_SCHEMA_VERSION);
    return QUERN_OK;
}

const char *qn_sqlite_inspect_durability(const struct qn_sqlite *self)
{
    return self->full_sync
               ? "D2: survives power loss"
               : "D1: survives kill -9; up to 2 s of acknowledged tasks lost on power loss";
}
