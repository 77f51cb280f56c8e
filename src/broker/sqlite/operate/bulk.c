/* SPDX-License-Identifier: MIT */
/* bulk.c - an operation by hand on all tasks that match a filter: one bounded transaction per call,
 * which the caller repeats. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/operate/operate.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"
#include "task/lifecycle.h"

struct bulk_step {
    struct qn_conn *conn;
    struct qn_operation operation;
    int64_t queue_no;
    size_t count;
    int64_t seqs[QN_BULK_MAX];
    char (*ids)[QN_NAME_SIZE_MAX + 1]; /* of cancelled tasks; NULL for other actions */
    struct qn_notices ends;
};

static quern_status select_step(struct bulk_step *step, const struct qn_bulk *bulk,
                                quern_error *err)
{
    const quern_task_filter *filter = bulk->filter;
    quern_status status =
        qn_tables_queue_no(step->conn, filter->queue, false, &step->queue_no, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (step->queue_no == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no queue \"%s\"", filter->queue);
    }
    struct qn_page page = {.filter = filter,
                           .queue_no = step->queue_no,
                           .state = (quern_task_state)filter->state,
                           .in_order = true,
                           .cancel_not = qn_sqlite_operate_cancel(step->operation.action),
                           .limit = bulk->limit};
    return qn_sqlite_page(step->conn, &page, step->seqs, &step->count, err);
}

static quern_status operate_step(struct bulk_step *step, const char *queue, quern_error *err)
{
    quern_status status = QUERN_OK;
    if (step->operation.action == QUERN_ACTION_ARCHIVE && step->count > 0) {
        status = qn_sqlite_operate_check_archive(step->conn, step->queue_no, step->count, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < step->count; i++) {
        struct qn_operate_target target = {.seq = step->seqs[i]};
        status = qn_sqlite_operate_on(step->conn, &step->operation, &target, err);
        if (step->ids != NULL) {
            memcpy(step->ids[i], target.id, sizeof target.id);
        }
        if (qn_sqlite_operate_is_end(step->operation.action)) {
            qn_notices_add(&step->ends, qn_notices_task(queue, target.id));
        }
    }
    return status;
}

static void wake(struct qn_sqlite *self, const struct bulk_step *step, const char *queue)
{
    if (step->operation.action == QUERN_ACTION_RUN) {
        qn_waiters_wake(self);
    }
    qn_waiters_report_ends(self, &step->ends);
    for (size_t i = 0; step->ids != NULL && i < step->count; i++) {
        qn_waiters_cancel(self, queue, step->ids[i],
                          qn_sqlite_operate_cancel(step->operation.action));
    }
}

static quern_status operate_all(struct qn_sqlite *self, struct bulk_step *step,
                                const struct qn_bulk *bulk, quern_error *err)
{
    quern_status status = qn_transaction_begin(self, false, &step->conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = select_step(step, bulk, err);
    if (status == QUERN_OK) {
        status = operate_step(step, bulk->filter->queue, err);
    }
    if (status != QUERN_OK || step->count == 0) {
        qn_transaction_rollback(self);
        return status;
    }
    status = qn_transaction_commit(self, err);
    if (status == QUERN_OK) {
        wake(self, step, bulk->filter->queue);
    }
    return status;
}

quern_status qn_sqlite_operate_all(struct qn_broker *broker, const struct qn_bulk *bulk,
                                   size_t *ret_count, quern_error *err)
{
    quern_task_state state = (quern_task_state)bulk->filter->state;
    QN_ASSERT(bulk->limit <= QN_BULK_MAX && bulk->filter->queue != NULL);
    if (!qn_lifecycle_allows(state, bulk->action)) {
        return qn_lifecycle_refuse(bulk->action, state, NULL, err);
    }
    struct bulk_step *step = qn_alloc_zero(1, sizeof *step);
    if (step == NULL) {
        return qn_error_nomem(err);
    }
    step->operation =
        (struct qn_operation){bulk->action, bulk->filter->queue, qn_clock_wall_ms(broker->clock)};
    quern_status status = QUERN_OK;
    if (qn_sqlite_operate_cancel(bulk->action) != QN_CANCEL_NONE) {
        step->ids = qn_alloc_zero(bulk->limit, sizeof *step->ids);
        status = step->ids == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    if (status == QUERN_OK) {
        status = operate_all(qn_sqlite_of(broker), step, bulk, err);
    }
    if (status == QUERN_OK) {
        *ret_count = step->count;
        if (step->count == bulk->limit) {
            qn_conn_give_way(); /* the caller continues with the rest */
        }
    }
    qn_free(step->ids);
    qn_free(step);
    return status;
}
