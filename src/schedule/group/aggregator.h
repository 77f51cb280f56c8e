/* SPDX-License-Identifier: MIT */
/* aggregator.h - the loop that aggregates the groups of some queues, one set at a time.
 *
 * Threads: one runs qn_aggregator_run; another extends the lease of the set, and a third checks the
 * timeout. Ending is in steps: stop (no new set), cancel, give_up (the set goes back, also while
 * the aggregator still runs), and end (run returns as soon as it can). */
#ifndef QN_SCHEDULE_GROUP_AGGREGATOR_H
#define QN_SCHEDULE_GROUP_AGGREGATOR_H

#include <pthread.h>

#include "base/log.h"
#include "base/random.h"
#include "schedule/group/aggregation.h"
#include "schedule/group/group_rest.h"
#include "schedule/group/group_table.h"

struct qn_launcher;

struct qn_aggregator_spec {
    struct qn_broker *broker;
    const struct quern_clock *clock;
    const struct qn_group_table *table; /* not empty */
    struct qn_names queues;
    const char *worker_id; /* its first heartbeat came before */
    int64_t lease_ms;
    bool ignores_rests;           /* a group that rests is no reason to wait */
    struct qn_launcher *launcher; /* for aggregators that are commands; see pool/exec/spawn.h */
    struct qn_log *log;
    /* Whether new sets may be taken now. */
    bool (*may_take)(void *user);
    /* After a call of `aggregate`, but for one that worked while another queue fails: returns until
     * when to wait, CLOCK_MONOTONIC; 0: go on. */
    int64_t (*on_answer)(quern_status status, const quern_error *error, void *user);
    void (*on_unusable)(const struct qn_unusable *unusable, void *user);
    void (*on_settled)(void *user); /* a set has ended: a shutdown may wait for that */
    void *user;
};

struct qn_aggregator_queue;

struct qn_aggregator {
    struct qn_aggregator_spec spec;
    struct qn_aggregator_queue *queues; /* owned; as below, of the thread of run */
    size_t first;                       /* the queue that the next round begins with */
    struct qn_group_rests *rests;       /* owned */
    struct qn_stamp stamp;
    struct qn_id_source ids;

    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t cond;
    struct quern_aggregation *current; /* NULL: no set is held */
    size_t pins;                       /* calls of the broker that use the set of `current` */
    bool lost;                         /* the lease of `current` */
    bool given_up;                     /* `current` was given back by give_up */
    bool stopped;
    bool ended;
    bool finished; /* run has returned */
    bool look;     /* there may be something to do */
    int64_t empty_round_began_mono_ns;
};

/* Copies the spec. QUERN_E_NOMEM. */
QUERN_NODISCARD quern_status qn_aggregator_init(struct qn_aggregator *aggregator,
                                                const struct qn_aggregator_spec *spec,
                                                quern_error *err);
void qn_aggregator_finish(struct qn_aggregator *aggregator);
/* Returns after end. */
void qn_aggregator_run(struct qn_aggregator *aggregator);

/* All below: any thread, without locks of the caller that its callbacks take. */

/* Makes a sleeping run look at the groups again. */
void qn_aggregator_wake(struct qn_aggregator *aggregator);
/* Extends the lease of the set that is held. */
QUERN_NODISCARD quern_status qn_aggregator_extend(struct qn_aggregator *aggregator,
                                                  quern_error *err);
/* Cancels an aggregator whose timeout is over. */
void qn_aggregator_check_timeout(struct qn_aggregator *aggregator);
/* The beginning of the latest full round in which no task waited and no set was made; 0: the latest
 * was none. CLOCK_MONOTONIC. */
int64_t qn_aggregator_empty_since(struct qn_aggregator *aggregator);
/* Whether a set is held that was not given up. */
bool qn_aggregator_is_busy(struct qn_aggregator *aggregator);
void qn_aggregator_stop(struct qn_aggregator *aggregator);
void qn_aggregator_cancel(struct qn_aggregator *aggregator);
/* Gives back the set that is held; false: none was. */
bool qn_aggregator_give_up(struct qn_aggregator *aggregator);
void qn_aggregator_end(struct qn_aggregator *aggregator);
/* Waits until run is about to return; false: an aggregator that was given up still runs. */
bool qn_aggregator_wait(struct qn_aggregator *aggregator, int64_t until_mono_ns);

#endif
