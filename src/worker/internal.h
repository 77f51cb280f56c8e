/* SPDX-License-Identifier: MIT */
/* internal.h - the worker itself: the part that its rooms share. Each room declares its own part
 * beside the functions that use it: fetch/pump.h, keeper/keeper.h, run/run_table.h, signals.h.
 *
 * Locks, always taken in this order: pump.step_mutex (its owner is the pump), pump.plan_mutex (the
 * plans of both pumps; free while an exchange is in flight), mutex (the run table and all flags),
 * then the pool's own. No function of the broker is called with `mutex` held. */
#ifndef QN_WORKER_INTERNAL_H
#define QN_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/owner.h"
#include "message/id.h"
#include "pool/pool.h"
#include "quern/worker.h"
#include "schedule/group/aggregator.h"
#include "task/limits.h"
#include "worker/backoff.h"
#include "worker/fetch/pump.h"
#include "worker/hand_over/hand_over.h"
#include "worker/keeper/keeper.h"
#include "worker/liveness/beats.h"
#include "worker/liveness/health.h"
#include "worker/measure/measure.h"
#include "worker/policy/failure.h"
#include "worker/run/ack_early.h"
#include "worker/run/run_table.h"
#include "worker/run/shortage.h"
#include "worker/run/steer/steer.h"
#include "worker/run/supply.h"
#include "worker/signals.h"

static inline int64_t qn_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

enum qn_worker_state { QN_WORKER_NEW, QN_WORKER_RUNNING, QN_WORKER_DRAINING, QN_WORKER_STOPPED };

/* The groups that its mux aggregates; constant while threads run. */
struct qn_worker_groups {
    bool served; /* by this worker; else nothing below is used */
    pthread_t thread;
    struct qn_aggregator aggregator;
    struct qn_backoff backoff;
};

struct quern_worker {
    /* Constant after quern_worker_new. */
    struct qn_broker *broker; /* NULL until it is there, see begin.c */
    char *url;                /* while it is not; owned */
    const quern_mux *mux;
    const struct quern_clock *clock;
    quern_worker_options options; /* defaults filled in; its queues are our copy, whose weights are
                                   * guarded by mutex */
    size_t queue_count;
    const char **queue_names;
    struct qn_queue_share *queue_shares; /* for the heartbeat, and its own while threads run */
    bool queue_found[QN_QUEUES_MAX];     /* it existed when the worker was made */
    bool queues_known;                   /* false: the broker did not answer that */
    char *queues_text;                   /* "critical=6 default=3"; the same */
    int64_t opener_pid;
    int64_t started_at_ms;
    char id[QN_ID_TEXT_SIZE];
    char owner[QN_OWNER_SIZE];
    char host[QN_NAME_SIZE_MAX + 1];
    int cgroup_fd;        /* that children and commands join; 0: none */
    bool only_aggregates; /* it leases no tasks */
    bool is_mixed;        /* prefork, with commands: these are run by threads beside the children */

    struct qn_pool *pool;         /* from run on; NULL when it was stopped */
    struct qn_prefork *prefork;   /* the same; NULL: handlers run in threads */
    struct qn_launcher *launcher; /* from run on; NULL: commands are forks of this process */
    struct qn_log log;
    struct qn_backoff_group backoffs;
    struct qn_beats beats;
    struct qn_health health;
    struct qn_measures measures;
    _Atomic int stops; /* calls of quern_worker_stop */
    _Atomic bool quiet;
    _Atomic uint32_t slots;        /* runs at a time: run/steer/resize.h; changes with mutex held */
    _Atomic bool log_runs;         /* requested by quern_worker_log_runs */
    _Atomic bool progress_posted;  /* by a run, for the keeper */
    _Atomic uint64_t lease_rounds; /* in which all leases were extended */

    struct qn_pump pump;
    struct qn_keeper keeper;
    struct qn_early_acks early_acks;
    struct qn_worker_groups groups;
    struct qn_hand_over hand_over;

    pthread_mutex_t mutex; /* guards all below */
    struct qn_signals signals;
    enum qn_worker_state state;
    struct qn_run_table run_table;
    quern_worker_stats stats;
    quern_error lost;          /* why it has to end; code QUERN_OK: it has not */
    quern_error children_gone; /* the same: its zygote has ended */
    bool fallen;               /* its zygote died: it ends as if it had been killed */
    struct qn_random random;   /* for retry delays */
    struct qn_shortage shortage;
    struct qn_steer steer;
    struct qn_supply supply;
    bool *paused;                 /* per queue, from the latest exchange */
    bool *queue_braked;           /* the same, on this host */
    bool braked;                  /* all of its queues are */
    bool look;                    /* there may be something to fetch */
    bool weights_are_new;         /* the pump has to take them over */
    bool shares_are_new;          /* the heartbeat has to */
    bool has_recovered;           /* recovery of its queues was tried once */
    bool owes;                    /* there may be leases of ours that are not in the run table */
    bool clearing;                /* nothing starts: a task that must be alone comes next */
    bool heartbeat_due;           /* the status changed */
    int64_t due_known_at_mono_ns; /* when the pump last asked which task is due next */
};

static inline uint32_t qn_worker_slots(const struct quern_worker *worker)
{
    return atomic_load(&worker->slots);
}

static inline struct qn_names qn_worker_names(const struct quern_worker *worker)
{
    return (struct qn_names){worker->queue_names, worker->queue_count};
}

static inline struct qn_failure_defaults qn_worker_defaults(const struct quern_worker *worker)
{
    return (struct qn_failure_defaults){.retry = worker->options.retry,
                                        .ack_on_failure = worker->options.ack_on_failure,
                                        .ack_on_timeout = worker->options.ack_on_timeout};
}

#endif
