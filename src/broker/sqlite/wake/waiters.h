/* SPDX-License-Identifier: MIT */
/* waiters.h - all that wait on this file: the directory of sockets, cached while it does
 * not change. */
#ifndef QN_BROKER_SQLITE_WAKE_WAITERS_H
#define QN_BROKER_SQLITE_WAKE_WAITERS_H

#include "broker/sqlite/sqlite.h"

void qn_waiters_init(struct qn_waiters *waiters);
void qn_waiters_finish(struct qn_waiters *waiters);
/* In memory: makes a pair of sockets and enters its sending end in the list of the database; false
 * with errno set when none can be created. */
QUERN_NODISCARD bool qn_waiters_join(struct qn_memory *memory, char kind, int *ret_fd,
                                     struct qn_memory_socket *sender);
/* Takes it out of the list, if it is there, and closes it. */
void qn_waiters_leave(struct qn_memory *memory, struct qn_memory_socket *sender);
/* Whether messages of kind 'e' found no room since the last call. */
bool qn_waiters_take_lost(struct qn_memory *memory, struct qn_memory_socket *sender);
/* Wakes all workers that wait on this file. Call it after the commit, never inside a transaction.
 */
void qn_waiters_wake(struct qn_sqlite *self);
/* For clients that wait for the end of a task: these have ended. After the commit. */
void qn_waiters_report_ends(struct qn_sqlite *self, const struct qn_notices *ends);
void qn_waiters_report_any_end(struct qn_sqlite *self); /* it is not known which */
/* Sends a command (broker/command/command.h) to all workers of this file. */
void qn_waiters_command(struct qn_sqlite *self, const char *text);
/* Asks all workers of this file to cancel a run; lost messages are made good by extend, which
 * reads quern_task.cancel. After the commit. */
void qn_waiters_cancel(struct qn_sqlite *self, const char *queue, const char *id,
                       enum qn_cancel cancel);

#endif
