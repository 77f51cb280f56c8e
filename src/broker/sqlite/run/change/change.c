/* SPDX-License-Identifier: MIT */
/* change.c - a run changes its task: its data, or the queue where it waits for its next run.
 *
 * The data are written before the outcome is applied, since a row never has more retries than it
 * may have, and the queue after it, when the token was valid and the task waits. In another queue
 * its row is the same, with the lane that this queue gives it, and its lock is renamed, as the name
 * of a lock contains that of its queue. */
#include "broker/sqlite/run/change/change.h"

#include "base/bug.h"
#include "base/memory/arena.h"
#include "broker/sqlite/run/change/change_sql.h"
#include "broker/sqlite/run/enqueue_sql.h"
#include "broker/sqlite/run/insert/insert.h"
#include "broker/sqlite/run/limits/lanes.h"
#include "broker/sqlite/run/limits/sort.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "message/asynq/unique_key.h"

quern_status qn_change_data(struct qn_queue_counters *counters, const struct qn_outcome *outcome,
                            quern_error *err)
{
    const struct qn_task_change *change = qn_task_change_of(outcome);
    if (change == NULL || (!change->has_payload && !change->has_retry_max)) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(counters->conn, sql_change_data);
    qn_query_int(&query, outcome->run->row);
    qn_query_int(&query, change->has_payload ? 1 : 0);
    qn_query_blob(&query, change->payload != NULL ? change->payload : "", change->payload_size);
    qn_query_int(&query, change->has_retry_max ? 1 : 0);
    qn_query_int(&query, qn_task_change_retry_max(outcome));
    qn_query_int(&query, (int64_t)outcome->run->token);
    qn_query_int(&query, QN_BUG(STALE_RUN_CHANGES) ? 1 : 0);
    return qn_query_run(&query, NULL, err);
}

/* --- Another queue ------------------------------------------------------------------- */

struct move {
    struct qn_queue_counters *counters;
    const struct qn_outcome *outcome;
    struct qn_arena arena;
    int64_t from_no;
    const char *name;               /* of the queue where it goes */
    struct qn_counted_queue *queue; /* that one */
    const char *lock;               /* its name there; NULL: it has none */
    bool holds_lock;                /* it needs that one */
};

/* The queue where it goes, made if there is none. */
static quern_status enter_queue(struct move *move, quern_error *err)
{
    struct qn_queue_counters *counters = move->counters;
    struct qn_counted_queue *from = NULL;
    int64_t no = 0;
    quern_status status =
        qn_queue_counters_queue(counters, move->outcome->run->task.queue, &from, err);
    if (status != QUERN_OK) {
        return status;
    }
    move->from_no = from->no;
    status = qn_tables_queue_no(counters->conn, move->name, true, &no, err);
    if (status == QUERN_OK) {
        status = qn_queue_counters_queue(counters, move->name, &move->queue, err);
    }
    if (status == QUERN_OK) {
        move->queue->no = no; /* it may have been read before it was made */
    }
    return status;
}

static quern_status find_lock(struct move *move, quern_error *err)
{
    const struct qn_task *task = &move->outcome->run->task;
    if (task->unique_key == NULL) {
        return QUERN_OK;
    }
    const struct qn_unique_move names = {task->unique_key, task->queue, move->name};
    move->holds_lock = qn_task_change_holds_lock(move->outcome);
    return qn_unique_key_move(&move->arena, &names, &move->lock, err);
}

static quern_status is_refused(struct move *move, bool *ret_refused, quern_error *err)
{
    struct qn_query query = qn_query_start(move->counters->conn, sql_change_refused);
    qn_query_int(&query, move->queue->no);
    qn_query_text(&query, move->outcome->run->task.id);
    qn_query_text(&query, move->holds_lock ? move->lock : NULL);
    qn_query_int(&query, move->counters->now_ms);
    *ret_refused = qn_query_row(&query) && sqlite3_column_int(query.statement, 0) != 0;
    return qn_query_finish(&query, err);
}

/* As for a new task: the first one with a key lets the queue have lanes, the first one with terms
 * lets leases look at them. The next task of this exchange finds that noted. */
static quern_status prepare_queue(struct move *move, quern_error *err)
{
    const struct qn_task *task = &move->outcome->run->task;
    struct qn_conn *conn = move->counters->conn;
    quern_status status = QUERN_OK;
    if (move->queue->lanes == 0 && task->limit_key != NULL) {
        status = qn_sort_begin(conn, move->queue->no, QN_LANES_BY_KEY, err);
        move->queue->lanes = QN_BUG(MOVED_WITHOUT_LANE) ? 0 : QN_LANES_BY_KEY;
    }
    if (status == QUERN_OK && !move->queue->terms && qn_insert_has_terms(task)) {
        struct qn_query query = qn_query_start(conn, sql_terms_begin);
        qn_query_int(&query, move->queue->no);
        status = qn_query_run(&query, NULL, err);
        move->queue->terms = true;
    }
    return status;
}

static quern_status write_queue(struct move *move, quern_error *err)
{
    const struct qn_task *task = &move->outcome->run->task;
    char lane[QN_LANE_NAME_SIZE];
    quern_status status = prepare_queue(move, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(move->counters->conn, sql_change_queue);
    qn_query_int(&query, move->outcome->run->row);
    qn_query_int(&query, move->queue->no);
    qn_query_text(&query, qn_lanes_name(lane, move->queue->lanes, task->limit_key, task->type));
    qn_query_text(&query, move->lock != NULL ? move->lock : task->unique_key);
    status = qn_query_run(&query, NULL, err);
    if (status != QUERN_OK || move->lock == NULL || QN_BUG(LOCK_LEFT_BEHIND)) {
        return status;
    }
    query = qn_query_start(move->counters->conn, sql_change_lock);
    qn_query_text(&query, move->lock);
    qn_query_int(&query, move->queue->no);
    qn_query_text(&query, task->unique_key);
    qn_query_int(&query, move->from_no);
    qn_query_text(&query, task->id);
    return qn_query_run(&query, NULL, err);
}

/* It waited for its old place in pending. */
static quern_status make_due(struct move *move, quern_error *err)
{
    const struct qn_queue_counters *counters = move->counters;
    struct qn_query query = qn_query_start(counters->conn, sql_change_due);
    qn_query_int(&query, move->outcome->run->row);
    qn_query_int(&query, counters->now_ms);
    qn_query_int(&query, counters->shift_ms);
    return qn_query_run(&query, NULL, err);
}

static quern_status change_queue(struct move *move, bool *ret_refused, quern_error *err)
{
    quern_status status = enter_queue(move, err);
    if (status == QUERN_OK) {
        status = find_lock(move, err);
    }
    if (status == QUERN_OK) {
        status = is_refused(move, ret_refused, err);
    }
    if (status != QUERN_OK || *ret_refused) {
        return status;
    }
    bool is_given_back = move->outcome->kind == QN_GIVE_BACK;
    int64_t delay_ms = is_given_back ? 0 : move->outcome->delay_ms;
    status = write_queue(move, err);
    if (status == QUERN_OK && is_given_back) {
        status = make_due(move, err);
    }
    return status == QUERN_OK ? qn_queue_counters_due(move->counters, move->queue,
                                                      move->counters->now_ms + delay_ms, err)
                              : status;
}

quern_status qn_change_queue(struct qn_queue_counters *counters, const struct qn_outcome *outcome,
                             enum qn_applied *ret_applied, quern_error *err)
{
    struct move move = {
        .counters = counters, .outcome = outcome, .name = qn_task_change_queue(outcome)};
    bool is_applied = *ret_applied == QN_APPLIED || QN_BUG(STALE_RUN_MOVES);
    if (move.name == NULL || !is_applied) {
        return QUERN_OK;
    }
    bool refused = false;
    quern_status status = change_queue(&move, &refused, err);
    qn_arena_finish(&move.arena);
    if (refused) {
        *ret_applied = QN_UNMOVED;
    }
    return status;
}
