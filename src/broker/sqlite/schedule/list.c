/* SPDX-License-Identifier: MIT */
/* list.c - reports entries, page after page.
 *
 * An entry that cannot be read is reported with its fault, so that it costs no other entry. */
#include "base/error.h"
#include "broker/schedule/template.h"
#include "broker/sqlite/schedule/entry_row.h"
#include "broker/sqlite/schedule/schedule_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/transaction.h"

#define PAGE_SIZE 500

/* The columns of entry_page. */
enum column {
    COLUMN_QUEUE_NO = 0,
    COLUMN_NAME,
    COLUMN_QUEUE,
    COLUMN_REVISION,
    COLUMN_ORIGIN,
    COLUMN_CRON,
    COLUMN_ZONE,
    COLUMN_WITH_SECONDS,
    COLUMN_MISFIRE,
    COLUMN_MISFIRE_MAX,
    COLUMN_LATE,
    COLUMN_JITTER,
    COLUMN_CREATED_AT,
    COLUMN_PAUSED_AT,
    COLUMN_LAST,
    COLUMN_RUNS,
    COLUMN_TASK
};

struct listing {
    const struct qn_entry_filter *filter;
    bool (*on_entry)(const struct qn_schedule_entry *entry, void *user);
    void *user;
    struct qn_arena arena; /* of one entry */
    int64_t queue_no;      /* the entry reported last, as the next one */
    const char *name;
    struct qn_arena key; /* of that name */
    bool more;
};

/* False: out of memory, which is no fault of the entry. */
static bool read_entry(struct listing *listing, const struct qn_query *query,
                       struct qn_schedule_entry *entry)
{
    quern_error fault = {0};
    sqlite3_stmt *row = query->statement;
    entry->name = qn_query_column_text(query, COLUMN_NAME);
    entry->revision = (uint64_t)qn_query_column_sane(query, COLUMN_REVISION);
    entry->created_at_ms = qn_query_column_moment_ms(row, COLUMN_CREATED_AT);
    entry->paused_at_ms = qn_query_column_moment_ms(row, COLUMN_PAUSED_AT);
    entry->last_s = qn_entry_row_column_s(row, COLUMN_LAST);
    entry->runs = (uint64_t)qn_query_column_sane(query, COLUMN_RUNS);
    entry->origin = qn_query_column_text(query, COLUMN_ORIGIN);
    entry->cron = qn_query_column_text(query, COLUMN_CRON);
    entry->zone = qn_query_column_text(query, COLUMN_ZONE);
    entry->with_seconds = sqlite3_column_int(row, COLUMN_WITH_SECONDS) != 0;
    entry->misfire = (enum qn_misfire)sqlite3_column_int(row, COLUMN_MISFIRE);
    entry->misfire_max = (uint32_t)qn_query_column_count(row, COLUMN_MISFIRE_MAX);
    entry->late_ms = qn_query_column_duration_ms(row, COLUMN_LATE);
    entry->jitter_ms = sqlite3_column_int64(row, COLUMN_JITTER);
    const struct qn_bytes task = {.data = sqlite3_column_blob(row, COLUMN_TASK),
                                  .size = (size_t)sqlite3_column_bytes(row, COLUMN_TASK)};
    quern_status status = qn_schedule_check_entry(entry, &fault);
    if (status == QUERN_OK) {
        status = qn_template_decode(&listing->arena, task, &entry->task, &fault);
    }
    if (status != QUERN_OK && status != QUERN_E_NOMEM) {
        entry->fault = qn_arena_strdup(&listing->arena, fault.text);
    }
    entry->task.queue = qn_query_column_text(query, COLUMN_QUEUE);
    return status == QUERN_OK || entry->fault != NULL;
}

static bool keep_key(struct listing *listing, const struct qn_query *query)
{
    qn_arena_reset(&listing->key);
    listing->queue_no = sqlite3_column_int64(query->statement, COLUMN_QUEUE_NO);
    listing->name = qn_arena_strdup(&listing->key, qn_query_column_text(query, COLUMN_NAME));
    return listing->name != NULL;
}

static quern_status list_page(struct listing *listing, struct qn_conn *conn, quern_error *err)
{
    struct qn_arena arena = {0};
    const char *behind = qn_arena_strdup(&arena, listing->name == NULL ? "" : listing->name);
    if (behind == NULL) {
        return qn_error_nomem(err);
    }
    struct qn_query query = qn_query_start(conn, sql_entry_page);
    qn_query_int(&query, listing->queue_no);
    qn_query_text(&query, behind);
    qn_query_text(&query, listing->filter->queue);
    qn_query_text(&query, listing->filter->name);
    qn_query_int(&query, PAGE_SIZE);
    size_t count = 0;
    bool go_on = true;
    bool memory = true;
    while (go_on && memory && qn_query_row(&query)) {
        struct qn_schedule_entry entry = {0};
        qn_arena_reset(&listing->arena);
        memory = read_entry(listing, &query, &entry) && keep_key(listing, &query);
        count++;
        go_on = memory && listing->on_entry(&entry, listing->user);
    }
    listing->more = go_on && count == PAGE_SIZE;
    quern_status status = qn_query_finish(&query, err);
    qn_arena_finish(&arena);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}

quern_status qn_sqlite_schedule_list(struct qn_broker *broker, const struct qn_entry_filter *filter,
                                     bool (*on_entry)(const struct qn_schedule_entry *entry,
                                                      void *user),
                                     void *user, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct listing listing = {
        .filter = filter, .on_entry = on_entry, .user = user, .queue_no = -1, .more = true};
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && listing.more) {
        struct qn_conn *conn = NULL;
        status = qn_transaction_read_begin(self, &conn, err);
        if (status == QUERN_OK) {
            status = list_page(&listing, conn, err);
            qn_transaction_read_end(self);
        }
    }
    qn_arena_finish(&listing.arena);
    qn_arena_finish(&listing.key);
    return status;
}
