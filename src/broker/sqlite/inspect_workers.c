/* SPDX-License-Identifier: MIT */
/* inspect_workers.c - the workers that have announced themselves, and what they run.
 *
 * A record stays behind when its worker is killed. It is not shown once its process is known to be
 * gone; where that cannot be told (another kernel or pid namespace), its heartbeat decides. */
#include "base/arena.h"
#include "base/error.h"
#include "broker/owner.h"
#include "broker/sqlite/inspect.h"
#include "broker/sqlite/inspect_sql.h"

static quern_status count_runs(struct qn_conn *conn, int64_t worker_no, size_t *ret_count,
                               quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_worker_run_count);
    qn_query_int(&query, worker_no);
    size_t count = qn_query_row(&query) ? (size_t)sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        *ret_count = count;
    }
    return status;
}

static bool read_run(struct qn_arena *arena, const struct qn_query *query,
                     quern_worker_run_info *run)
{
    struct qn_task limits = {.timeout_ms = sqlite3_column_int64(query->statement, 4),
                             .deadline_at_ms = sqlite3_column_int64(query->statement, 5)};
    run->started_at_ms = sqlite3_column_int64(query->statement, 3);
    run->deadline_at_ms = qn_task_run_deadline_ms(&limits, run->started_at_ms);
    run->task_id = qn_arena_strdup(arena, qn_query_column_text(query, 0));
    run->task_type = qn_arena_strdup(arena, qn_query_column_text(query, 1));
    run->queue = qn_arena_strdup(arena, qn_query_column_text(query, 2));
    return run->task_id != NULL && run->task_type != NULL && run->queue != NULL;
}

/* The count is of the same snapshot, so the runs fit. */
static quern_status read_runs(struct qn_conn *conn, struct qn_arena *arena, int64_t worker_no,
                              quern_worker_info *info, quern_error *err)
{
    size_t count = 0;
    quern_status status = count_runs(conn, worker_no, &count, err);
    if (status != QUERN_OK || count == 0) {
        return status;
    }
    quern_worker_run_info *runs = qn_arena_alloc(arena, count * sizeof *runs);
    if (runs == NULL) {
        return qn_error_nomem(err);
    }
    struct qn_query query = qn_query_start(conn, sql_worker_runs);
    qn_query_int(&query, worker_no);
    qn_query_int(&query, (int64_t)count);
    size_t filled = 0;
    bool memory = true;
    while (memory && qn_query_row(&query)) {
        memory = read_run(arena, &query, &runs[filled]);
        filled += memory ? 1 : 0;
    }
    status = qn_query_finish(&query, err);
    if (status == QUERN_OK && !memory) {
        return qn_error_nomem(err);
    }
    info->runs = runs;
    info->run_count = filled;
    return status;
}

static void read_worker(const struct qn_query *query, quern_worker_info *info)
{
    info->id = qn_query_column_text(query, 1);
    info->host = qn_query_column_text(query, 3);
    info->pid = sqlite3_column_int64(query->statement, 4);
    info->status = qn_query_column_text(query, 5);
    info->queues = qn_query_column_text(query, 6);
    info->concurrency = (uint32_t)sqlite3_column_int64(query->statement, 7);
    info->strict_priority = sqlite3_column_int64(query->statement, 8) != 0 ? 1 : 0;
    info->started_at_ms = sqlite3_column_int64(query->statement, 9);
    info->heartbeat_at_ms = sqlite3_column_int64(query->statement, 10);
}

quern_status qn_sqlite_workers(struct qn_broker *broker,
                               bool (*on_worker)(const quern_worker_info *worker, void *user),
                               void *user, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    int64_t now_ms = qn_clock_wall_ms(broker->clock);
    struct qn_conn *conn = NULL;
    quern_status status = qn_sqlite_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_arena arena = {0};
    struct qn_query query = qn_query_start(conn, sql_workers);
    bool go_on = true;
    while (status == QUERN_OK && go_on && qn_query_row(&query)) {
        quern_worker_info info = {0};
        read_worker(&query, &info);
        if (!qn_owner_lives(qn_query_column_text(&query, 2), info.heartbeat_at_ms, now_ms)) {
            continue;
        }
        status = read_runs(conn, &arena, sqlite3_column_int64(query.statement, 0), &info, err);
        go_on = status == QUERN_OK && on_worker(&info, user);
        qn_arena_reset(&arena);
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    qn_sqlite_read_end(self);
    qn_arena_finish(&arena);
    return status == QUERN_OK ? finished : status;
}
