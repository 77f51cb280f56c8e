/* SPDX-License-Identifier: MIT */
/* prune.c - removes expired rows, a bounded number at a time.
 *
 * Completed tasks past their retention; archived tasks that are too old or too many, which are
 * counted as trimmed, since they may still have been wanted; the trash of a day ago; locks, days,
 * sessions, brakes and the history of schedules past their time. A query on the reading connection
 * comes first, so that usually nothing is locked. A task that is removed frees its unique lock, if
 * it still holds one.
 *
 * The archive is for operators, who cannot restore tasks that a wrong clock destroyed: for an hour
 * after the wall clock jumped against the clock since boot, nothing is trimmed for its age, nor the
 * trash emptied. Retention, locks and days follow the wall clock as it is. */
#include "base/bug.h"
#include "broker/sqlite/queue/trash_rows.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/upkeep/prune_sql.h"

#define MS_PER_DAY (24 * 3600 * INT64_C(1000))
#define SESSION_AGE_MS (600 * INT64_C(1000))

#define CLOCK_JUMP_MS (3600 * INT64_C(1000)) /* less is a clock that was set right */
#define CLOCK_TRUSTED_AFTER_MS (3600 * INT64_C(1000))
#define NEVER_MS (-1) /* nothing was archived by then */

struct pruning {
    struct qn_conn *conn;
    int64_t now_ms;
    int64_t archived_until_ms; /* tasks archived up to then are too old */
    int64_t trash_until_ms;    /* the trash that was kept up to then is over */
    size_t limit;
    size_t removed;
};

/* With the reading connection locked. */
static bool trusts_clock(struct qn_sqlite *self, int64_t now_ms)
{
    int64_t boot_ms = qn_clock_boot_ms(self->base.clock);
    qn_clock_jump_note(&self->prune_clock, boot_ms, now_ms, CLOCK_JUMP_MS);
    return !qn_clock_jump_is_recent(&self->prune_clock, boot_ms, CLOCK_TRUSTED_AFTER_MS);
}

static int64_t left(const struct pruning *pruning)
{
    return (int64_t)(pruning->limit - pruning->removed);
}

static quern_status ask(struct qn_query *query, bool *ret_yes, quern_error *err)
{
    *ret_yes = qn_query_row(query) && sqlite3_column_int64(query->statement, 0) != 0;
    return qn_query_finish(query, err);
}

/* Is there anything to remove? */
static quern_status peek(struct pruning *pruning, struct qn_names queues, bool *ret_work,
                         quern_error *err)
{
    struct qn_query query = qn_query_start(pruning->conn, sql_prune_peek_rest);
    qn_query_int(&query, pruning->now_ms);
    qn_query_int(&query, pruning->now_ms / MS_PER_DAY - QN_HISTORY_DAYS);
    qn_query_int(&query, pruning->now_ms - SESSION_AGE_MS);
    qn_query_int(&query, pruning->now_ms - QN_CHARGE_WINDOW_MS);
    qn_query_int(&query, pruning->now_ms - QN_TICK_HISTORY_MS);
    qn_query_int(&query, pruning->trash_until_ms);
    quern_status status = ask(&query, ret_work, err);
    for (size_t i = 0; status == QUERN_OK && !*ret_work && i < queues.count; i++) {
        int64_t no = 0;
        status = qn_tables_queue_no(pruning->conn, queues.items[i], false, &no, err);
        if (status == QUERN_OK && no != 0) {
            query = qn_query_start(pruning->conn, sql_prune_peek_queue);
            qn_query_int(&query, no);
            qn_query_int(&query, pruning->now_ms);
            qn_query_int(&query, pruning->archived_until_ms);
            qn_query_int(&query, QN_ARCHIVE_SIZE_MAX);
            status = ask(&query, ret_work, err);
        }
    }
    return status;
}

/* Of one queue, the tasks that came to their place by then, up to a number of them. */
struct outdated {
    int64_t queue_no;
    int64_t until_ms;
    int64_t limit;
};

/* Runs one of the two statements that delete tasks; the locks of the deleted are freed. */
static quern_status remove_tasks(struct pruning *pruning, const char *sql, struct outdated outdated,
                                 int64_t *ret_count, quern_error *err)
{
    int64_t count = 0;
    quern_status lock_status = QUERN_OK;
    struct qn_query query = qn_query_start(pruning->conn, sql);
    qn_query_int(&query, outdated.queue_no);
    qn_query_int(&query, outdated.until_ms);
    qn_query_int(&query, outdated.limit);
    while (lock_status == QUERN_OK && qn_query_row(&query)) {
        count++;
        lock_status =
            qn_tables_unlock(pruning->conn, (const char *)sqlite3_column_text(query.statement, 0),
                             outdated.queue_no, qn_query_column_text(&query, 1), err);
    }
    quern_status status = qn_query_finish(&query, lock_status == QUERN_OK ? err : NULL);
    pruning->removed += (size_t)count;
    *ret_count = count;
    return lock_status != QUERN_OK ? lock_status : status;
}

static quern_status count_surplus(struct pruning *pruning, int64_t queue_no, int64_t limit,
                                  int64_t *ret_surplus, quern_error *err)
{
    struct qn_query query = qn_query_start(pruning->conn, sql_prune_surplus);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, QN_ARCHIVE_SIZE_MAX);
    qn_query_int(&query, limit);
    *ret_surplus = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    return qn_query_finish(&query, err);
}

static quern_status trim_archive(struct pruning *pruning, int64_t queue_no, quern_error *err)
{
    int64_t old = 0;
    int64_t surplus = 0;
    struct outdated outdated = {.queue_no = queue_no,
                                .until_ms = pruning->archived_until_ms,
                                .limit = QN_BUG(TRIM_UNBOUNDED) ? INT64_MAX / 2 : left(pruning)};
    quern_status status = remove_tasks(pruning, sql_prune_old_archived, outdated, &old, err);
    if (status == QUERN_OK) {
        status = count_surplus(pruning, queue_no, outdated.limit - old, &surplus, err);
    }
    if (status == QUERN_OK && surplus > 0) {
        outdated.until_ms = INT64_MAX;
        outdated.limit = surplus;
        status = remove_tasks(pruning, sql_prune_old_archived, outdated, &surplus, err);
    }
    if (status == QUERN_OK && old + surplus > 0) {
        struct qn_query query = qn_query_start(pruning->conn, sql_prune_trimmed);
        qn_query_int(&query, queue_no);
        qn_query_int(&query, old + surplus);
        status = qn_query_run(&query, NULL, err);
    }
    return status;
}

static quern_status prune_queue(struct pruning *pruning, const char *queue, quern_error *err)
{
    int64_t no = 0;
    int64_t count = 0;
    quern_status status = qn_tables_queue_no(pruning->conn, queue, false, &no, err);
    if (status != QUERN_OK || no == 0 || left(pruning) <= 0) {
        return status;
    }
    const struct outdated outdated = {
        .queue_no = no, .until_ms = pruning->now_ms, .limit = left(pruning)};
    status = remove_tasks(pruning, sql_prune_completed, outdated, &count, err);
    if (status == QUERN_OK && left(pruning) > 0) {
        status = trim_archive(pruning, no, err);
    }
    return status;
}

static quern_status remove_rest(struct pruning *pruning, const char *sql, int64_t before,
                                quern_error *err)
{
    if (left(pruning) <= 0) {
        return QUERN_OK;
    }
    int64_t count = 0;
    struct qn_query query = qn_query_start(pruning->conn, sql);
    qn_query_int(&query, before);
    qn_query_int(&query, left(pruning));
    quern_status status = qn_query_run(&query, &count, err);
    if (status == QUERN_OK) {
        pruning->removed += (size_t)count;
    }
    return status;
}

static quern_status empty_trash(struct pruning *pruning, quern_error *err)
{
    size_t count = 0;
    if (left(pruning) <= 0) {
        return QUERN_OK;
    }
    quern_status status = qn_trash_rows_expire(pruning->conn, pruning->trash_until_ms,
                                               (size_t)left(pruning), &count, err);
    pruning->removed += count;
    return status;
}

static quern_status prune_all(struct pruning *pruning, struct qn_names queues, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        status = prune_queue(pruning, queues.items[i], err);
    }
    if (status == QUERN_OK) {
        status = empty_trash(pruning, err);
    }
    if (status == QUERN_OK) {
        status = remove_rest(pruning, sql_prune_locks, pruning->now_ms, err);
    }
    if (status == QUERN_OK) {
        status = remove_rest(pruning, sql_prune_days,
                             pruning->now_ms / MS_PER_DAY - QN_HISTORY_DAYS, err);
    }
    if (status == QUERN_OK) {
        status = remove_rest(pruning, sql_prune_sessions, pruning->now_ms - SESSION_AGE_MS, err);
    }
    if (status == QUERN_OK) {
        status = remove_rest(pruning, sql_prune_hosts, pruning->now_ms - QN_CHARGE_WINDOW_MS, err);
    }
    if (status == QUERN_OK) {
        status = remove_rest(pruning, sql_prune_ticks, pruning->now_ms - QN_TICK_HISTORY_MS, err);
    }
    if (status == QUERN_OK) {
        status = remove_rest(pruning, sql_prune_limit_uses, pruning->now_ms, err);
    }
    return status;
}

quern_status qn_sqlite_prune(struct qn_broker *broker, struct qn_upkeep upkeep, size_t *ret_removed,
                             quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct pruning pruning = {.now_ms = qn_clock_wall_ms(broker->clock), .limit = upkeep.limit};
    bool work = false;
    quern_status status = qn_transaction_read_begin(self, &pruning.conn, err);
    if (status == QUERN_OK) {
        bool trusts = trusts_clock(self, pruning.now_ms);
        pruning.archived_until_ms = trusts ? pruning.now_ms - QN_ARCHIVE_AGE_MS : NEVER_MS;
        pruning.trash_until_ms = trusts ? pruning.now_ms : NEVER_MS;
        status = peek(&pruning, upkeep.queues, &work, err);
        qn_transaction_read_end(self);
    }
    if (status == QUERN_OK && work) {
        status = qn_transaction_begin(self, false, &pruning.conn, err);
        if (status == QUERN_OK) {
            status = prune_all(&pruning, upkeep.queues, err);
            if (status == QUERN_OK) {
                status = qn_transaction_commit(self, err);
            } else {
                qn_transaction_rollback(self);
            }
        }
    }
    if (status == QUERN_OK) {
        *ret_removed = pruning.removed;
    }
    return status;
}
