/* SPDX-License-Identifier: MIT */
/* trash_act.c - tasks come back from the trash, or leave it for good: one transaction.
 *
 * A restored task is in its old state and has its old moment; a pending one stands at the tail, and
 * waits since now. It takes its lock again for the time that this had left. What an enqueue would
 * refuse (its id exists, its lock is held) stays in the trash, and so do archived tasks for which
 * the archive has no room. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "broker/sqlite/operate/operate.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/operate/trash_act_sql.h"
#include "broker/sqlite/queue/trash_rows.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"

struct act {
    struct qn_conn *conn;
    const struct qn_trash_list *list;
    int64_t queue_no;
    int64_t now_ms;
    int64_t number;   /* the next of the counter */
    int64_t archived; /* -1: not counted yet */
    bool wake;
};

static quern_status ask(struct qn_query *query, int64_t *ret_number, quern_error *err)
{
    *ret_number = qn_query_row(query) ? sqlite3_column_int64(query->statement, 0) : 0;
    return qn_query_finish(query, err);
}

static quern_status is_archive_full(struct act *act, bool *ret_full, quern_error *err)
{
    quern_status status = QUERN_OK;
    if (act->archived < 0) {
        struct qn_query query = qn_query_start(act->conn, sql_archive_count);
        qn_query_int(&query, act->queue_no);
        status = ask(&query, &act->archived, err);
    }
    *ret_full = act->archived >= QN_ARCHIVE_SIZE_MAX;
    return status;
}

static bool wants_lock(const struct act *act, const struct qn_trash_row *row)
{
    return row->has_lock && row->lock_until_ms > act->now_ms;
}

/* What an enqueue would refuse. */
static quern_status examine(struct act *act, const struct qn_trash_row *row, const char *id,
                            enum qn_trash_result *ret_result, quern_error *err)
{
    int64_t found = 0;
    struct qn_query query = qn_query_start(act->conn, sql_operate_seq);
    qn_query_int(&query, act->queue_no);
    qn_query_text(&query, id);
    quern_status status = ask(&query, &found, err);
    if (status != QUERN_OK || found != 0) {
        *ret_result = QN_TRASH_EXISTS;
        return status;
    }
    if (wants_lock(act, row)) {
        query = qn_query_start(act->conn, sql_trash_locked);
        qn_query_int(&query, row->seq);
        qn_query_int(&query, act->now_ms);
        qn_query_int(&query, act->queue_no);
        status = ask(&query, &found, err);
        *ret_result = found != 0 ? QN_TRASH_LOCKED : *ret_result;
    }
    bool full = false;
    if (status == QUERN_OK && found == 0 && row->state == QUERN_TASK_ARCHIVED) {
        status = is_archive_full(act, &full, err);
        *ret_result = full ? QN_TRASH_FULL : *ret_result;
        act->archived += full ? 0 : 1;
    }
    return status;
}

static quern_status restore(struct act *act, const struct qn_trash_row *row, quern_error *err)
{
    struct qn_query query = qn_query_start(act->conn, sql_trash_restore);
    qn_query_int(&query, row->seq);
    qn_query_int(&query, act->number++);
    qn_query_int(&query, act->now_ms);
    qn_query_int(&query, QN_PRIORITY_STEP);
    quern_status status = qn_query_run(&query, NULL, err);
    if (status == QUERN_OK) {
        status = qn_trash_rows_forget(act->conn, row, err);
    }
    if (status == QUERN_OK && wants_lock(act, row)) {
        query = qn_query_start(act->conn, sql_trash_lock);
        qn_query_int(&query, row->seq);
        qn_query_int(&query, row->lock_until_ms);
        status = qn_query_run(&query, NULL, err);
    }
    act->wake = true;
    return status;
}

static quern_status act_on_item(struct act *act, const char *id, enum qn_trash_result *ret_result,
                                quern_error *err)
{
    struct qn_trash_row row;
    quern_status status = qn_trash_rows_find(act->conn, act->queue_no, id, &row, err);
    *ret_result = row.seq == 0 || row.until_ms <= act->now_ms ? QN_TRASH_MISSING : QN_TRASH_DONE;
    if (status != QUERN_OK || *ret_result == QN_TRASH_MISSING) {
        return status;
    }
    if (act->list->action == QUERN_ACTION_DELETE) {
        return act->list->dry ? status : qn_trash_rows_remove(act->conn, &row, err);
    }
    status = examine(act, &row, id, ret_result, err);
    bool does = status == QUERN_OK && *ret_result == QN_TRASH_DONE && !act->list->dry;
    return does ? restore(act, &row, err) : status;
}

static quern_status act_on_all(struct act *act, enum qn_trash_result *results, quern_error *err)
{
    size_t over = 0;
    quern_status status =
        qn_tables_queue_no(act->conn, act->list->queue, false, &act->queue_no, err);
    if (status == QUERN_OK) {
        status = qn_trash_rows_expire(act->conn, act->now_ms, QN_PRUNE_BATCH_MAX, &over, err);
    }
    if (status == QUERN_OK && act->list->action == QUERN_ACTION_RESTORE && act->list->count > 0) {
        status = qn_tables_numbers(act->conn, act->list->count, &act->number, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < act->list->count; i++) {
        status = act_on_item(act, act->list->items[i].id, &results[i], err);
    }
    return status;
}

quern_status qn_sqlite_trash_act(struct qn_broker *broker, const struct qn_trash_list *list,
                                 enum qn_trash_result *results, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct act act = {.list = list, .now_ms = qn_clock_wall_ms(broker->clock), .archived = -1};
    quern_status status = qn_transaction_begin(self, false, &act.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = act_on_all(&act, results, err);
    if (status == QUERN_OK) {
        status = qn_transaction_commit(self, err);
    } else {
        qn_transaction_rollback(self);
    }
    if (status == QUERN_OK && act.wake) {
        qn_waiters_wake(self);
    }
    if (status == QUERN_OK && list->count == QN_BULK_MAX) {
        qn_conn_give_way(); /* the caller continues with others */
    }
    return status;
}
