/* SPDX-License-Identifier: MIT */
/* search_act.c - an operation by hand on tasks that a search has found: one transaction, in which
 * each is compared with the state that it was found in. */
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/search/search.h"
#include "broker/sqlite/operate/operate.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"

struct act {
    struct qn_conn *conn;
    const struct qn_found_list *list;
    struct qn_operation operation;
    int64_t queue_no;
    size_t done;
    bool changed[QN_BULK_MAX]; /* the items that were done */
    struct qn_notices ends;
};

/* 0: there is no such task any more. */
static quern_status find_seq(struct qn_conn *conn, int64_t queue_no, const char *id,
                             int64_t *ret_seq, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_operate_seq);
    qn_query_int(&query, queue_no);
    qn_query_text(&query, id);
    *ret_seq = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    return qn_query_finish(&query, err);
}

static quern_status act_on_item(struct act *act, size_t index, quern_error *err)
{
    struct qn_operate_target target = {.wanted = act->list->state, .skipped = true};
    quern_status status =
        find_seq(act->conn, act->queue_no, act->list->items[index].id, &target.seq, err);
    if (status == QUERN_OK && target.seq != 0) {
        status = qn_sqlite_operate_on(act->conn, &act->operation, &target, err);
    }
    act->changed[index] = status == QUERN_OK && !target.skipped;
    act->done += act->changed[index];
    if (act->changed[index] && qn_sqlite_operate_is_end(act->operation.action)) {
        qn_notices_add(&act->ends, qn_notices_task(act->list->queue, target.id));
    }
    return status;
}

static quern_status act_on_all(struct act *act, quern_error *err)
{
    quern_status status =
        qn_tables_queue_no(act->conn, act->list->queue, false, &act->queue_no, err);
    if (status == QUERN_OK && act->operation.action == QUERN_ACTION_ARCHIVE) {
        status = qn_sqlite_operate_check_archive(act->conn, act->queue_no, act->list->count, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < act->list->count; i++) {
        status = act_on_item(act, i, err);
    }
    return status;
}

static void wake(struct qn_sqlite *self, const struct act *act)
{
    enum qn_cancel mark = qn_sqlite_operate_cancel(act->operation.action);
    if (act->operation.action == QUERN_ACTION_RUN && act->done > 0) {
        qn_waiters_wake(self);
    }
    qn_waiters_report_ends(self, &act->ends);
    for (size_t i = 0; mark != QN_CANCEL_NONE && i < act->list->count; i++) {
        if (act->changed[i]) {
            qn_waiters_cancel(self, act->list->queue, act->list->items[i].id, mark);
        }
    }
}

quern_status qn_sqlite_search_act(struct qn_broker *broker, const struct qn_found_list *list,
                                  size_t *ret_done, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct act *act = qn_alloc_zero(1, sizeof *act);
    if (act == NULL) {
        return qn_error_nomem(err);
    }
    act->list = list;
    act->operation =
        (struct qn_operation){list->action, list->queue, qn_clock_wall_ms(broker->clock)};
    quern_status status = qn_transaction_begin(self, false, &act->conn, err);
    if (status == QUERN_OK) {
        status = act_on_all(act, err);
        if (status == QUERN_OK) {
            status = qn_transaction_commit(self, err);
        } else {
            qn_transaction_rollback(self);
        }
    }
    if (status == QUERN_OK) {
        *ret_done = act->done;
        wake(self, act);
        qn_conn_give_way(); /* the caller continues with others */
    }
    qn_free(act);
    return status;
}
