/* SPDX-License-Identifier: MIT */
/* lease_row.c - reads tasks as runs; the columns are those of lease.sql. */
#include "base/error.h"
#include "broker/sqlite/run/headers.h"
#include "broker/sqlite/run/lease_batch.h"
#include "broker/sqlite/run/lease_sql.h"
#include "broker/sqlite/store/query.h"

/* Copies the present row into one block of the slab. */
static struct qn_leased *copy_row(struct qn_slab *slab, sqlite3_stmt *row, const char *queue)
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
                .process_at_ms = qn_query_column_moment_ms(row, 18),
                .timeout_ms = qn_query_column_duration_ms(row, 9),
                .deadline_at_ms = qn_query_column_moment_ms(row, 10),
                .retention_ms = qn_query_column_duration_ms(row, 11),
                .unique_key = (const char *)sqlite3_column_text(row, 12),
                .group = (const char *)sqlite3_column_text(row, 13),
                .headers = headers,
                .header_count = header_count,
                .state = QUERN_TASK_ACTIVE,
            },
        .token = (uint64_t)sqlite3_column_int64(row, 19),
        .row = sqlite3_column_int64(row, 0),
        .retry_count = qn_query_column_count(row, 15),
        .crash_count = qn_query_column_count(row, 16),
        .life_ms = qn_query_column_duration_ms(row, 21),
        .cause = (quern_cause)sqlite3_column_int(row, 17),
        .started = sqlite3_column_int(row, 20) != 0,
    };
    bool whole = leased.task.id != NULL && leased.task.type != NULL; /* else memory was out */
    return whole ? qn_leased_copy(slab, &leased) : NULL;
}

static quern_status copy_rows(struct qn_lease_batch *batch, struct qn_query *query,
                              size_t queue_index, const struct qn_counted_queue *queue,
                              struct qn_row *rows, size_t *ret_count, quern_error *err)
{
    size_t count = 0;
    bool full = false;
    while (!full && qn_query_row(query)) {
        rows[count].place = sqlite3_column_int64(query->statement, 1);
        rows[count].run = copy_row(&batch->slab, query->statement, queue->name);
        full = rows[count].run == NULL;
        if (!full) {
            rows[count].run->queue_index = (uint16_t)queue_index;
            count++;
        }
    }
    quern_status status = qn_query_finish(query, err);
    if (status == QUERN_OK && full) {
        status = qn_error_nomem(err);
    }
    for (size_t i = 0; status != QUERN_OK && i < count; i++) {
        qn_leased_free(rows[i].run);
    }
    *ret_count = status == QUERN_OK ? count : 0;
    return status;
}

quern_status qn_lease_row_read_all(struct qn_lease_batch *batch, const char *sql,
                                   size_t queue_index, const struct qn_counted_queue *queue,
                                   int64_t number, size_t limit, struct qn_row *rows,
                                   size_t *ret_count, quern_error *err)
{
    struct qn_query query = qn_query_start(batch->counters->conn, sql);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, number);
    qn_query_int(&query, (int64_t)limit);
    return copy_rows(batch, &query, queue_index, queue, rows, ret_count, err);
}

quern_status qn_lease_row_read(struct qn_lease_batch *batch, size_t queue_index,
                               const struct qn_counted_queue *queue, int64_t seq,
                               struct qn_leased **ret_run, quern_error *err)
{
    struct qn_row row = {0};
    size_t count = 0;
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lease_row);
    qn_query_int(&query, seq);
    quern_status status = copy_rows(batch, &query, queue_index, queue, &row, &count, err);
    *ret_run = count > 0 ? row.run : NULL;
    return status;
}
