/* SPDX-License-Identifier: MIT */
/* health.h - whether the worker lives and can fetch tasks. */
#ifndef QN_WORKER_LIVENESS_HEALTH_H
#define QN_WORKER_LIVENESS_HEALTH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "quern/worker.h"

struct qn_health {
    pthread_mutex_t mutex;   /* guards the array; taken after all others */
    _Atomic bool started;    /* its threads run; its record is at the broker */
    int64_t made_at_mono_ns; /* constant */
    struct {
        bool is_known;
        bool ok;
        int64_t since_mono_ns;
    } checks[QUERN_WORKER_CHECKS_MAX];
};

/* Of the thread of quern_worker_run. */
struct qn_health_watch {
    bool is_known;
    bool stalled;
    quern_worker_health latest;
    int64_t at_mono_ns;
};

void qn_health_init(struct quern_worker *worker);
void qn_health_finish(struct quern_worker *worker);
/* Calls on_health when something has changed, and logs when the worker stalls and when that ends.
 * Returns after how many ms to call it again. */
int64_t qn_health_watch(struct quern_worker *worker, struct qn_health_watch *watch);

#endif
