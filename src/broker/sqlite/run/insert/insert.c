/* SPDX-License-Identifier: MIT */
/* insert.c - writes the row of a new task.
 *
 * Most tasks are plain: pending at once, with an id, a type, headers and a payload, and what their
 * retries and their timeout are. Their statement names only these columns, as each value that is
 * bound costs half a percent. */
#include "broker/sqlite/run/insert/insert.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "broker/sqlite/queue/locks.h"
#include "broker/sqlite/run/headers.h"
#include "broker/sqlite/run/insert/insert_sql.h"
#include "broker/sqlite/run/limits/lanes.h"
#include "broker/sqlite/schema/run_limits.h"
#include "broker/sqlite/store/query.h"

/* quern_task.unique_terms; 0: none. */
static int64_t unique_terms_of(const struct qn_task *task)
{
    int64_t span_ms = qn_number_clamp(task->unique_span_ms, 0, QN_UNIQUE_SPAN_MS_MAX);
    return (span_ms << QN_UNIQUE_TERMS_SHIFT) + (task->unique_until & QN_UNIQUE_TERMS_UNTIL);
}

bool qn_insert_has_terms(const struct qn_task *task)
{
    return task->start_by_at_ms != 0 || unique_terms_of(task) != 0 || qn_run_limits_any(task);
}

static int64_t at_ms_of(const struct qn_insertion *insertion)
{
    switch (insertion->task->state) {
    case QUERN_TASK_SCHEDULED:
        return insertion->task->process_at_ms;
    case QUERN_TASK_AGGREGATING:
        return insertion->now_ms;
    case QUERN_TASK_PENDING:
    case QUERN_TASK_ACTIVE:
    case QUERN_TASK_RETRY:
    case QUERN_TASK_ARCHIVED:
    case QUERN_TASK_COMPLETED:
        break;
    }
    QN_ASSERT(insertion->task->state == QUERN_TASK_PENDING);
    return 0;
}

/* The higher the priority, the further in front of its number it stands. */
static int64_t place_of(int64_t number, const struct qn_task *task)
{
    int64_t bound = INT64_C(1) << 62; /* only a planted counter is beyond it */
    if (task->priority == 0) {
        return number;
    }
    return (number < bound ? number : bound) - task->priority * QN_PRIORITY_STEP;
}

static bool is_plain(const struct qn_insertion *insertion)
{
    const struct qn_task *task = insertion->task;
    bool now = task->state == QUERN_TASK_PENDING && task->priority == 0 && insertion->lanes == 0;
    bool usual = (task->retry.kind | task->retry.base_ms | task->retry.cap_ms |
                  task->deadline_at_ms | task->retention_ms) == 0;
    return now && usual && task->unique_key == NULL && task->group == NULL &&
           !qn_insert_has_terms(task);
}

static void bind_plain(struct qn_query *query, const struct qn_insertion *insertion,
                       struct qn_bytes headers)
{
    const struct qn_task *task = insertion->task;
    qn_query_int(query, insertion->number);
    qn_query_int(query, insertion->queue_no);
    qn_query_text(query, task->id);
    qn_query_int(query, task->state);
    qn_query_int(query, task->retry_max);
    qn_query_int(query, task->timeout_ms);
    qn_query_int(query, insertion->now_ms);
    qn_query_text(query, task->type);
    qn_query_blob(query, headers.data, headers.size);
    qn_query_blob(query, task->payload, task->payload_size);
}

static void bind_unless_zero(struct qn_query *query, int64_t value)
{
    if (value == 0) {
        qn_query_text(query, NULL);
    } else {
        qn_query_int(query, value);
    }
}

/* `lane` and `run_limits` stay the caller's until the statement has run. */
static void bind_rest(struct qn_query *query, const struct qn_insertion *insertion,
                      const char *lane, const char *run_limits)
{
    const struct qn_task *task = insertion->task;
    qn_query_text(query, lane);
    qn_query_int(query, place_of(insertion->number, task));
    qn_query_int(query, task->retry.kind);
    qn_query_int(query, task->retry.base_ms);
    qn_query_int(query, task->retry.cap_ms);
    qn_query_int(query, task->deadline_at_ms);
    qn_query_int(query, task->retention_ms);
    qn_query_int(query, at_ms_of(insertion));
    qn_query_int(query, insertion->due_boot_ms);
    qn_query_text(query, task->unique_key);
    qn_query_text(query, task->group);
    bind_unless_zero(query, task->start_by_at_ms);
    bind_unless_zero(query, unique_terms_of(task));
    qn_query_text(query, run_limits);
}

static quern_status insert(struct qn_conn *conn, const struct qn_insertion *insertion,
                           struct qn_bytes headers, bool *ret_stored, quern_error *err)
{
    const struct qn_task *task = insertion->task;
    bool plain = is_plain(insertion);
    char lane[QN_LANE_NAME_SIZE];
    char run_limits[QN_RUN_LIMITS_SIZE];
    int64_t changes = 0;
    struct qn_query query = qn_query_start(conn, plain ? sql_task_insert_plain : sql_task_insert);
    bind_plain(&query, insertion, headers);
    if (!plain) {
        bind_rest(&query, insertion,
                  qn_lanes_name(lane, insertion->lanes, task->limit_key, task->type),
                  qn_run_limits_write(task, run_limits));
    }
    quern_status status = qn_query_run(&query, &changes, err);
    *ret_stored = status == QUERN_OK && changes == 1;
    return status;
}

quern_status qn_insert_task(struct qn_conn *conn, const struct qn_insertion *insertion,
                            bool *ret_stored, quern_error *err)
{
    const struct qn_task *task = insertion->task;
    if (task->header_count == 0) {
        return insert(conn, insertion, (struct qn_bytes){0}, ret_stored, err);
    }
    size_t size = qn_sqlite_headers_size(task->headers, task->header_count);
    char *headers = qn_alloc(size);
    if (headers == NULL) {
        return qn_error_nomem(err);
    }
    qn_sqlite_headers_pack(task->headers, task->header_count, headers);
    quern_status status =
        insert(conn, insertion, (struct qn_bytes){headers, size}, ret_stored, err);
    qn_free(headers);
    return status;
}
