/* SPDX-License-Identifier: MIT */
/* wait.h - the sockets of a broker object that waits. */
#ifndef QN_BROKER_SQLITE_WAKE_WAIT_H
#define QN_BROKER_SQLITE_WAKE_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/sqlite/wake/waiters.h"
#include "quern/status.h"

struct qn_sqlite;

struct qn_waiter {
    pthread_mutex_t mutex; /* guards making and arming them */
    bool ready;
    bool deaf;             /* ready without sockets: the directory is another user's */
    bool armed;            /* set by arm, cleared by the wake-up */
    int64_t armed_version; /* data_version at arm; 0: not known */
    int64_t looked_at_ns;  /* when it was compared last */
    int epoll_fd;
    int interrupt_fd; /* an eventfd, from open to finish, so that interrupt needs no lock */
    int dir_fd;
    int lock_fd;
    int wake_fd;
    int control_fd;
    char id[QN_WAITER_ID_SIZE]; /* names the sockets and the lock file */
};

void qn_wait_init(struct qn_waiter *waiter);
/* Makes what interrupts a wait; the sockets are made by the first one that arms or waits. */
QUERN_NODISCARD quern_status qn_wait_open(struct qn_sqlite *self, quern_error *err);
/* Removes the sockets. */
void qn_wait_close(struct qn_sqlite *self);
void qn_wait_finish(struct qn_waiter *waiter);

#endif
