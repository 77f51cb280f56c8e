/* SPDX-License-Identifier: MIT */
/* watch.h - the pair of connections that hears of news: one reads the keys (arm) and has its
 * invalidations redirected to the other, which listens to them and to the channel of cancellations.
 * They are one unit: if either dies both are opened again. */
#ifndef QN_BROKER_REDIS_WATCH_H
#define QN_BROKER_REDIS_WATCH_H

#include <pthread.h>

#include "broker/redis/link.h"

struct qn_watch {
    pthread_mutex_t mutex; /* guards the rest, but not while the listener polls */
    struct qn_link tracked;
    struct qn_link listener;
    int interrupt_fd; /* an eventfd, from open to close, so that interrupt needs no lock */
};
QUERN_NODISCARD quern_status qn_watch_init(struct qn_watch *watch,
                                           const struct qn_link_target *target, quern_error *err);
void qn_watch_finish(struct qn_watch *watch);

#endif
