/* SPDX-License-Identifier: MIT */
/* operate.c - an operation by hand on one task.
 *
 * task/lifecycle.h defines which actions a state allows; the task is read and changed in the same
 * transaction. Sleeping workers are woken after a commit that made a task pending; the worker of a
 * cancelled task gets a datagram, and reads the mark with its next lease extension at the latest.
 * */
#include "broker/sqlite/operate/operate.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/error.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/queue/locks.h"
#include "broker/sqlite/queue/trash_rows.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"
#include "task/lifecycle.h"

enum qn_cancel qn_sqlite_operate_cancel(quern_action action)
{
    switch (action) {
    case QUERN_ACTION_CANCEL_RETRY:
        return QN_CANCEL_RETRY;
    case QUERN_ACTION_CANCEL_ARCHIVE:
        return QN_CANCEL_ARCHIVE;
    case QUERN_ACTION_RUN:
    case QUERN_ACTION_ARCHIVE:
    case QUERN_ACTION_DELETE:
    case QUERN_ACTION_TRASH:
    case QUERN_ACTION_RESTORE:
        break;
    }
    return QN_CANCEL_NONE;
}

bool qn_sqlite_operate_is_end(quern_action action)
{
    return action == QUERN_ACTION_ARCHIVE || action == QUERN_ACTION_DELETE ||
           action == QUERN_ACTION_TRASH;
}

quern_status qn_sqlite_operate_check_archive(struct qn_conn *conn, int64_t queue_no, size_t more,
                                             quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_archive_count);
    qn_query_int(&query, queue_no);
    int64_t archived = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    int64_t surplus = archived + (int64_t)more - QN_ARCHIVE_SIZE_MAX;
    if (status == QUERN_OK && surplus > 0) {
        status = qn_error_set(err, QUERN_E_STATE,
                              "the archive holds %lld of %d tasks; archiving %zu more would delete "
                              "its oldest %lld",
                              (long long)archived, QN_ARCHIVE_SIZE_MAX, more, (long long)surplus);
    }
    return status;
}

/* Of the task; key NULL: it has none. */
struct lock {
    const char *key;
    int32_t until; /* a quern_unique_until */
};

static quern_status do_run(struct qn_conn *conn, const struct qn_operate_target *target,
                           const struct lock *lock, int64_t now_ms, quern_error *err)
{
    int64_t place = 0;
    quern_status status = qn_tables_numbers(conn, 1, &place, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_operate_run);
    qn_query_int(&query, target->seq);
    qn_query_int(&query, place);
    qn_query_int(&query, now_ms);
    qn_query_int(&query, QN_PRIORITY_STEP);
    status = qn_query_run(&query, NULL, err);
    return status != QUERN_OK || lock->key == NULL
               ? status
               : qn_locks_waits(conn, target->seq, now_ms, now_ms, err);
}

/* Its unique lock goes with it, unless a later task holds that already. */
static quern_status do_delete(struct qn_conn *conn, const struct qn_operate_target *target,
                              const char *unique_key, quern_error *err)
{
    quern_status status = qn_tables_unlock(conn, unique_key, target->queue_no, target->id, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_operate_delete);
    qn_query_int(&query, target->seq);
    return qn_query_run(&query, NULL, err);
}

static bool is_full(struct qn_trash_use use)
{
    return use.count >= QN_TRASH_SIZE_MAX || use.bytes >= QN_TRASH_BYTES_MAX;
}

static quern_status check_trash(struct qn_conn *conn, const struct qn_operation *operation,
                                int64_t queue_no, quern_error *err)
{
    struct qn_trash_use use;
    size_t over = 0;
    quern_status status = qn_trash_rows_use(conn, queue_no, &use, err);
    if (status == QUERN_OK && is_full(use)) {
        status = qn_trash_rows_expire(conn, operation->now_ms, QN_PRUNE_BATCH_MAX, &over, err);
    }
    if (status == QUERN_OK && over > 0) {
        status = qn_trash_rows_use(conn, queue_no, &use, err);
    }
    return status == QUERN_OK && is_full(use) ? qn_trash_refuse_full(operation->queue, use, err)
                                              : status;
}

/* The lock is freed: it may be taken by another task meanwhile. */
static quern_status do_trash(struct qn_conn *conn, const struct qn_operation *operation,
                             const struct qn_operate_target *target, const char *unique_key,
                             quern_error *err)
{
    const struct qn_trash_row row = {.seq = target->seq, .queue_no = target->queue_no};
    quern_status status = check_trash(conn, operation, target->queue_no, err);
    if (status == QUERN_OK) {
        status = qn_trash_rows_add(conn, &row, target->id, operation->now_ms, err);
    }
    return status == QUERN_OK
               ? qn_tables_unlock(conn, unique_key, target->queue_no, target->id, err)
               : status;
}

static quern_status set_number(struct qn_conn *conn, const char *sql, int64_t seq, int64_t number,
                               quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    qn_query_int(&query, seq);
    qn_query_int(&query, number);
    return qn_query_run(&query, NULL, err);
}

static quern_status do_archive(struct qn_conn *conn, const struct qn_operate_target *target,
                               const struct lock *lock, int64_t now_ms, quern_error *err)
{
    quern_status status = set_number(conn, sql_operate_archive, target->seq, now_ms, err);
    return status != QUERN_OK || lock->key == NULL
               ? status
               : qn_locks_archived(conn, target->seq, lock->until, now_ms, err);
}

static quern_status apply(struct qn_conn *conn, const struct qn_operation *operation,
                          const struct qn_operate_target *target, const struct lock *lock,
                          quern_error *err)
{
    switch (operation->action) {
    case QUERN_ACTION_RUN:
        QN_ASSERT(qn_lifecycle_may_become(target->state, QUERN_TASK_PENDING));
        return do_run(conn, target, lock, operation->now_ms, err);
    case QUERN_ACTION_ARCHIVE:
        QN_ASSERT(qn_lifecycle_may_become(target->state, QUERN_TASK_ARCHIVED));
        return do_archive(conn, target, lock, operation->now_ms, err);
    case QUERN_ACTION_DELETE:
        QN_ASSERT(qn_lifecycle_may_delete(target->state));
        return do_delete(conn, target, lock->key, err);
    case QUERN_ACTION_TRASH:
        QN_ASSERT(qn_lifecycle_may_delete(target->state));
        return do_trash(conn, operation, target, lock->key, err);
    case QUERN_ACTION_RESTORE: /* trash_act.c */
        break;
    case QUERN_ACTION_CANCEL_RETRY:
    case QUERN_ACTION_CANCEL_ARCHIVE:
        return set_number(conn, sql_operate_cancel, target->seq,
                          qn_sqlite_operate_cancel(operation->action), err);
    }
    return qn_error_set(err, QUERN_E_INVALID, "no such action");
}

static quern_status refuse_member(quern_action action, const char *id, quern_error *err)
{
    return qn_error_set(err, QUERN_E_STATE,
                        "cannot %s task %s: it is being aggregated with its group",
                        qn_lifecycle_verb(action), id);
}

quern_status qn_sqlite_operate_on(struct qn_conn *conn, const struct qn_operation *operation,
                                  struct qn_operate_target *target, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_operate_read);
    qn_query_int(&query, target->seq);
    quern_status status = QUERN_OK;
    if (qn_query_row(&query)) {
        target->queue_no = sqlite3_column_int64(query.statement, 0);
        (void)snprintf(target->id, sizeof target->id, "%s", qn_query_column_text(&query, 1));
        target->state = (quern_task_state)sqlite3_column_int64(query.statement, 2);
        const struct lock lock = {.key = (const char *)sqlite3_column_text(query.statement, 3),
                                  .until = sqlite3_column_int(query.statement, 5)};
        bool in_set = sqlite3_column_int64(query.statement, 4) != 0;
        enum qn_cancel mark = qn_sqlite_operate_cancel(operation->action);
        bool marked = mark != QN_CANCEL_NONE && sqlite3_column_int(query.statement, 6) >= (int)mark;
        target->skipped =
            target->wanted != 0 && (target->state != target->wanted || in_set || marked);
        status = target->skipped ? QUERN_OK
                 : in_set        ? refuse_member(operation->action, target->id, err)
                 : qn_lifecycle_allows(target->state, operation->action)
                     ? apply(conn, operation, target, &lock, err)
                     : qn_lifecycle_refuse(operation->action, target->state, target->id, err);
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    return status == QUERN_OK ? finished : status;
}

/* --- One task --------------------------------------------------------------------------- */

struct place {
    int64_t seq;
    char queue[QN_NAME_SIZE_MAX + 1];
};

/* The first and, when there are several, another. */
struct places {
    struct place items[2];
    size_t count;
};

static quern_status find_places(struct qn_conn *conn, const char *queue, const char *id,
                                struct places *ret_places, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_operate_find);
    qn_query_text(&query, id);
    qn_query_text(&query, queue);
    size_t count = 0;
    while (count < 2 && qn_query_row(&query)) {
        struct place *place = &ret_places->items[count++];
        place->seq = sqlite3_column_int64(query.statement, 0);
        (void)snprintf(place->queue, sizeof place->queue, "%s", qn_query_column_text(&query, 1));
    }
    ret_places->count = count;
    return qn_query_finish(&query, err);
}

static quern_status find_task(struct qn_conn *conn, const char *queue, const char *id,
                              struct place *ret_place, quern_error *err)
{
    struct places places;
    quern_status status = find_places(conn, queue, id, &places, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (places.count == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s in %s%s", id,
                            queue == NULL ? "any queue" : "queue ", queue == NULL ? "" : queue);
    }
    if (places.count > 1) {
        return qn_lifecycle_refuse_several(id, places.items[0].queue, places.items[1].queue, err);
    }
    *ret_place = places.items[0];
    return QUERN_OK;
}

quern_status qn_sqlite_operate(struct qn_broker *broker, quern_action action, const char *queue,
                               const char *id, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct place place = {0};
    status = find_task(conn, queue, id, &place, err);
    if (status == QUERN_OK) {
        const struct qn_operation operation = {
            .action = action, .queue = place.queue, .now_ms = qn_clock_wall_ms(broker->clock)};
        struct qn_operate_target target = {.seq = place.seq};
        status = qn_sqlite_operate_on(conn, &operation, &target, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    status = qn_transaction_commit(self, err);
    if (status == QUERN_OK && action == QUERN_ACTION_RUN) {
        qn_waiters_wake(self);
    }
    if (status == QUERN_OK && qn_sqlite_operate_is_end(action)) {
        struct qn_notices ends = {.count = 0};
        qn_notices_add(&ends, qn_notices_task(place.queue, id));
        qn_waiters_report_ends(self, &ends);
    }
    if (status == QUERN_OK && qn_sqlite_operate_cancel(action) != QN_CANCEL_NONE) {
        qn_waiters_cancel(self, place.queue, id, qn_sqlite_operate_cancel(action));
    }
    return status;
}
