/* SPDX-License-Identifier: MIT */
/* queue_counters.h - the state and the counters of each queue in one transaction, written once at
 * its end.
 *
 * Exchange and recover end runs, and both count them here. */
#ifndef QN_BROKER_SQLITE_QUEUE_QUEUE_COUNTERS_H
#define QN_BROKER_SQLITE_QUEUE_QUEUE_COUNTERS_H

#include "broker/past/run_entry.h"
#include "broker/sqlite/sqlite.h"
#include "task/brake.h"

enum qn_solo_state { QN_SOLO_FREE = 0, QN_SOLO_OURS, QN_SOLO_OTHERS };

/* Wall clock. */
struct qn_solo_lock {
    enum qn_solo_state state;
    int64_t since_ms; /* also of the one that was returned last */
    int64_t until_ms;
    int64_t rest_ms;
};

struct qn_counted_queue {
    const char *name; /* borrowed from the request */
    int64_t no;       /* 0: there is no such queue */
    bool paused;
    bool changed; /* has something to be written */
    int64_t processed;
    int64_t failed;
    struct qn_solo_lock solo; /* written by the code that changes it, see solo.h */
    struct qn_brake brake;    /* on the host of the counters; all zero without one */
    bool brake_changed;
    int64_t limits;        /* the kinds of limits that it has, see meter.h; usually 0 */
    int64_t lanes;         /* its tasks have lanes, see run/limits/lanes.h; usually 0 */
    int64_t sort;          /* not all of them have theirs, see run/limits/sort.c; usually 0 */
    bool terms;            /* tasks of it may have terms, see run/lease.sql; usually false */
    int64_t limit_wait_ms; /* when a limit lets a task run that waits for it; 0: none does */
    int64_t due_at_ms;     /* its earliest delayed task; -1: not looked up */
};

struct qn_queue_counters {
    struct qn_conn *conn;
    int64_t now_ms;        /* wall clock */
    int64_t now_boot_ms;   /* of an exchange */
    int64_t shift_ms;      /* qn_delay_clock_shift_ms; for delays */
    const char *host;      /* whose brakes are meant; NULL: of none */
    const char *worker_id; /* whose solo locks are ours; NULL: of none */
    struct qn_run_reporter reporter;
    bool is_leaving; /* the worker: no end of its runs proves anything */
    struct qn_counted_queue *queues;
    size_t count;
    size_t capacity;
    bool wake;              /* something was done that a sleeping worker wants to know */
    struct qn_notices ends; /* tasks that have ended, for clients that wait for them */
};

void qn_queue_counters_init(struct qn_queue_counters *counters, struct qn_conn *conn,
                            int64_t now_ms);
void qn_queue_counters_finish(struct qn_queue_counters *counters);
/* Finds the queue or reads it in. *ret_queue is valid until the next call. */
QUERN_NODISCARD quern_status qn_queue_counters_queue(struct qn_queue_counters *counters,
                                                     const char *name,
                                                     struct qn_counted_queue **ret_queue,
                                                     quern_error *err);
/* Adds to the counters of the queue. */
void qn_queue_counters_count(struct qn_counted_queue *queue, int64_t processed, int64_t failed);
/* A run that had started ended otherwise than by a death: the brake is released. */
void qn_queue_counters_release(struct qn_queue_counters *counters, struct qn_counted_queue *queue);
/* A run ended: another one may have its place. */
void qn_queue_counters_free_place(struct qn_queue_counters *counters,
                                  const struct qn_counted_queue *queue);
/* A task will become due; wakes sleepers if it is before all others of its queue. */
QUERN_NODISCARD quern_status qn_queue_counters_due(struct qn_queue_counters *counters,
                                                   struct qn_counted_queue *queue, int64_t at_ms,
                                                   quern_error *err);
/* Writes the counters. */
QUERN_NODISCARD quern_status qn_queue_counters_write(struct qn_queue_counters *counters,
                                                     quern_error *err);

#endif
