/* SPDX-License-Identifier: MIT */
/* dispatch.h - delivers the notices of a broker to the threads that wait for tasks on a client. */
#ifndef QN_CLIENT_DISPATCH_H
#define QN_CLIENT_DISPATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/memory/list.h"
#include "broker/broker.h"

#define QN_DISPATCH_BUCKETS 256 /* with thousands of threads, a notice compares few of them */

/* One per client. */
struct qn_dispatch {
    pthread_mutex_t mutex;   /* guards the rest, and all members of the waiters */
    bool led;                /* a thread awaits notices in the broker */
    struct qn_list sleeping; /* of struct qn_waiting, those that a leader serves */
    struct qn_list buckets[QN_DISPATCH_BUCKETS]; /* of struct qn_waiting, by task */
};

/* A thread that waits for one task; on its stack. */
struct qn_waiting {
    struct qn_list in_bucket;
    struct qn_list in_sleeping;
    pthread_cond_t woken;
    uint64_t task; /* qn_notices_task */
    bool noticed;
};

void qn_dispatch_init(struct qn_dispatch *dispatch);
void qn_dispatch_finish(struct qn_dispatch *dispatch);
/* Between join and leave, notices of the task are noted for this thread. */
void qn_dispatch_join(struct qn_dispatch *dispatch, struct qn_waiting *waiting, uint64_t task);
void qn_dispatch_leave(struct qn_dispatch *dispatch, struct qn_waiting *waiting);
/* Before the task is watched and read: what comes from now on ends the await below. */
void qn_dispatch_reset(struct qn_dispatch *dispatch, struct qn_waiting *waiting);
/* Blocks until there is a notice of the task (true), or until that moment. */
bool qn_dispatch_await(struct qn_dispatch *dispatch, struct qn_waiting *waiting,
                       struct qn_broker *broker, int64_t until_mono_ns);

#endif
