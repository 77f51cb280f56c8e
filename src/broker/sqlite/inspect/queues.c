/* SPDX-License-Identifier: MIT */
/* queues.c - the contents of the queues.
 *
 * One read transaction on the reading connection, so the result is a consistent snapshot, and no
 * writer waits for it. Counts come from the partial indexes of the schema. */
#include "base/text/number.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"

#define DAY_MS (24 * 3600 * INT64_C(1000))

struct queue_listing {
    struct qn_conn *conn;
    int64_t now_ms;
    bool (*on_queue)(const quern_queue_info *queue, void *user);
    void *user;
};

static quern_status read_latency(const struct queue_listing *listing, int64_t queue_no,
                                 int64_t *ret_latency_ms, quern_error *err)
{
    struct qn_query query = qn_query_start(listing->conn, sql_pending_since);
    qn_query_int(&query, queue_no);
    int64_t latency_ms = 0;
    while (qn_query_row(&query)) {
        int64_t waited_ms = listing->now_ms - qn_query_column_moment_ms(query.statement, 0);
        latency_ms = waited_ms > latency_ms ? waited_ms : latency_ms;
    }
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        *ret_latency_ms = latency_ms;
    }
    return status;
}

static void read_queue(const struct qn_query *query, quern_queue_info *info)
{
    info->name = qn_query_column_text(query, 1);
    info->paused_at_ms = qn_query_column_moment_ms(query->statement, 2);
    info->processed_total = qn_sqlite_inspect_count(query, 3);
    info->failed_total = qn_sqlite_inspect_count(query, 4);
    info->trimmed_total = qn_sqlite_inspect_count(query, 5);
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        info->counts[state] = qn_sqlite_inspect_count(query, 5 + state);
        info->size += info->counts[state];
    }
    info->group_count = qn_sqlite_inspect_count(query, 13);
    info->processed_today = qn_sqlite_inspect_count(query, 14);
    info->failed_today = qn_sqlite_inspect_count(query, 15);
    info->braked_hosts = (uint32_t)sqlite3_column_int(query->statement, 16);
    info->probe_at_ms = qn_query_column_sane(query, 17);
    info->max_pending =
        qn_number_clamp(sqlite3_column_int64(query->statement, 18), 0, QUERN_MAX_PENDING_MAX);
    info->memory_bytes = -1;
}

/* name: NULL: all. *ret_go_on: the caller has not had enough. */
static quern_status list_queues(const struct queue_listing *listing, const char *name,
                                bool *ret_go_on, quern_error *err)
{
    struct qn_query query = qn_query_start(listing->conn, sql_queues);
    qn_query_int(&query, listing->now_ms / DAY_MS);
    qn_query_int(&query, QN_BRAKE_DEATHS);
    qn_query_text(&query, name != NULL ? name : "");
    if (name != NULL) {
        qn_query_text(&query, name);
    } else {
        qn_query_blob(&query, "\xff\xff\xff\xff", 4); /* behind all texts, as blobs are */
    }
    quern_status status = QUERN_OK;
    bool go_on = true;
    while (status == QUERN_OK && go_on && qn_query_row(&query)) {
        quern_queue_info info = {0};
        read_queue(&query, &info);
        status =
            read_latency(listing, sqlite3_column_int64(query.statement, 0), &info.latency_ms, err);
        go_on = status == QUERN_OK && listing->on_queue(&info, listing->user);
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    *ret_go_on = go_on;
    return status == QUERN_OK ? finished : status;
}

quern_status qn_sqlite_queues(struct qn_broker *broker, const struct qn_names *only,
                              bool (*on_queue)(const quern_queue_info *queue, void *user),
                              void *user, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct queue_listing listing = {
        .now_ms = qn_clock_wall_ms(broker->clock), .on_queue = on_queue, .user = user};
    quern_status status = qn_transaction_read_begin(self, &listing.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    bool go_on = true;
    if (only == NULL) {
        status = list_queues(&listing, NULL, &go_on, err);
    }
    for (size_t i = 0; only != NULL && status == QUERN_OK && go_on && i < only->count; i++) {
        status = list_queues(&listing, only->items[i], &go_on, err);
    }
    qn_transaction_read_end(self);
    return status;
}
