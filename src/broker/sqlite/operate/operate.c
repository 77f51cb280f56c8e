/* SPDX-License-Identifier: MIT */
/* operate.c - what an operator does to one task or to all that fit a filter.
 *
 * Which action a state allows says task/lifecycle.h; the task is looked at and changed in the same
 * transaction. Sleeping workers are woken after a commit that made a task pending; the worker of a
 * cancelled task is told by a datagram, and reads the mark with its next lease extension at the
 * latest. A bulk action is one bounded transaction a call; the caller repeats it. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"
#include "task/lifecycle.h"

struct target {
    int64_t seq;
    int64_t queue_no;
    quern_task_state state;
    char id[QN_NAME_SIZE_MAX + 1];
};

static enum qn_cancel cancel_of(quern_action action)
{
    switch (action) {
    case QUERN_ACTION_CANCEL_RETRY:
        return QN_CANCEL_RETRY;
    case QUERN_ACTION_CANCEL_ARCHIVE:
        return QN_CANCEL_ARCHIVE;
    case QUERN_ACTION_RUN:
    case QUERN_ACTION_ARCHIVE:
    case QUERN_ACTION_DELETE:
        break;
    }
    return QN_CANCEL_NONE;
}

static const char *verb_of(quern_action action)
{
    switch (action) {
    case QUERN_ACTION_RUN:
        return "run";
    case QUERN_ACTION_ARCHIVE:
        return "archive";
    case QUERN_ACTION_DELETE:
        return "delete";
    case QUERN_ACTION_CANCEL_RETRY:
    case QUERN_ACTION_CANCEL_ARCHIVE:
        break;
    }
    return "cancel";
}

static quern_status do_run(struct qn_conn *conn, const struct target *target, int64_t now_ms,
                           quern_error *err)
{
    int64_t place = 0;
    quern_status status = qn_tables_numbers(conn, 1, &place, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_act_run);
    qn_query_int(&query, target->seq);
    qn_query_int(&query, place);
    qn_query_int(&query, now_ms);
    return qn_query_run(&query, NULL, err);
}

/* Its unique lock goes with it, unless a later task holds that already. */
static quern_status do_delete(struct qn_conn *conn, const struct target *target,
                              const char *unique_key, quern_error *err)
{
    quern_status status = qn_tables_unlock(conn, unique_key, target->queue_no, target->id, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_act_delete);
    qn_query_int(&query, target->seq);
    return qn_query_run(&query, NULL, err);
}

static quern_status set_number(struct qn_conn *conn, const char *sql, int64_t seq, int64_t number,
                               quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    qn_query_int(&query, seq);
    qn_query_int(&query, number);
    return qn_query_run(&query, NULL, err);
}

static quern_status apply(struct qn_conn *conn, quern_action action, const struct target *target,
                          const char *unique_key, int64_t now_ms, quern_error *err)
{
    switch (action) {
    case QUERN_ACTION_RUN:
        QN_ASSERT(qn_lifecycle_may_become(target->state, QUERN_TASK_PENDING));
        return do_run(conn, target, now_ms, err);
    case QUERN_ACTION_ARCHIVE:
        QN_ASSERT(qn_lifecycle_may_become(target->state, QUERN_TASK_ARCHIVED));
        return set_number(conn, sql_act_archive, target->seq, now_ms, err);
    case QUERN_ACTION_DELETE:
        QN_ASSERT(qn_lifecycle_may_delete(target->state));
        return do_delete(conn, target, unique_key, err);
    case QUERN_ACTION_CANCEL_RETRY:
    case QUERN_ACTION_CANCEL_ARCHIVE:
        return set_number(conn, sql_act_cancel, target->seq, cancel_of(action), err);
    }
    return qn_error_set(err, QUERN_E_INVALID, "no such action");
}

static quern_status refuse(quern_action action, const struct target *target, quern_error *err)
{
    const char *state = quern_task_state_name(target->state);
    bool cancels = action == QUERN_ACTION_CANCEL_RETRY || action == QUERN_ACTION_CANCEL_ARCHIVE;
    if (cancels && state != NULL) {
        return qn_error_set(err, QUERN_E_STATE, "cannot %s task %s: it is not running (state: %s)",
                            verb_of(action), target->id, state);
    }
    const char *advice = target->state == QUERN_TASK_ACTIVE ? "; cancel it instead" : "";
    return qn_error_set(err, QUERN_E_STATE, "cannot %s task %s: it is %s%s", verb_of(action),
                        target->id, state == NULL ? "damaged" : state, advice);
}

/* Does it to one row, if its state allows it. */
static quern_status act_on(struct qn_conn *conn, quern_action action, struct target *target,
                           int64_t now_ms, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_act_read);
    qn_query_int(&query, target->seq);
    const char *unique_key = NULL;
    quern_status status = QUERN_OK;
    if (qn_query_row(&query)) {
        target->queue_no = sqlite3_column_int64(query.statement, 0);
        (void)snprintf(target->id, sizeof target->id, "%s", qn_query_column_text(&query, 1));
        target->state = (quern_task_state)sqlite3_column_int64(query.statement, 2);
        unique_key = (const char *)sqlite3_column_text(query.statement, 3);
        status = qn_lifecycle_allows(target->state, action)
                     ? apply(conn, action, target, unique_key, now_ms, err)
                     : refuse(action, target, err);
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    return status == QUERN_OK ? finished : status;
}

/* --- One task --------------------------------------------------------------------------- */

struct place {
    int64_t seq;
    char queue[QN_NAME_SIZE_MAX + 1];
};

/* The first place and, when there are several, another. */
static quern_status find_places(struct qn_conn *conn, const char *queue, const char *id,
                                struct place places[2], size_t *ret_count, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_act_find);
    qn_query_text(&query, id);
    qn_query_text(&query, queue);
    size_t count = 0;
    while (count < 2 && qn_query_row(&query)) {
        places[count].seq = sqlite3_column_int64(query.statement, 0);
        (void)snprintf(places[count].queue, sizeof places[count].queue, "%s",
                       qn_query_column_text(&query, 1));
        count++;
    }
    *ret_count = count;
    return qn_query_finish(&query, err);
}

static quern_status find(struct qn_conn *conn, const char *queue, const char *id,
                         struct place *ret_place, quern_error *err)
{
    struct place places[2];
    size_t count = 0;
    quern_status status = find_places(conn, queue, id, places, &count, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (count == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s in %s%s", id,
                            queue == NULL ? "any queue" : "queue ", queue == NULL ? "" : queue);
    }
    if (count > 1) {
        return qn_error_set(err, QUERN_E_STATE,
                            "task %s is in several queues, %s and %s among them: say which", id,
                            places[0].queue, places[1].queue);
    }
    *ret_place = places[0];
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
    status = find(conn, queue, id, &place, err);
    if (status == QUERN_OK) {
        struct target target = {.seq = place.seq};
        status = act_on(conn, action, &target, qn_clock_wall_ms(broker->clock), err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    status = qn_transaction_commit(self, err);
    if (status == QUERN_OK && action == QUERN_ACTION_RUN) {
        qn_waiters_wake(self);
    }
    if (status == QUERN_OK && cancel_of(action) != QN_CANCEL_NONE) {
        qn_waiters_cancel(self, place.queue, id, cancel_of(action));
    }
    return status;
}

/* --- All that fit ------------------------------------------------------------------------ */

struct acting {
    struct qn_conn *conn;
    quern_action action;
    int64_t queue_no;
    int64_t now_ms;
    size_t count;
    int64_t seqs[QN_BULK_MAX];
    char (*ids)[QN_NAME_SIZE_MAX + 1]; /* of cancelled tasks; NULL for other actions */
};

static quern_status select_step(struct acting *acting, const struct qn_bulk *bulk, quern_error *err)
{
    const quern_task_filter *filter = bulk->filter;
    quern_status status =
        qn_tables_queue_no(acting->conn, filter->queue, false, &acting->queue_no, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (acting->queue_no == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no queue \"%s\"", filter->queue);
    }
    struct qn_page page = {.filter = filter,
                           .queue_no = acting->queue_no,
                           .state = (quern_task_state)filter->state,
                           .in_order = true,
                           .cancel_not = cancel_of(acting->action),
                           .limit = bulk->limit};
    return qn_sqlite_page(acting->conn, &page, acting->seqs, &acting->count, err);
}

/* The archive is trimmed to its limit by the next worker, so more than it can hold is refused:
 * archiving must not delete. */
static quern_status check_archive(struct acting *acting, quern_error *err)
{
    if (acting->action != QUERN_ACTION_ARCHIVE || acting->count == 0) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(acting->conn, sql_archive_count);
    qn_query_int(&query, acting->queue_no);
    int64_t archived = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    int64_t surplus = archived + (int64_t)acting->count - QN_ARCHIVE_SIZE_MAX;
    if (status == QUERN_OK && surplus > 0) {
        status = qn_error_set(err, QUERN_E_STATE,
                              "the archive holds %lld of %d tasks; archiving %zu more would delete "
                              "its oldest %lld",
                              (long long)archived, QN_ARCHIVE_SIZE_MAX, acting->count,
                              (long long)surplus);
    }
    return status;
}

static quern_status act_step(struct acting *acting, quern_error *err)
{
    quern_status status = check_archive(acting, err);
    for (size_t i = 0; status == QUERN_OK && i < acting->count; i++) {
        struct target target = {.seq = acting->seqs[i]};
        status = act_on(acting->conn, acting->action, &target, acting->now_ms, err);
        if (acting->ids != NULL) {
            memcpy(acting->ids[i], target.id, sizeof target.id);
        }
    }
    return status;
}

static void tell_step(struct qn_sqlite *self, const struct acting *acting, const char *queue)
{
    if (acting->action == QUERN_ACTION_RUN && acting->count > 0) {
        qn_waiters_wake(self);
    }
    for (size_t i = 0; acting->ids != NULL && i < acting->count; i++) {
        qn_waiters_cancel(self, queue, acting->ids[i], cancel_of(acting->action));
    }
}

static quern_status act_all(struct qn_sqlite *self, struct acting *acting,
                            const struct qn_bulk *bulk, quern_error *err)
{
    quern_status status = qn_transaction_begin(self, false, &acting->conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = select_step(acting, bulk, err);
    if (status == QUERN_OK) {
        status = act_step(acting, err);
    }
    if (status != QUERN_OK || acting->count == 0) {
        qn_transaction_rollback(self);
        return status;
    }
    status = qn_transaction_commit(self, err);
    if (status == QUERN_OK) {
        tell_step(self, acting, bulk->filter->queue);
    }
    return status;
}

quern_status qn_sqlite_operate_all(struct qn_broker *broker, const struct qn_bulk *bulk,
                                   size_t *ret_count, quern_error *err)
{
    quern_task_state state = (quern_task_state)bulk->filter->state;
    QN_ASSERT(bulk->limit <= QN_BULK_MAX && bulk->filter->queue != NULL);
    if (!qn_lifecycle_allows(state, bulk->action)) {
        const char *name = quern_task_state_name(state);
        return qn_error_set(err, QUERN_E_STATE, "cannot %s tasks that are %s",
                            verb_of(bulk->action), name == NULL ? "in no state" : name);
    }
    struct acting *acting = qn_alloc_zero(1, sizeof *acting);
    if (acting == NULL) {
        return qn_error_nomem(err);
    }
    acting->action = bulk->action;
    acting->now_ms = qn_clock_wall_ms(broker->clock);
    quern_status status = QUERN_OK;
    if (cancel_of(bulk->action) != QN_CANCEL_NONE) {
        acting->ids = qn_alloc_zero(bulk->limit, sizeof *acting->ids);
        status = acting->ids == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    if (status == QUERN_OK) {
        status = act_all(qn_sqlite_of(broker), acting, bulk, err);
    }
    if (status == QUERN_OK) {
        *ret_count = acting->count;
        if (acting->count == bulk->limit) {
            qn_conn_give_way(); /* the caller goes on with the rest */
        }
    }
    qn_free(acting->ids);
    qn_free(acting);
    return status;
}
