/* SPDX-License-Identifier: MIT */
/* insert.h - writes the row of a new task. */
#ifndef QN_BROKER_SQLITE_RUN_INSERT_INSERT_H
#define QN_BROKER_SQLITE_RUN_INSERT_INSERT_H

#include "broker/sqlite/store/conn.h"
#include "task/task.h"

struct qn_insertion {
    const struct qn_task *task;
    int64_t number; /* of the counter */
    int64_t queue_no;
    int64_t lanes; /* of the queue */
    int64_t now_ms;
    int64_t due_boot_ms; /* of a delay; 0: it has none */
};
/* Whether quern_queue.terms must be set before such a task is leased. */
bool qn_insert_has_terms(const struct qn_task *task);
/* *ret_stored: false: there is a task with this id in the queue. */
QUERN_NODISCARD quern_status qn_insert_task(struct qn_conn *conn,
                                            const struct qn_insertion *insertion, bool *ret_stored,
                                            quern_error *err);

#endif
