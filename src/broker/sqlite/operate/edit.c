/* SPDX-License-Identifier: MIT */
/* edit.c - tasks are edited by hand: read, compared and written in one transaction. */
#include "broker/edit/edit.h"

#include "base/error.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/operate/edit_sql.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/queue/locks.h"
#include "broker/sqlite/run/delay_clock.h"
#include "broker/sqlite/run/enqueue_sql.h"
#include "broker/sqlite/schema/run_limits.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"
#include "task/limits.h"

struct editing {
    struct qn_conn *conn;
    const struct qn_edit_list *list;
    int64_t queue_no; /* 0: there is no such queue */
    int64_t now_ms;
    int64_t shift_ms; /* qn_delay_clock_shift_ms */
    bool wake;        /* a task may be due before all others now */
    /* The present task. */
    int64_t seq;
    bool has_lock;
    bool is_member; /* of a set */
    struct qn_edit_answer answer;
    quern_status status;
    quern_error *err;
};

/* 0: there is no such task. */
static quern_status find_seq(struct editing *editing, const char *id, quern_error *err)
{
    struct qn_query query = qn_query_start(editing->conn, sql_operate_seq);
    qn_query_int(&query, editing->queue_no);
    qn_query_text(&query, id);
    editing->seq = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    return qn_query_finish(&query, err);
}

static quern_status read_terms(struct editing *editing, quern_error *err)
{
    struct qn_query query = qn_query_start(editing->conn, sql_task_edit_read);
    qn_query_int(&query, editing->seq);
    bool found = qn_query_row(&query);
    editing->is_member = found && sqlite3_column_int(query.statement, 0) != 0;
    editing->has_lock = found && sqlite3_column_int(query.statement, 1) != 0;
    return qn_query_finish(&query, err);
}

static void bind_moment(struct qn_query *query, const struct editing *editing,
                        const struct qn_edited *edited)
{
    int64_t due_boot_ms =
        edited->is_delay && editing->shift_ms != 0 ? edited->at_ms - editing->shift_ms : 0;
    if (edited->at_ms == 0) {
        qn_query_text(query, NULL);
    } else {
        qn_query_int(query, edited->at_ms);
    }
    qn_query_int(query, due_boot_ms > 0 ? due_boot_ms : 0);
    qn_query_int(query, edited->task.start_by_at_ms);
}

static void bind_retry(struct qn_query *query, const struct qn_task *task)
{
    qn_query_int(query, task->retry.kind);
    qn_query_int(query, task->retry.base_ms);
    qn_query_int(query, task->retry.cap_ms);
}

/* From now on leases look at the terms of the queue's tasks. */
static quern_status begin_terms(struct editing *editing, quern_error *err)
{
    struct qn_query query = qn_query_start(editing->conn, sql_terms_begin);
    qn_query_int(&query, editing->queue_no);
    return qn_query_run(&query, NULL, err);
}

static quern_status write_task(struct editing *editing, const struct qn_edited *edited,
                               quern_error *err)
{
    char limits[QN_RUN_LIMITS_SIZE];
    const struct qn_task *task = &edited->task;
    struct qn_query query = qn_query_start(editing->conn, sql_task_edit);
    qn_query_int(&query, editing->seq);
    qn_query_blob(&query, task->payload != NULL ? task->payload : "", task->payload_size);
    qn_query_int(&query, task->retry_max);
    qn_query_int(&query, task->timeout_ms);
    qn_query_int(&query, task->retention_ms);
    bind_moment(&query, editing, edited);
    qn_query_int(&query, editing->list->edit->set_priority);
    qn_query_int(&query, task->priority);
    qn_query_int(&query, QN_PRIORITY_STEP);
    qn_query_int(&query, task->deadline_at_ms);
    qn_query_text(&query, qn_run_limits_write(task, limits));
    bind_retry(&query, task);
    quern_status status = qn_query_run(&query, NULL, err);
    if (status == QUERN_OK && qn_run_limits_any(task)) {
        status = begin_terms(editing, err);
    }
    editing->wake = editing->wake || edited->at_ms != 0;
    return status == QUERN_OK && edited->at_ms != 0 && editing->has_lock
               ? qn_locks_waits(editing->conn, editing->seq, edited->at_ms, editing->now_ms, err)
               : status;
}

/* It is written while its row is read: an UPDATE makes the new record before it writes. */
static bool edit_row(const quern_task_info *info, void *user)
{
    struct editing *editing = user;
    struct qn_edited edited;
    editing->answer = qn_edit_merge(editing->list, info, editing->now_ms, &edited);
    if (editing->answer.result == QN_EDIT_DONE && editing->is_member) {
        editing->answer.result = QN_EDIT_MEMBER;
    }
    if (editing->answer.result == QN_EDIT_DONE) {
        editing->status = write_task(editing, &edited, editing->err);
    }
    return true;
}

static quern_status edit_task(struct editing *editing, const char *id, quern_error *err)
{
    editing->answer = (struct qn_edit_answer){.result = QN_EDIT_MISSING};
    quern_status status = find_seq(editing, id, err);
    if (status != QUERN_OK || editing->seq == 0) {
        return status;
    }
    status = read_terms(editing, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_task_show show = {.conn = editing->conn, .on_task = edit_row, .user = editing};
    editing->status = QUERN_OK;
    editing->err = err;
    status = qn_sqlite_tasks_show(&show, editing->seq, err);
    return editing->status != QUERN_OK ? editing->status : status;
}

static quern_status edit_all(struct editing *editing, struct qn_edit_answer *answers,
                             quern_error *err)
{
    quern_status status =
        qn_tables_queue_no(editing->conn, editing->list->queue, false, &editing->queue_no, err);
    for (size_t i = 0; status == QUERN_OK && i < editing->list->count; i++) {
        status = edit_task(editing, editing->list->items[i].id, err);
        answers[i] = editing->answer;
    }
    return status;
}

quern_status qn_sqlite_edit(struct qn_broker *broker, const struct qn_edit_list *list,
                            struct qn_edit_answer *answers, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct editing editing = {.list = list};
    editing.shift_ms = qn_delay_clock_shift_ms(self, &editing.now_ms);
    quern_status status = qn_transaction_begin(self, false, &editing.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = edit_all(&editing, answers, err);
    if (status == QUERN_OK) {
        status = qn_transaction_commit(self, err);
    } else {
        qn_transaction_rollback(self);
    }
    if (status == QUERN_OK && editing.wake) {
        qn_waiters_wake(self);
    }
    if (status == QUERN_OK && list->count == QN_BULK_MAX) {
        qn_conn_give_way(); /* the caller continues with others */
    }
    return status;
}
