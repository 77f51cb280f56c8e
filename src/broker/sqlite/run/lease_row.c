/* SPDX-License-Identifier: MIT */
/* lease_row.c - reads tasks as runs; the columns are those of lease.sql. */
#include "base/error.h"
#include "base/text/number.h"
#include "broker/sqlite/queue/locks.h"
#include "broker/sqlite/run/headers.h"
#include "broker/sqlite/run/lease_batch.h"
#include "broker/sqlite/run/lease_sql.h"
#include "broker/sqlite/schema/run_limits.h"

#define COLUMNS_OF_PENDING 18

/* Its place is so many steps before its number (enqueue: insert.c). */
static int32_t priority_of(int64_t place)
{
    int64_t steps = place / QN_PRIORITY_STEP - (place % QN_PRIORITY_STEP < 0 ? 1 : 0);
    bool is_one = steps >= -QN_PRIORITY_MAX && steps <= QN_PRIORITY_MAX;
    return is_one ? (int32_t)-steps : 0;
}

/* What lease_pending leaves out. */
static void read_rest(sqlite3_stmt *row, struct qn_leased *leased)
{
    leased->token = (uint64_t)sqlite3_column_int64(row, 18);
    leased->started = sqlite3_column_int(row, 19) != 0;
    leased->crash_count = qn_query_column_count(row, 20);
    leased->life_ms = qn_query_column_duration_ms(row, 21);
    leased->level = qn_query_column_count(row, 25);
    leased->task.start_by_at_ms = qn_query_column_moment_ms(row, 22);
    leased->task.limit_key = (const char *)sqlite3_column_text(row, 23);
    int64_t unique_terms = sqlite3_column_int64(row, 24);
    leased->task.unique_until = (int32_t)(unique_terms & QN_UNIQUE_TERMS_UNTIL);
    leased->task.unique_span_ms = qn_duration_ms_of(unique_terms >> QN_UNIQUE_TERMS_SHIFT);
    qn_run_limits_read((const char *)sqlite3_column_text(row, 26), &leased->task);
}

struct qn_leased *qn_lease_row_copy(struct qn_slab *slab, sqlite3_stmt *row, const char *queue)
{
    quern_header headers[QN_HEADER_COUNT_MAX];
    const void *packed = sqlite3_column_blob(row, 14);
    size_t packed_size = (size_t)sqlite3_column_bytes(row, 14);
    size_t header_count = qn_sqlite_headers_count(packed, packed_size);
    qn_sqlite_headers_unpack(packed, packed_size, headers, header_count);
    size_t payload_size = (size_t)sqlite3_column_bytes(row, 4);
    const void *payload = sqlite3_column_blob(row, 4);
    if (payload == NULL && sqlite3_column_type(row, 4) != SQLITE_NULL) {
        payload = ""; /* SQLite has no address for an empty blob */
    }
    struct qn_leased leased = {
        .task =
            {
                .id = (const char *)sqlite3_column_text(row, 2),
                .queue = queue,
                .type = (const char *)sqlite3_column_text(row, 3),
                .payload = payload,
                .payload_size = payload_size,
                .retry_max = qn_query_column_count(row, 5),
                .retry = qn_query_column_retry(row, 6),
                .process_at_ms = qn_query_column_moment_ms(row, 17),
                .timeout_ms = qn_query_column_duration_ms(row, 9),
                .deadline_at_ms = qn_query_column_moment_ms(row, 10),
                .retention_ms = qn_query_column_duration_ms(row, 11),
                .unique_key = (const char *)sqlite3_column_text(row, 12),
                .group = (const char *)sqlite3_column_text(row, 13),
                .headers = headers,
                .header_count = header_count,
                .state = QUERN_TASK_ACTIVE,
                .priority = priority_of(sqlite3_column_int64(row, 1)),
            },
        .row = sqlite3_column_int64(row, 0),
        .retry_count = qn_query_column_count(row, 15),
        .cause = (quern_cause)sqlite3_column_int(row, 16),
    };
    if (sqlite3_column_count(row) > COLUMNS_OF_PENDING) {
        read_rest(row, &leased);
    }
    bool whole = leased.task.id != NULL && leased.task.type != NULL; /* else memory was out */
    return whole ? qn_leased_copy(slab, &leased) : NULL;
}

quern_status qn_lease_row_read_all(struct qn_lease_batch *batch,
                                   const struct qn_lease_source *source, struct qn_query *query,
                                   struct qn_rows *ret_rows, quern_error *err)
{
    size_t count = 0;
    bool full = false;
    while (!full && qn_query_row(query)) {
        struct qn_row *row = &ret_rows->items[count];
        row->place = sqlite3_column_int64(query->statement, 1);
        row->run = qn_lease_row_copy(&batch->slab, query->statement, source->queue->name);
        full = row->run == NULL;
        if (!full) {
            row->run->queue_index = (uint16_t)source->index;
            count++;
        }
    }
    quern_status status = qn_query_finish(query, err);
    if (status == QUERN_OK && full) {
        status = qn_error_nomem(err);
    }
    for (size_t i = 0; status != QUERN_OK && i < count; i++) {
        qn_leased_free(ret_rows->items[i].run);
    }
    ret_rows->count = status == QUERN_OK ? count : 0;
    return status;
}

quern_status qn_lease_row_read(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                               int64_t seq, struct qn_leased **ret_run, quern_error *err)
{
    struct qn_rows rows;
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lease_row);
    qn_query_int(&query, seq);
    quern_status status = qn_lease_row_read_all(batch, source, &query, &rows, err);
    *ret_run = rows.count > 0 ? rows.items[0].run : NULL;
    return status;
}
