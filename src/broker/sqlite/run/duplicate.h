/* SPDX-License-Identifier: MIT */
/* duplicate.h - what becomes of a unique task when an equal one holds its lock. */
#ifndef QN_BROKER_SQLITE_RUN_DUPLICATE_H
#define QN_BROKER_SQLITE_RUN_DUPLICATE_H

#include "base/memory/arena.h"
#include "broker/sqlite/store/conn.h"
#include "task/task.h"

/* The new task, which has a unique_key, and what holds in its transaction. */
struct qn_newcomer {
    const struct qn_task *task;
    int64_t queue_no;
    int64_t now_ms;
    int64_t due_boot_ms; /* its own, if it is delayed */
    struct qn_arena *arena;
};

/* *ret_holder: the id of the task that holds the lock and stands for the new one, in the arena;
 * *ret_result: the caller's result. NULL: the new task is to be stored, and then to take the lock.
 */
QUERN_NODISCARD quern_status qn_duplicate_settle(struct qn_conn *conn,
                                                 const struct qn_newcomer *newcomer,
                                                 const char **ret_holder, quern_status *ret_result,
                                                 quern_error *err);
QUERN_NODISCARD quern_status qn_duplicate_take_lock(struct qn_conn *conn,
                                                    const struct qn_newcomer *newcomer,
                                                    quern_error *err);

#endif
