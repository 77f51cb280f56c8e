/* SPDX-License-Identifier: MIT */
/* move.c - tasks go to another queue by hand, in one transaction.
 *
 * The row of a task stays the same; only its queue, its lane and its lock become those of the other
 * queue, as of a task that a checkpoint sends there (run/change/change.c). */
#include "broker/move/move.h"

#include <string.h>

#include "base/bug.h"
#include "base/memory/arena.h"
#include "broker/sqlite/operate/move_sql.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/run/enqueue_sql.h"
#include "broker/sqlite/run/lease_batch.h"
#include "broker/sqlite/run/limits/lanes.h"
#include "broker/sqlite/run/limits/sort.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"
#include "message/asynq/unique_key.h"

struct moving {
    struct qn_conn *conn;
    const struct qn_move_list *list;
    struct qn_arena arena;
    int64_t now_ms;
    int64_t from_no;
    int64_t to_no;
    int64_t lanes; /* as the next: of the other queue */
    bool terms;
    int64_t number;   /* the next of the counter */
    int64_t archived; /* in the other queue; -1: not counted yet */
    size_t done;
    struct qn_notices gone;
    /* The present task. */
    int64_t seq;
    quern_task_state state;
    const char *lock;  /* NULL: it has none */
    const char *moved; /* its name in the other queue; NULL: the same */
    bool is_member;
    bool has_key;
    bool has_terms;
    bool holds_lock;
};

static quern_status find_queues(struct moving *moving, quern_error *err)
{
    quern_status status =
        qn_tables_queue_no(moving->conn, moving->list->queue, false, &moving->from_no, err);
    if (status == QUERN_OK) {
        status = qn_tables_queue_no(moving->conn, moving->list->to, true, &moving->to_no, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(moving->conn, sql_queue_limit);
    qn_query_text(&query, moving->list->to);
    if (qn_query_row(&query)) {
        moving->lanes = sqlite3_column_int64(query.statement, 2);
        moving->terms = sqlite3_column_int64(query.statement, 3) != 0;
    }
    return qn_query_finish(&query, err);
}

static quern_status read_task(struct moving *moving, const char *id, quern_error *err)
{
    struct qn_query query = qn_query_start(moving->conn, sql_move_read);
    qn_query_int(&query, moving->from_no);
    qn_query_text(&query, id);
    qn_query_int(&query, moving->now_ms);
    moving->seq = 0;
    moving->lock = moving->moved = NULL;
    bool no_memory = false;
    if (qn_query_row(&query)) {
        const char *lock = (const char *)sqlite3_column_text(query.statement, 3);
        moving->seq = sqlite3_column_int64(query.statement, 0);
        moving->state = (quern_task_state)sqlite3_column_int64(query.statement, 1);
        moving->is_member = sqlite3_column_int(query.statement, 2) != 0;
        moving->lock = lock == NULL ? NULL : qn_arena_strdup(&moving->arena, lock);
        moving->has_key = sqlite3_column_int(query.statement, 4) != 0;
        moving->has_terms = sqlite3_column_int(query.statement, 5) != 0;
        moving->holds_lock = sqlite3_column_int(query.statement, 6) != 0;
        no_memory = lock != NULL && moving->lock == NULL;
    }
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && no_memory ? qn_error_nomem(err) : status;
}

static quern_status name_lock(struct moving *moving, quern_error *err)
{
    if (moving->lock == NULL) {
        return QUERN_OK;
    }
    const struct qn_unique_move names = {moving->lock, moving->list->queue, moving->list->to};
    return qn_unique_key_move(&moving->arena, &names, &moving->moved, err);
}

static quern_status is_archive_full(struct moving *moving, bool *ret_full, quern_error *err)
{
    quern_status status = QUERN_OK;
    if (moving->archived < 0) {
        struct qn_query query = qn_query_start(moving->conn, sql_archive_count);
        qn_query_int(&query, moving->to_no);
        moving->archived = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
        status = qn_query_finish(&query, err);
    }
    *ret_full = moving->archived >= QN_ARCHIVE_SIZE_MAX;
    return status;
}

static quern_status examine_other(struct moving *moving, const char *id,
                                  enum qn_move_result *ret_result, quern_error *err)
{
    struct qn_query query = qn_query_start(moving->conn, sql_move_refused);
    bool needs_lock = moving->moved != NULL && moving->holds_lock;
    qn_query_int(&query, moving->to_no);
    qn_query_text(&query, id);
    qn_query_text(&query, needs_lock ? moving->moved : NULL);
    qn_query_int(&query, moving->now_ms);
    *ret_result = QN_MOVE_DONE;
    if (qn_query_row(&query)) {
        *ret_result = sqlite3_column_int(query.statement, 0) != 0   ? QN_MOVE_EXISTS
                      : sqlite3_column_int(query.statement, 1) != 0 ? QN_MOVE_LOCKED
                                                                    : QN_MOVE_DONE;
    }
    quern_status status = qn_query_finish(&query, err);
    bool full = false;
    if (status == QUERN_OK && *ret_result == QN_MOVE_DONE && moving->state == QUERN_TASK_ARCHIVED) {
        status = is_archive_full(moving, &full, err);
        *ret_result = full ? QN_MOVE_FULL : QN_MOVE_DONE;
    }
    return status;
}

/* What this queue says of it. */
static enum qn_move_result examine(const struct moving *moving)
{
    quern_task_state wanted = moving->list->state;
    return moving->seq == 0                         ? QN_MOVE_MISSING
           : wanted != 0 && wanted != moving->state ? QN_MOVE_CHANGED
           : !qn_move_allows(moving->state)         ? QN_MOVE_STATE
           : moving->is_member                      ? QN_MOVE_MEMBER
                                                    : QN_MOVE_DONE;
}

/* As for a new task: the first one with a key lets the queue have lanes, the first one with terms
 * lets leases look at them. */
static quern_status prepare_queue(struct moving *moving, quern_error *err)
{
    quern_status status = QUERN_OK;
    if (moving->has_key && moving->lanes == 0) {
        moving->lanes = QN_LANES_BY_KEY;
        status = qn_sort_begin(moving->conn, moving->to_no, QN_LANES_BY_KEY, err);
    }
    if (status == QUERN_OK && moving->has_terms && !moving->terms) {
        struct qn_query query = qn_query_start(moving->conn, sql_terms_begin);
        qn_query_int(&query, moving->to_no);
        status = qn_query_run(&query, NULL, err);
        moving->terms = true;
    }
    return status;
}

/* One whose time is over goes. */
static quern_status move_lock(struct moving *moving, const char *id, quern_error *err)
{
    if (QN_BUG(MOVED_LOCK_STAYS)) {
        return QUERN_OK;
    }
    if (moving->moved == NULL || !moving->holds_lock) {
        return qn_tables_unlock(moving->conn, moving->lock, moving->from_no, id, err);
    }
    struct qn_query query = qn_query_start(moving->conn, sql_move_lock);
    qn_query_text(&query, moving->moved);
    qn_query_int(&query, moving->to_no);
    qn_query_text(&query, moving->lock);
    qn_query_int(&query, moving->from_no);
    qn_query_text(&query, id);
    return qn_query_run(&query, NULL, err);
}

static quern_status write_task(struct moving *moving, const char *id, quern_error *err)
{
    quern_status status = prepare_queue(moving, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(moving->conn, sql_move_task);
    qn_query_int(&query, moving->seq);
    qn_query_int(&query, moving->to_no);
    qn_query_text(&query, moving->moved != NULL ? moving->moved : moving->lock);
    qn_query_int(&query, moving->lanes);
    qn_query_int(&query, moving->number++);
    qn_query_int(&query, QN_PRIORITY_STEP);
    status = qn_query_run(&query, NULL, err);
    if (status == QUERN_OK) {
        status = move_lock(moving, id, err);
    }
    moving->archived += moving->state == QUERN_TASK_ARCHIVED;
    moving->done++;
    qn_notices_add(&moving->gone, qn_notices_task(moving->list->queue, id));
    return status;
}

static quern_status move_one(struct moving *moving, const char *id, struct qn_move_answer *ret_one,
                             quern_error *err)
{
    qn_arena_reset(&moving->arena);
    quern_status status = read_task(moving, id, err);
    struct qn_move_answer answer = {examine(moving), moving->state};
    if (status == QUERN_OK && answer.result == QN_MOVE_DONE) {
        status = name_lock(moving, err);
    }
    if (status == QUERN_OK && answer.result == QN_MOVE_DONE) {
        status = examine_other(moving, id, &answer.result, err);
    }
    if (status == QUERN_OK && answer.result == QN_MOVE_DONE) {
        status = write_task(moving, id, err);
    }
    *ret_one = answer;
    return status;
}

static quern_status move_all(struct moving *moving, struct qn_move_answer *answers,
                             quern_error *err)
{
    quern_status status = find_queues(moving, err);
    if (status == QUERN_OK && moving->list->count > 0) {
        status = qn_tables_numbers(moving->conn, moving->list->count, &moving->number, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < moving->list->count; i++) {
        status = move_one(moving, moving->list->items[i].id, &answers[i], err);
    }
    return status;
}

quern_status qn_sqlite_move(struct qn_broker *broker, const struct qn_move_list *list,
                            struct qn_move_answer *answers, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct moving moving = {
        .list = list, .now_ms = qn_clock_wall_ms(broker->clock), .archived = -1};
    quern_status status = qn_transaction_begin(self, false, &moving.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = move_all(&moving, answers, err);
    bool writes = status == QUERN_OK && moving.done > 0;
    if (writes) {
        status = qn_transaction_commit(self, err);
    } else {
        qn_transaction_rollback(self); /* nor is a queue made for none */
    }
    if (writes && status == QUERN_OK) {
        qn_waiters_wake(self);
        qn_waiters_report_ends(self, &moving.gone); /* who waits for one sees that it is gone */
    }
    if (status == QUERN_OK && list->count == QN_BULK_MAX) {
        qn_conn_give_way(); /* the caller continues with others */
    }
    qn_arena_finish(&moving.arena);
    return status;
}
