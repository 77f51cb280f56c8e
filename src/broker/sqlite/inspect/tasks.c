/* SPDX-License-Identifier: MIT */
/* tasks.c - pages of tasks that match a filter.
 *
 * The order is by queue, then by state, so the page is laid over a row of segments, one for each
 * state of each queue. Segments before the page are only counted, mostly in an index; from those
 * that it touches the row numbers are selected, and each row is read and passed on separately, so
 * the memory for one task is enough. All in one read transaction: the page is a consistent
 * snapshot. */
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "broker/owner.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/run/headers.h"
#include "broker/sqlite/schema/run_limits.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"

#define LIMIT_DEFAULT 30

struct listing {
    struct qn_task_show show;
    const quern_task_filter *filter;
    uint64_t skip; /* matches still to be passed over */
    uint64_t room; /* rows still wanted */
    int64_t *seqs; /* room for the limit */
};

/* Where several hosts share a file (unsafe_fs), each has a boot of its own, and only its own clock.
 */
quern_status qn_sqlite_tasks_leases_over(struct qn_sqlite *self, struct qn_conn *conn,
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

static const char *column_text_or_null(const struct qn_query *query, int column)
{
    return (const char *)sqlite3_column_text(query->statement, column);
}

/* Reads one column after the other, in the order of task_fetch. */
struct columns {
    const struct qn_query *query;
    int next;
};

static int64_t next_int(struct columns *columns)
{
    return sqlite3_column_int64(columns->query->statement, columns->next++);
}

static int64_t next_count(struct columns *columns)
{
    return qn_query_column_count(columns->query->statement, columns->next++);
}

static int64_t next_moment_ms(struct columns *columns)
{
    return qn_query_column_moment_ms(columns->query->statement, columns->next++);
}

static int64_t next_duration_ms(struct columns *columns)
{
    return qn_query_column_duration_ms(columns->query->statement, columns->next++);
}

static quern_retry_policy next_retry(struct columns *columns)
{
    columns->next += 3;
    return qn_query_column_retry(columns->query->statement, columns->next - 3);
}

static const char *next_text(struct columns *columns)
{
    return qn_query_column_text(columns->query, columns->next++);
}

static const char *next_text_or_null(struct columns *columns)
{
    return column_text_or_null(columns->query, columns->next++);
}

static const void *next_blob(struct columns *columns, size_t *ret_size)
{
    const void *data = sqlite3_column_blob(columns->query->statement, columns->next);
    *ret_size = (size_t)sqlite3_column_bytes(columns->query->statement, columns->next);
    bool null = sqlite3_column_type(columns->query->statement, columns->next) == SQLITE_NULL;
    columns->next++;
    return data == NULL && !null ? "" : data; /* SQLite has no address for an empty blob */
}

static quern_cause cause_of(int64_t number)
{
    return quern_cause_name((quern_cause)number) == NULL ? QUERN_CAUSE_NONE : (quern_cause)number;
}

static void read_task(struct columns *columns, struct quern_task_info *info)
{
    struct qn_task *task = &info->task;
    (void)next_int(columns); /* seq */
    task->id = next_text(columns);
    task->queue = next_text(columns);
    task->type = next_text(columns);
    task->state = (quern_task_state)next_int(columns);
    task->payload = next_blob(columns, &task->payload_size);
    info->result = next_blob(columns, &info->result_size);
    task->retry_max = next_count(columns);
    info->retry_count = next_count(columns);
    info->crash_count = next_count(columns);
    task->retry = next_retry(columns);
    info->error = next_text(columns);
    info->failed_at_ms = next_moment_ms(columns);
    task->timeout_ms = next_duration_ms(columns);
    task->deadline_at_ms = next_moment_ms(columns);
    task->retention_ms = next_duration_ms(columns);
    task->group = next_text_or_null(columns);
}

static void read_past(struct columns *columns, const struct qn_task_show *show,
                      struct quern_task_info *info)
{
    bool active = info->task.state == QUERN_TASK_ACTIVE;
    bool dated = !active && info->task.state != QUERN_TASK_PENDING;
    int64_t at_ms = next_moment_ms(columns);
    info->at_ms = dated ? at_ms : 0;
    info->enqueued_at_ms = next_moment_ms(columns);
    info->task.process_at_ms = next_moment_ms(columns);
    int64_t started_at_ms = next_moment_ms(columns);
    info->started_at_ms = active ? started_at_ms : 0;
    info->completed_at_ms = next_moment_ms(columns);
    info->cause = cause_of(next_int(columns));
    info->fence = (uint64_t)next_int(columns);
    int64_t lease_until_ms = next_int(columns); /* since boot */
    info->orphaned = lease_until_ms <= show->leases_over_ms && active;
    if (active && show->now_ms > 0 && show->leases_over_ms != INT64_MAX) {
        info->lease_until_ms = qn_moment_ms_of(show->now_ms + qn_duration_ms_of(lease_until_ms) -
                                               show->leases_over_ms);
    }
    info->worker = next_text(columns);
    info->progress = (int32_t)qn_number_clamp(next_int(columns), -1, 100);
    info->progress_note = next_text(columns);
}

quern_status qn_sqlite_tasks_show(struct qn_task_show *show, int64_t seq, quern_error *err)
{
    quern_header headers[QN_HEADER_COUNT_MAX];
    struct quern_task_info info = {0};
    struct qn_query query = qn_query_start(show->conn, sql_task_fetch);
    qn_query_int(&query, seq);
    if (qn_query_row(&query)) {
        struct columns columns = {.query = &query};
        read_task(&columns, &info);
        read_past(&columns, show, &info);
        size_t size = 0;
        const void *blob = next_blob(&columns, &size);
        info.task.header_count = qn_sqlite_headers_count(blob, size);
        qn_sqlite_headers_unpack(blob, size, headers, info.task.header_count);
        info.task.headers = info.task.header_count > 0 ? headers : NULL;
        info.task.unique_key = next_text_or_null(&columns);
        info.task.start_by_at_ms = next_moment_ms(&columns);
        info.task.priority =
            (int32_t)qn_number_clamp(next_int(&columns), -QN_PRIORITY_MAX, QN_PRIORITY_MAX);
        info.task.limit_key = next_text_or_null(&columns);
        qn_run_limits_read(next_text_or_null(&columns), &info.task);
        const char *runs = next_text_or_null(&columns);
        runs = show->with_runs ? runs : NULL;
        info.runs = (struct qn_bytes){runs, runs != NULL ? strlen(runs) : 0};
        info.cancel = (int32_t)next_int(&columns);
        show->stopped = !show->on_task(&info, show->user);
    }
    return qn_query_finish(&query, err);
}

/* The part of the page that is in one state of one queue. */
static quern_status list_segment(struct listing *listing, int64_t queue_no, quern_task_state state,
                                 quern_error *err)
{
    struct qn_page page = {.filter = listing->filter,
                           .queue_no = queue_no,
                           .state = state,
                           .offset = listing->skip,
                           .limit = listing->room};
    quern_status status = QUERN_OK;
    if (listing->skip > 0) {
        uint64_t before = 0;
        status = qn_sqlite_page_count(listing->show.conn, &page, listing->skip, &before, err);
        if (status != QUERN_OK) {
            return status;
        }
        listing->skip -= before;
        if (listing->skip > 0) {
            return QUERN_OK;
        }
    }
    size_t count = 0;
    status = qn_sqlite_page(listing->show.conn, &page, listing->seqs, &count, err);
    for (size_t i = 0; status == QUERN_OK && i < count && !listing->show.stopped; i++) {
        status = qn_sqlite_tasks_show(&listing->show, listing->seqs[i], err);
    }
    listing->room -= status == QUERN_OK ? count : 0;
    return status;
}

static quern_status list_queue(struct listing *listing, int64_t queue_no, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        bool wanted = listing->filter->state == 0 || listing->filter->state == state;
        if (status == QUERN_OK && wanted && listing->room > 0 && !listing->show.stopped) {
            status = list_segment(listing, queue_no, (quern_task_state)state, err);
        }
    }
    return status;
}

static quern_status list_queues(struct listing *listing, quern_error *err)
{
    struct qn_query query = qn_query_start(listing->show.conn, sql_queue_names);
    qn_query_text(&query, listing->filter->queue);
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && listing->room > 0 && !listing->show.stopped &&
           qn_query_row(&query)) {
        status = list_queue(listing, sqlite3_column_int64(query.statement, 0), err);
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    return status == QUERN_OK ? finished : status;
}

quern_status qn_sqlite_tasks(struct qn_broker *broker, const quern_task_filter *filter,
                             bool (*on_task)(const quern_task_info *info, void *user), void *user,
                             quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct listing listing = {.filter = filter,
                              .skip = filter->offset,
                              .room = filter->limit == 0 ? LIMIT_DEFAULT : filter->limit,
                              .show = {.with_runs = filter->id != NULL,
                                       .now_ms = qn_clock_wall_ms(broker->clock),
                                       .on_task = on_task,
                                       .user = user}};
    listing.seqs = qn_alloc_zero(listing.room, sizeof *listing.seqs);
    if (listing.seqs == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_transaction_read_begin(self, &listing.show.conn, err);
    if (status == QUERN_OK) {
        status =
            qn_sqlite_tasks_leases_over(self, listing.show.conn, &listing.show.leases_over_ms, err);
        if (status == QUERN_OK) {
            status = list_queues(&listing, err);
        }
        qn_transaction_read_end(self);
    }
    qn_free(listing.seqs);
    return status;
}
