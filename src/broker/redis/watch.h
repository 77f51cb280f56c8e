/* SPDX-License-Identifier: MIT */
/* watch.h - how a worker hears of news: a pair of connections that are one unit.
 *
 * Arm reads the keys on the lane TRACKED, whose invalidations the server redirects to the listener,
 * which is also subscribed to the channel of cancellations. The tracked connection is told the
 * listener's id; a new connection on either side makes that void, and the next arm says it again
 * before it reads. Where the server refuses tracking, wait says "look" from time to time instead.
 *
 * Locks: a lane's, then this one's. */
#ifndef QN_BROKER_REDIS_WATCH_H
#define QN_BROKER_REDIS_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/random.h"
#include "broker/redis/link.h"

struct qn_redis;

struct qn_watch {
    int interrupt_fd; /* an eventfd, from init to finish, so that interrupt needs no lock */
    _Atomic bool interrupted;
    pthread_mutex_t mutex; /* guards the rest, but not while the listener polls */
    struct qn_link listener;
    struct qn_arena arena;     /* of what the listener reads */
    int64_t listener_id;       /* the server's name for it */
    uint64_t told_by;          /* the tracked connection (opened_count) that was told ... */
    uint64_t told_of;          /* ... to redirect to this one; 0: none was */
    bool polls;                /* the server refuses tracking to us */
    char refusal[128];         /* why; "" while that is not known */
    int64_t heard_at_mono_ns;  /* when the listener last said anything */
    int64_t pinged_at_mono_ns; /* 0: no answer is waited for */
    struct qn_random random;   /* for the pace of polling */
    char **queues;             /* those that were armed or announced last */
    size_t queue_count;
    char cancel_id[257]; /* asked for by a message that was not dealt with; "": none */
    size_t cancel_from;  /* the queues before this one were dealt with */
};

QUERN_NODISCARD quern_status qn_watch_init(struct qn_watch *watch,
                                           const struct qn_link_target *target, quern_error *err);
void qn_watch_finish(struct qn_watch *watch);
/* The queues in which a cancelled task is looked for. Out of memory it keeps those it had. */
void qn_watch_serve(struct qn_watch *watch, const char *const *queues, size_t queue_count);
/* "tracking", "polling: <why>", or "not known yet"; in the caller's buffer. */
void qn_watch_describe(struct qn_watch *watch, char *text, size_t size);

#endif
