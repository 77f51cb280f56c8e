/* SPDX-License-Identifier: MIT */
/* waiters.h - who waits on this file: the directory of sockets, remembered while it does not
 * change. */
#ifndef QN_BROKER_SQLITE_WAKE_WAITERS_H
#define QN_BROKER_SQLITE_WAKE_WAITERS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "broker/broker.h"

#define QN_WAITER_ID_SIZE 33 /* 32 hexadecimal digits */

struct qn_sqlite;

struct qn_waiters {
    pthread_mutex_t mutex; /* guards all of it */
    int dir_fd;            /* -1: not open; there is no directory before the first waiter */
    int send_fd;           /* an unbound datagram socket; -1 until needed */
    int64_t changed_at_ns; /* mtime of the directory when it was read; -1: read it again */
    char (*ids)[QN_WAITER_ID_SIZE];
    size_t count;
    size_t capacity;
};

void qn_waiters_init(struct qn_waiters *waiters);
void qn_waiters_finish(struct qn_waiters *waiters);
/* Wakes all workers that wait on this file. Call it after the commit, never inside a transaction.
 */
void qn_waiters_wake(struct qn_sqlite *self);
/* Asks all workers of this file to cancel a run; lost messages are made good by extend, which
 * reads quern_task.cancel. After the commit. */
void qn_waiters_cancel(struct qn_sqlite *self, const char *queue, const char *id,
                       enum qn_cancel cancel);
/* "/proc/self/fd/N/ID.kind": an address that is short enough whatever the path of the file is. */
void qn_waiters_address(int dir_fd, const char *id, const char *kind,
                        struct sockaddr_un *ret_address);

#endif
