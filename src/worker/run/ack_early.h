/* SPDX-License-Identifier: MIT */
/* ack_early.h - writes the outcome before the run, for handlers with QUERN_ACK_EARLY. */
#ifndef QN_WORKER_RUN_ACK_EARLY_H
#define QN_WORKER_RUN_ACK_EARLY_H

#include <pthread.h>
#include <stdbool.h>

#include "broker/broker.h"

struct quern_run;
struct quern_worker;

struct qn_early_acks {
    pthread_mutex_t mutex; /* guards stamp: early acks go one by one */
    struct qn_stamp stamp;
};

/* On the handler's thread. True: done is confirmed; else the run must not start. */
bool qn_ack_early_confirm(struct quern_worker *worker, struct quern_run *run);

#endif
