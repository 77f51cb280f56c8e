/* SPDX-License-Identifier: MIT */
/* remove_queue.c - removes queues.
 *
 * A queue that holds tasks is removed in bounded steps, so that workers of other queues never wait
 * long: it is paused first, so that nothing new starts, then its tasks are removed by the hundred;
 * the last step removes the remaining ones, its locks, its days, its entries of schedules and its
 * row in one transaction. If a step fails, the queue stays paused with the remaining tasks. */
#include "base/error.h"
#include "base/text/plural.h"
#include "broker/sqlite/operate/operate.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"

#define STEP_MAX 500

struct removal {
    const char *queue;
    bool force;
    int64_t now_ms;
};

struct task_counts {
    int64_t active;
    int64_t all;     /* at most STEP_MAX + 1 */
    int64_t entries; /* of schedules */
    int64_t trash;   /* likewise at most STEP_MAX + 1 */
};

static quern_status count_tasks(struct qn_conn *conn, int64_t queue_no,
                                struct task_counts *ret_counts, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_queue_active_count);
    qn_query_int(&query, queue_no);
    ret_counts->active = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    if (status != QUERN_OK) {
        return status;
    }
    query = qn_query_start(conn, sql_queue_task_count);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, STEP_MAX + 1);
    ret_counts->all = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    status = qn_query_finish(&query, err);
    if (status != QUERN_OK) {
        return status;
    }
    query = qn_query_start(conn, sql_queue_entry_count);
    qn_query_int(&query, queue_no);
    ret_counts->entries = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    status = qn_query_finish(&query, err);
    if (status != QUERN_OK) {
        return status;
    }
    query = qn_query_start(conn, sql_queue_trash_count);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, STEP_MAX + 1);
    ret_counts->trash = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    return qn_query_finish(&query, err);
}

static quern_status run_with(struct qn_conn *conn, const char *sql, int64_t number,
                             quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    qn_query_int(&query, number);
    return qn_query_run(&query, NULL, err);
}

/* STEP_MAX rows of a queue. */
static quern_status delete_some(struct qn_conn *conn, const char *sql, int64_t queue_no,
                                quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, STEP_MAX);
    return qn_query_run(&query, NULL, err);
}

static quern_status delete_trash(struct qn_conn *conn, int64_t queue_no, quern_error *err)
{
    quern_status status = delete_some(conn, sql_queue_trash_task_delete, queue_no, err);
    return status == QUERN_OK ? delete_some(conn, sql_queue_trash_delete, queue_no, err) : status;
}

static quern_status delete_queue(struct qn_conn *conn, int64_t queue_no, quern_error *err)
{
    static const char *const statements[] = {
        sql_queue_lock_delete,  sql_queue_day_delete,       sql_queue_host_delete,
        sql_queue_tick_delete,  sql_queue_entry_delete,     sql_queue_set_delete,
        sql_queue_limit_delete, sql_queue_limit_use_delete, sql_queue_delete};
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < sizeof statements / sizeof statements[0]; i++) {
        status = run_with(conn, statements[i], queue_no, err);
    }
    return status;
}

/* Schedulers load their entries again when this number changes. */
static quern_status change_version(struct qn_conn *conn, quern_error *err)
{
    int64_t version = 0;
    quern_status status = qn_tables_numbers(conn, 1, &version, err);
    return status == QUERN_OK ? run_with(conn, sql_queue_entry_version, version, err) : status;
}

static quern_status check_removable(const struct removal *removal, const struct task_counts *counts,
                                    quern_error *err)
{
    long long active = counts->active;
    if (active > 0) {
        return qn_error_set(err, QUERN_E_STATE, "queue \"%s\" has %lld active %s", removal->queue,
                            active,
                            qn_plural((uint64_t)active, "task: wait for it or cancel it",
                                      "tasks: wait for them or cancel them"));
    }
    if (counts->all > 0 && !removal->force) {
        bool more = counts->all > STEP_MAX;
        return qn_error_set(
            err, QUERN_E_STATE, "queue \"%s\" holds %s%lld %s: not removed without force",
            removal->queue, more ? "more than " : "", (long long)(more ? STEP_MAX : counts->all),
            qn_plural((uint64_t)counts->all, "task", "tasks"));
    }
    if (counts->entries > 0 && !removal->force) {
        return qn_error_set(err, QUERN_E_STATE,
                            "queue \"%s\" has %lld %s of the schedule: not removed without force",
                            removal->queue, (long long)counts->entries,
                            qn_plural((uint64_t)counts->entries, "entry", "entries"));
    }
    return QUERN_OK;
}

/* One transaction's worth. Without tasks, or with few, the queue goes with them. */
static quern_status remove_step(struct qn_conn *conn, const struct removal *removal, bool *ret_done,
                                quern_error *err)
{
    struct qn_queue_row row;
    struct task_counts counts = {0};
    quern_status status = qn_sqlite_pause_read(conn, removal->queue, &row, err);
    if (status == QUERN_OK) {
        status = count_tasks(conn, row.no, &counts, err);
    }
    if (status == QUERN_OK) {
        status = check_removable(removal, &counts, err);
    }
    bool in_steps = counts.all > STEP_MAX || counts.trash > STEP_MAX;
    if (status == QUERN_OK && in_steps && row.paused_at_ms == 0) {
        status = qn_sqlite_pause_write(conn, row.no, removal->now_ms, err);
    }
    if (status == QUERN_OK && counts.all > 0) { /* nothing is made of a part of a set */
        status = run_with(conn, sql_queue_set_delete, row.no, err);
    }
    if (status == QUERN_OK && counts.all > 0) {
        status = delete_some(conn, sql_queue_task_delete, row.no, err);
    }
    if (status == QUERN_OK && counts.trash > 0) {
        status = delete_trash(conn, row.no, err);
    }
    *ret_done = counts.all <= STEP_MAX && counts.trash <= STEP_MAX;
    if (status == QUERN_OK && *ret_done) {
        status = delete_queue(conn, row.no, err);
    }
    if (status == QUERN_OK && *ret_done && counts.entries > 0) {
        status = change_version(conn, err);
    }
    return status;
}

quern_status qn_sqlite_remove_queue(struct qn_broker *broker, const char *queue, bool force,
                                    quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    const struct removal removal = {
        .queue = queue, .force = force, .now_ms = qn_clock_wall_ms(broker->clock)};
    quern_status status = QUERN_OK;
    bool done = false;
    while (status == QUERN_OK && !done) {
        struct qn_conn *conn = NULL;
        status = qn_transaction_begin(self, false, &conn, err);
        if (status != QUERN_OK) {
            return status;
        }
        status = remove_step(conn, &removal, &done, err);
        if (status == QUERN_OK) {
            status = qn_transaction_commit(self, err);
        } else {
            qn_transaction_rollback(self);
        }
        if (status == QUERN_OK && !done) {
            qn_conn_give_way();
        }
    }
    qn_waiters_report_any_end(self);
    return status;
}
