/* SPDX-License-Identifier: MIT */
/* waiters.h - the workers that wait on this file: the directory of sockets, cached while it does
 * not change. */
#ifndef QN_BROKER_SQLITE_WAKE_WAITERS_H
#define QN_BROKER_SQLITE_WAKE_WAITERS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "broker/sqlite/sqlite.h"

void qn_waiters_init(struct qn_waiters *waiters);
void qn_waiters_finish(struct qn_waiters *waiters);
/* In memory only: makes the sockets of self's waiter and enters it in the list of the database;
 * false with errno set when there are none to be had. */
QUERN_NODISCARD bool qn_waiters_join(struct qn_sqlite *self);
/* Takes it out of the list if it is there. */
void qn_waiters_leave(struct qn_sqlite *self);
/* Wakes all workers that wait on this file. Call it after the commit, never inside a transaction.
 */
void qn_waiters_wake(struct qn_sqlite *self);
/* Asks all workers of this file to cancel a run; lost messages are made good by extend, which
 * reads quern_task.cancel. After the commit. */
void qn_waiters_cancel(struct qn_sqlite *self, const char *queue, const char *id,
                       enum qn_cancel cancel);
/* "/proc/self/fd/N/ID.kind": an address that is short enough for any path of the file. */
void qn_waiters_address(int dir_fd, const char *id, const char *kind,
                        struct sockaddr_un *ret_address);

#endif
