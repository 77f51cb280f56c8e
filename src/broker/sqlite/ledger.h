/* SPDX-License-Identifier: MIT */
/* ledger.h - what one transaction knows and counts of each queue, written once at its end.
 *
 * Exchange and recover end runs; both count them, follow the crash streak and decide what a crash
 * means through this ledger, so that both do it alike. */
#ifndef QN_BROKER_SQLITE_LEDGER_H
#define QN_BROKER_SQLITE_LEDGER_H

#include "broker/sqlite/sqlite.h"

struct qn_ledger_queue {
    const char *name; /* borrowed from the request */
    int64_t no;       /* 0: there is no such queue */
    bool paused;
    bool changed; /* has something to be written */
    int64_t processed;
    int64_t failed;
    int64_t crash_streak;
    char streak_id[QN_NAME_SIZE_MAX + 1];
    int64_t due_at_ms; /* its earliest delayed task; -1: not looked up */
};

struct qn_ledger {
    struct qn_conn *conn;
    int64_t now_ms;   /* wall clock */
    int64_t shift_ms; /* qn_sqlite_shift_ms; for delays */
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
/* A run ended otherwise than by a crash; counts may be 0. */
void qn_ledger_count(struct qn_ledger_queue *queue, int64_t processed, int64_t failed);
/* A task will become due; wakes sleepers if it is before all others of its queue. */
QUERN_NODISCARD quern_status qn_ledger_due(struct qn_ledger *ledger, struct qn_ledger_queue *queue,
                                           int64_t at_ms, quern_error *err);
/* Writes what was counted. */
QUERN_NODISCARD quern_status qn_ledger_write(struct qn_ledger *ledger, quern_error *err);

struct qn_crash {
    int64_t seq;
    uint64_t token;
    const char *id;
    bool started;
    quern_cause cause;
    const char *error; /* NULL: none */
};
enum qn_crash_result {
    QN_CRASH_STALE,      /* the lease was not valid any more: nothing was changed */
    QN_CRASH_GIVEN_BACK, /* pending at its old place, nothing charged */
    QN_CRASH_CHARGED,    /* a crash was counted; pending or, from the second on, retry */
    QN_CRASH_POISON      /* archived */
};
/* Ends one run by a crash; does not touch the streak. charge: false while the brake is on. */
QUERN_NODISCARD quern_status qn_crash_apply(struct qn_ledger *ledger, struct qn_ledger_queue *queue,
                                            const struct qn_crash *crash, bool charge,
                                            enum qn_crash_result *ret_result, quern_error *err);
/* Whether crashes are charged to tasks now. */
bool qn_crash_chargeable(const struct qn_ledger_queue *queue);
/* One process died while it ran this task (of several: the most suspect one). */
void qn_crash_streak(struct qn_ledger_queue *queue, const char *id);

#endif
