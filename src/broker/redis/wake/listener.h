/* SPDX-License-Identifier: MIT */
/* listener.h - how a worker receives notices: a pair of connections that are one unit.
 *
 * Arm reads the keys on the channel TRACKED. The server redirects its invalidations to the
 * listener, which is also subscribed to the channels of cancellations and of commands. The
 * redirection names the listener's id; a new connection on either side ends it, and the next arm
 * orders it again before it reads. If the server refuses tracking, wait returns from time to time
 * instead, to have the queues read. If it has no room for the pair, arm reads by the connection of
 * the pump, and wait fails.
 *
 * Locks: a channel's, then this one's. */
#ifndef QN_BROKER_REDIS_WAKE_LISTENER_H
#define QN_BROKER_REDIS_WAKE_LISTENER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory/arena.h"
#include "base/random.h"
#include "broker/notices.h"
#include "broker/redis/wake/wake_state.h"
#include "redis/connection.h"
#include "task/limits.h"

#define QN_REFUSAL_SIZE 160

#define QN_EARS_MAX 64 /* a worker serves no more queues, so it needs no more nodes */

/* The connection that receives notices of one server, and its counterpart there. */
struct qn_redis_ear {
    int node; /* of a cluster (cluster.h); one server: 0 */
    struct qn_connection connection;
    struct qn_arena arena;       /* of what it reads */
    int64_t listener_id;         /* the server's name for it */
    uint64_t redirects_from;     /* the tracked connection (opened_count) that redirects ... */
    uint64_t redirects_to;       /* ... its notices to this one (opened_count) */
    int tracked_fd;              /* of that connection; -1: its end is of no interest */
    int64_t received_at_mono_ns; /* when it last received anything */
    bool pinged;                 /* and was asked to since */
    bool takes_cancellations;    /* and commands; a node of a cluster reports those of all, so
                                  * one is enough */
};

struct qn_redis_listener {
    int interrupt_fd; /* an eventfd, from init to finish, so that interrupt needs no lock */
    _Atomic bool interrupted;
    pthread_mutex_t mutex;                  /* guards the rest, but not while the listener polls */
    struct qn_failover *failover;           /* of the one server */
    struct qn_cluster *cluster;             /* NULL: one server */
    uint64_t armed_epoch;                   /* of the map when arm last read */
    struct qn_redis_ear *ears[QN_EARS_MAX]; /* one server: one; else those that arm needs */
    size_t ear_count;
    struct qn_wake_state state;
    char refusal[QN_REFUSAL_SIZE]; /* why it polls or has no pair; "": nothing is refused */
    bool no_cancellations;         /* set by watch: they are for workers */
    struct qn_notices *notices;    /* of await, while it waits; else NULL */
    int64_t due_at_ms;             /* of delayed tasks, as the last arm saw them; wall clock */
    int64_t pair_at_mono_ns;       /* where there is no pair: when arm tries again */
    struct qn_random random;       /* for the pace of polling */
    char cancel_id[QN_NAME_SIZE_MAX + 1]; /* requested, and not yet handled; "": none */
    size_t cancel_from;                   /* the served queues before this one were dealt with */
};

/* cluster: NULL on one server. */
QUERN_NODISCARD quern_status qn_redis_listener_init(struct qn_redis_listener *listener,
                                                    struct qn_failover *failover,
                                                    struct qn_cluster *cluster, quern_error *err);
void qn_redis_listener_finish(struct qn_redis_listener *listener);
/* With mutex held: the ear at this node, connected and subscribed. */
QUERN_NODISCARD quern_status qn_redis_listener_connect(struct qn_redis_listener *listener, int node,
                                                       struct qn_redis_ear **ret_ear,
                                                       quern_error *err);
/* With mutex held, on a cluster: closes the ears at other nodes than these. Where none of the
 * others receives cancellations, also one that will be opened again and then does. */
void qn_redis_listener_keep(struct qn_redis_listener *listener, const int *nodes, size_t count);
/* With mutex held: closes those at a server in whose place another one was chosen, which may answer
 * all the same. Whether there was one: then notices may have been missed. */
bool qn_redis_listener_leave(struct qn_redis_listener *listener);
/* With mutex held: the ear at this node; NULL: none. */
struct qn_redis_ear *qn_redis_listener_ear(struct qn_redis_listener *listener, int node);
/* With mutex held: notes the command that the server refuses, and that wake-ups cannot come. */
void qn_redis_listener_note_refusal(struct qn_redis_listener *listener, const char *command,
                                    const char *words);
/* Handles the result of a poll: wakes the listener if the last arm saw less, and no notice came
 * since. Both moments by the wall clock. */
void qn_redis_listener_compare(struct qn_redis_listener *listener, bool work,
                               int64_t next_due_at_ms, int64_t now_ms);
/* Makes a wait in progress check the listener again. Async-signal-safe. */
void qn_redis_listener_kick(struct qn_redis_listener *listener);
/* Why this user has to poll, as the last arm found; "": the server sends notices. */
void qn_redis_listener_refusal(struct qn_redis_listener *listener, char refusal[QN_REFUSAL_SIZE]);

#endif
