/* SPDX-License-Identifier: MIT */
/* workers.c - the workers with recent heartbeats, and their runs.
 *
 * A record stays behind when its worker is killed. It is not shown once its process is known to be
 * gone; where that is unknown (another kernel or pid namespace), its heartbeat decides. Workers and
 * all runs are read side by side in the same order, so the time is linear in both. */
#include "base/error.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "broker/owner.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/worker_status.h"

#define WORKER_COLUMN 6 /* of worker_runs */

/* The runs of all workers, as far as they are read. */
struct runs {
    struct qn_query query;
    struct qn_arena arena; /* of the worker that is read now */
    bool has_row;
    bool no_memory;
};

static bool read_run(struct qn_arena *arena, const struct qn_query *query,
                     quern_worker_run_info *run)
{
    struct qn_task limits = {.timeout_ms = qn_query_column_duration_ms(query->statement, 4),
                             .deadline_at_ms = qn_query_column_moment_ms(query->statement, 5)};
    run->started_at_ms = qn_query_column_moment_ms(query->statement, 3);
    run->deadline_at_ms = qn_task_run_deadline_ms(&limits, run->started_at_ms);
    run->id = qn_arena_strdup(arena, qn_query_column_text(query, 0));
    run->type = qn_arena_strdup(arena, qn_query_column_text(query, 1));
    run->queue = qn_arena_strdup(arena, qn_query_column_text(query, 2));
    return run->id != NULL && run->type != NULL && run->queue != NULL;
}

/* Reads on to the runs of this worker and takes them. */
static void take_runs(struct runs *runs, int64_t worker_no, quern_worker_info *info)
{
    quern_worker_run_info *items = NULL;
    size_t count = 0;
    size_t room = 0;
    qn_arena_reset(&runs->arena);
    while (runs->has_row && !runs->no_memory &&
           sqlite3_column_int64(runs->query.statement, WORKER_COLUMN) == worker_no) {
        items = qn_vec_grow_in(&runs->arena, items, count, &room, sizeof *items);
        runs->no_memory = items == NULL || !read_run(&runs->arena, &runs->query, &items[count]);
        count += runs->no_memory ? 0 : 1;
        runs->has_row = qn_query_row(&runs->query);
    }
    info->runs = items;
    info->run_count = count;
}

static void read_worker(const struct qn_query *query, quern_worker_info *info)
{
    info->id = qn_query_column_text(query, 1);
    info->host = qn_query_column_text(query, 3);
    info->pid = sqlite3_column_int64(query->statement, 4);
    info->status = qn_worker_status_read(qn_query_column_text(query, 5));
    info->queues = qn_query_column_text(query, 6);
    info->concurrency = (uint32_t)qn_query_column_count(query->statement, 7);
    info->strict_priority = sqlite3_column_int64(query->statement, 8) != 0;
    info->started_at_ms = qn_query_column_moment_ms(query->statement, 9);
    info->heartbeat_at_ms = qn_query_column_moment_ms(query->statement, 10);
}

struct listing {
    int64_t now_ms;
    bool (*on_worker)(const quern_worker_info *worker, void *user);
    void *user;
};

/* Within a read transaction, so both are of one snapshot. */
static quern_status list_workers(struct qn_conn *conn, const struct listing *listing,
                                 struct runs *runs, quern_error *err)
{
    struct qn_query workers = qn_query_start(conn, sql_workers);
    bool go_on = true;
    while (go_on && !runs->no_memory && qn_query_row(&workers)) {
        quern_worker_info info = {0};
        read_worker(&workers, &info);
        take_runs(runs, sqlite3_column_int64(workers.statement, 0), &info);
        if (!runs->no_memory && qn_owner_lives(qn_query_column_text(&workers, 2),
                                               info.heartbeat_at_ms, listing->now_ms)) {
            go_on = listing->on_worker(&info, listing->user);
        }
    }
    quern_status status = qn_query_finish(&workers, err);
    return status == QUERN_OK && runs->no_memory ? qn_error_nomem(err) : status;
}

quern_status qn_sqlite_workers(struct qn_broker *broker,
                               bool (*on_worker)(const quern_worker_info *worker, void *user),
                               void *user, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct runs runs = {.query = qn_query_start(conn, sql_worker_runs)};
    runs.has_row = qn_query_row(&runs.query);
    const struct listing listing = {
        .now_ms = qn_clock_wall_ms(broker->clock), .on_worker = on_worker, .user = user};
    status = list_workers(conn, &listing, &runs, err);
    quern_status finished = qn_query_finish(&runs.query, status == QUERN_OK ? err : NULL);
    qn_arena_finish(&runs.arena);
    qn_transaction_read_end(self);
    return status == QUERN_OK ? finished : status;
}
