/* SPDX-License-Identifier: MIT */
/* queue_counters.h - what one transaction knows and counts of each queue, written once at its end.
 *
 * Exchange and recover end runs; both count them through this ledger. */
#ifndef QN_BROKER_SQLITE_RUN_QUEUE_COUNTERS_H
#define QN_BROKER_SQLITE_RUN_QUEUE_COUNTERS_H

#include "broker/sqlite/sqlite.h"

enum qn_solo_state { QN_SOLO_FREE = 0, QN_SOLO_OURS, QN_SOLO_OTHERS };

/* Wall clock. */
struct qn_solo_lock {
    enum qn_solo_state state;
    int64_t since_ms; /* also of the one that was returned last */
    int64_t until_ms;
    int64_t rest_ms;
};

struct qn_ledger_queue {
    const char *name; /* borrowed from the request */
    int64_t no;       /* 0: there is no such queue */
    bool paused;
    bool changed; /* has something to be written */
    int64_t processed;
    int64_t failed;
    struct qn_solo_lock solo; /* whoever changes it writes it, see solo.h */
    struct qn_brake brake;    /* on the ledger's host; all zero without one */
    bool brake_changed;
    int64_t due_at_ms; /* its earliest delayed task; -1: not looked up */
};

struct qn_ledger {
    struct qn_conn *conn;
    int64_t now_ms;        /* wall clock */
    int64_t shift_ms;      /* qn_sqlite_shift_ms; for delays */
    const char *host;      /* whose brakes are meant; NULL: of none */
    const char *worker_id; /* whose solo locks are ours; NULL: of none */
    bool is_leaving;       /* the worker: no end of its runs proves anything */
    struct qn_ledger_queue *queues;
    size_t count;
    size_t capacity;
    bool wake; /* something was done that a sleeping worker wants to know */
};

void qn_ledger_init(struct qn_ledger *ledger, struct qn_conn *conn, int64_t now_ms);
void qn_ledger_finish(struct qn_ledger *ledger);
/* Finds the queue or reads it in. *ret_queue is valid until the next call. */
QUERN_NODISCARD quern_status qn_ledger_queue(struct qn_ledger *ledger, const char *name,
                                             struct qn_ledger_queue **ret_queue, quern_error *err);
/* Adds to the counters of the queue. */
void qn_ledger_count(struct qn_ledger_queue *queue, int64_t processed, int64_t failed);
/* A run that had started ended otherwise than by a death: the brake is released. */
void qn_ledger_release(struct qn_ledger *ledger, struct qn_ledger_queue *queue);
/* A task will become due; wakes sleepers if it is before all others of its queue. */
QUERN_NODISCARD quern_status qn_ledger_due(struct qn_ledger *ledger, struct qn_ledger_queue *queue,
                                           int64_t at_ms, quern_error *err);
/* Writes what was counted. */
QUERN_NODISCARD quern_status qn_ledger_write(struct qn_ledger *ledger, quern_error *err);

#endif
