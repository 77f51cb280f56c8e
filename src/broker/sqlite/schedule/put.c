/* SPDX-License-Identifier: MIT */
/* put.c - adds and replaces entries.
 *
 * Each new definition is compared with the stored one: an equal one is left alone, so that any
 * number of programs with the same entries change nothing after the first. All are one transaction.
 */
#include "base/error.h"
#include "base/text/buf.h"
#include "broker/schedule/template.h"
#include "broker/sqlite/schedule/entry_row.h"
#include "broker/sqlite/schedule/schedule_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"

struct putting {
    struct qn_conn *conn;
    int64_t now_ms;
    int64_t count; /* of stored entries */
    bool changed;
    struct qn_buf task; /* of the entry at hand */
};

/* The stored entry beside the new definition. */
struct stored {
    bool found;
    int64_t queue_no;
    uint64_t revision;
    int64_t last_s;
    bool same_ticks;
    bool same;
};

/* Binds ?1 to ?11. */
static void bind_definition(struct qn_query *query, const struct putting *putting, int64_t queue_no,
                            const struct qn_schedule_entry *entry)
{
    qn_query_int(query, queue_no);
    qn_query_text(query, entry->name);
    qn_query_text(query, entry->cron);
    qn_query_text(query, entry->zone);
    qn_query_int(query, entry->with_seconds ? 1 : 0);
    qn_query_text(query, entry->origin);
    qn_query_int(query, entry->misfire);
    qn_query_int(query, entry->misfire_max);
    qn_query_int(query, entry->late_ms);
    qn_query_int(query, entry->jitter_ms);
    qn_query_blob(query, putting->task.data, putting->task.size);
}

static quern_status compare(struct putting *putting, const struct qn_schedule_entry *entry,
                            struct stored *ret_stored, quern_error *err)
{
    struct stored stored = {0};
    quern_status status =
        qn_tables_queue_no(putting->conn, entry->task.queue, true, &stored.queue_no, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(putting->conn, sql_entry_compare);
    bind_definition(&query, putting, stored.queue_no, entry);
    stored.found = qn_query_row(&query);
    if (stored.found) {
        stored.revision = (uint64_t)qn_query_column_sane(&query, 0);
        stored.last_s = qn_entry_row_column_s(query.statement, 1);
        stored.same_ticks = sqlite3_column_int(query.statement, 2) != 0;
        stored.same = stored.same_ticks && sqlite3_column_int(query.statement, 3) != 0;
    }
    status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        *ret_stored = stored;
    }
    return status;
}

static enum qn_put_result decide(const struct putting *putting, const struct qn_put *put,
                                 const struct stored *stored)
{
    bool any = put->expected == QN_REVISION_ANY;
    if (stored->found && stored->same) {
        return QN_PUT_SAME;
    }
    if (stored->found && !any && put->expected != stored->revision) {
        return put->expected == QN_REVISION_NONE ? QN_PUT_EXISTS : QN_PUT_CHANGED;
    }
    if (stored->found) {
        return QN_PUT_REPLACED;
    }
    if (!any && put->expected != QN_REVISION_NONE) {
        return QN_PUT_GONE;
    }
    return putting->count >= QN_ENTRIES_MAX ? QN_PUT_FULL : QN_PUT_ADDED;
}

/* Ticks up to this one are done with. */
static int64_t last_of(const struct putting *putting, const struct qn_schedule_entry *entry,
                       const struct stored *stored)
{
    int64_t now_s = putting->now_ms / 1000;
    if (!stored->found) {
        return entry->last_s > 0 ? entry->last_s : now_s;
    }
    return stored->same_ticks || stored->last_s > now_s ? stored->last_s : now_s;
}

static quern_status write_entry(struct putting *putting, struct qn_put *put,
                                const struct stored *stored, quern_error *err)
{
    int64_t revision = 0;
    quern_status status = qn_entry_row_note_change(putting->conn, &revision, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(putting->conn, sql_entry_put);
    bind_definition(&query, putting, stored->queue_no, put->entry);
    qn_query_int(&query, revision);
    qn_query_int(&query, putting->now_ms);
    qn_query_int(&query, last_of(putting, put->entry, stored));
    put->revision = (uint64_t)revision;
    putting->changed = true;
    putting->count += stored->found ? 0 : 1;
    return qn_query_run(&query, NULL, err);
}

static quern_status put_one(struct putting *putting, struct qn_put *put, quern_error *err)
{
    struct stored stored = {0};
    qn_buf_reset(&putting->task);
    quern_status status = qn_template_encode(&putting->task, &put->entry->task, err);
    if (status == QUERN_OK) {
        status = compare(putting, put->entry, &stored, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    put->result = decide(putting, put, &stored);
    put->revision = stored.revision;
    bool writes = put->result == QN_PUT_ADDED || put->result == QN_PUT_REPLACED;
    return writes ? write_entry(putting, put, &stored, err) : QUERN_OK;
}

static quern_status count_entries(struct putting *putting, quern_error *err)
{
    struct qn_query query = qn_query_start(putting->conn, sql_entry_count);
    putting->count = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    return qn_query_finish(&query, err);
}

quern_status qn_sqlite_schedule_put(struct qn_broker *broker, struct qn_put *puts, size_t count,
                                    quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct putting putting = {.now_ms = qn_clock_wall_ms(broker->clock)};
    quern_status status = qn_transaction_begin(self, false, &putting.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_buf_init(&putting.task, QN_ENTRY_SIZE_MAX);
    status = count_entries(&putting, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        status = put_one(&putting, &puts[i], err);
    }
    qn_buf_finish(&putting.task);
    if (status == QUERN_OK && putting.changed) {
        return qn_transaction_commit(self, err);
    }
    qn_transaction_rollback(self);
    return status;
}
