/* SPDX-License-Identifier: MIT */
/* deaths.h - ends runs that have no outcome of their own; the rules are in task/deaths.h. */
#ifndef QN_BROKER_SQLITE_QUEUE_DEATHS_H
#define QN_BROKER_SQLITE_QUEUE_DEATHS_H

#include "broker/sqlite/queue/queue_counters.h"
#include "task/deaths.h"

/* A run whose process died, or whose lease has expired. */
struct qn_end {
    int64_t seq;
    uint64_t token;
    bool started;
    bool is_death; /* false: no task is charged with it */
    bool is_lone;
    bool is_child;         /* the process was a child or a command */
    bool is_spent;         /* its handler's options leave no attempt, whatever the task says */
    int64_t started_at_ms; /* wall clock */
    int64_t seen_at_ms;    /* the latest heartbeat of its worker; 0: it has died just now */
    int64_t ok_at_ms;      /* of its queue on the host where it died */
    quern_cause cause;
    const char *error;   /* NULL: none */
    struct qn_bytes run; /* its entry (task/past_runs.h); empty: it is not noted */
};
struct qn_ended {
    bool held; /* false: the lease was not valid any more, and nothing was changed */
    bool charged;
    bool archived; /* as poison, or because it has no attempts left */
};
/* Ends it. The caller updates the brake. */
QUERN_NODISCARD quern_status qn_deaths_end(struct qn_queue_counters *counters,
                                           struct qn_counted_queue *queue, const struct qn_end *end,
                                           struct qn_ended *ret_ended, quern_error *err);

#endif
