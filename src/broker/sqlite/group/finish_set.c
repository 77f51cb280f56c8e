/* SPDX-License-Identifier: MIT */
/* finish_set.c - stores what was made of a set, and removes its members, in one transaction.
 *
 * The lease ends first: without it nothing else is done. The members and their locks go before the
 * task is stored, which may have the key or the id of one of them. If it cannot be stored, all of
 * that is undone. */
#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/group/group.h"
#include "broker/sqlite/group/group_sql.h"
#include "broker/sqlite/run/enqueue.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/session.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"

struct finishing {
    struct qn_sqlite *sqlite;
    struct qn_conn *conn;
    int64_t now_ms;
    bool wake;
};

static quern_status remove_members(struct qn_conn *conn, const struct qn_group_set *set,
                                   quern_error *err)
{
    int64_t queue_no = 0;
    quern_status status = qn_tables_queue_no(conn, set->queue, false, &queue_no, err);
    for (size_t i = 0; status == QUERN_OK && i < set->count; i++) {
        const struct qn_task *task = &set->members[i]->task;
        status = qn_tables_unlock(conn, task->unique_key, queue_no, task->id, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_set_delete_members);
    qn_query_int(&query, set->row);
    return qn_query_run(&query, NULL, err);
}

static const char *why_not(quern_status result)
{
    switch ((int)result) {
    case QUERN_E_DUPLICATE:
        return "another one has its unique lock";
    case QUERN_E_CONFLICT:
        return "there is one with its id";
    case QUERN_E_FULL:
        return "its queue is full";
    default:
        return "it was not stored";
    }
}

static quern_status store_task(struct finishing *self, const struct qn_finish_set *finish,
                               quern_error *err)
{
    struct qn_arena arena = {0};
    struct qn_stored stored = {.arena = &arena};
    if (finish->task == NULL || QN_BUG(SET_WITHOUT_TASK)) {
        return QUERN_OK;
    }
    quern_status status = qn_enqueue_store(self->sqlite, self->conn, finish->task, &stored, err);
    if (status == QUERN_OK && stored.result != QUERN_OK) {
        status = qn_error_set(err, stored.result, "the task that was made of the group \"%s\": %s",
                              finish->set->group, why_not(stored.result));
    }
    self->wake = self->wake || stored.wake;
    qn_arena_finish(&arena);
    return status;
}

static quern_status finish_in(struct finishing *self, const struct qn_finish_set *finish,
                              quern_error *err)
{
    const uint8_t done = 1;
    bool ended = false;
    quern_status status = qn_set_end(self->conn, finish->set->row, NULL, &ended, err);
    if (status == QUERN_OK && !ended && !QN_BUG(SET_UNFENCED)) {
        status = qn_set_stale(finish->set, err);
    }
    if (status == QUERN_OK) {
        status = remove_members(self->conn, finish->set, err);
    }
    if (status == QUERN_OK) {
        status = store_task(self, finish, err);
    }
    if (status == QUERN_OK) {
        status = qn_sqlite_session_keep(self->conn, finish->stamp, self->now_ms,
                                        (struct qn_bytes){&done, sizeof done}, err);
    }
    return status;
}

static void report_ends(struct qn_sqlite *self, const struct qn_group_set *set)
{
    struct qn_notices ends = {.count = 0};
    for (size_t i = 0; i < set->count; i++) {
        qn_notices_add(&ends, qn_notices_task(set->queue, set->members[i]->task.id));
    }
    qn_waiters_report_ends(self, &ends);
}

quern_status qn_sqlite_finish_set(struct qn_broker *broker, const struct qn_finish_set *finish,
                                  quern_error *err)
{
    struct finishing self = {.sqlite = qn_sqlite_of(broker),
                             .now_ms = qn_clock_wall_ms(broker->clock)};
    uint8_t answer = 0;
    bool known = false;
    QN_ASSERT(finish->task == NULL || finish->task->queue != NULL);
    quern_status status = qn_transaction_begin(self.sqlite, false, &self.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_sqlite_session_find(self.conn, finish->stamp,
                                    (struct qn_room){.data = &answer, .size = sizeof answer},
                                    &known, err);
    if (status == QUERN_OK && !known) {
        status = finish_in(&self, finish, err);
    }
    if (status == QUERN_OK && !known) {
        status = qn_transaction_commit(self.sqlite, err);
    } else {
        qn_transaction_rollback(self.sqlite);
    }
    if (status == QUERN_OK && (self.wake || known)) {
        qn_waiters_wake(self.sqlite);
    }
    if (status == QUERN_OK) {
        report_ends(self.sqlite, finish->set);
    }
    return status;
}
