/* SPDX-License-Identifier: MIT */
/* lifecycle.h - the states of a task and the moves between them, as a table.
 *
 *            enqueue                          enqueue with delay            enqueue with group
 *               |                                    |                             |
 *               v            due                     v      due, in a group        v
 *   +------> pending <------------------------- scheduled -----------------> aggregating
 *   |           |  ^                                                                |
 *   | give-back |  +-- run by hand -- (scheduled, retry, archived, completed, aggregating)
 *   | or death  v
 *   +-------- active ---- failed or snoozed ----> retry ---- due ----> pending
 *               |  \------ out of attempts, poison, deadline -----> archived
 *               |---------- done, with retention -----------------> completed
 *               +---------- done or dropped ----------------------> deleted
 *
 * If you add a state: quern_task_state in quern/task.h, schema.sql (with a migration), the table in
 * lifecycle.c, docs/protocol. */
#ifndef QN_TASK_LIFECYCLE_H
#define QN_TASK_LIFECYCLE_H

#include <stdbool.h>

#include "quern/status.h"
#include "quern/task.h"

bool qn_lifecycle_may_become(quern_task_state from, quern_task_state to);
bool qn_lifecycle_may_delete(quern_task_state from);
/* Whether an operator may do this to a task in that state. */
bool qn_lifecycle_allows(quern_task_state state, quern_action action);
/* "run", "archive", "delete", "cancel" */
const char *qn_lifecycle_verb(quern_action action);
/* QUERN_E_STATE, and why a task in that state does not allow it. id NULL: many tasks. */
quern_status qn_lifecycle_refuse(quern_action action, quern_task_state state, const char *id,
                                 quern_error *err);
/* 0 when the name is no state. */
quern_task_state qn_lifecycle_parse(const char *name);

/* The error for an operation on an id without a queue, when two queues have a task with this id. */
quern_status qn_lifecycle_refuse_several(const char *id, const char *queue, const char *other_queue,
                                         quern_error *err);

#endif
