/* SPDX-License-Identifier: MIT */
/* locks.h - the lock of a unique task while the task lives: renewed, or freed before its end.
 *
 * `seq` is the row of a task with a unique_key; a lock that another task holds stays as it is. */
#ifndef QN_BROKER_SQLITE_QUEUE_LOCKS_H
#define QN_BROKER_SQLITE_QUEUE_LOCKS_H

#include "broker/sqlite/store/conn.h"
#include "quern/task.h"

/* quern_task.unique_terms: the time of the lock in ms, shifted, and a quern_unique_until. */
#define QN_UNIQUE_TERMS_SHIFT 3
#define QN_UNIQUE_TERMS_UNTIL 7
#define QN_UNIQUE_SPAN_MS_MAX (INT64_C(1) << 53)

/* A lease from now on (by the wall clock). */
struct qn_span {
    int64_t now_ms;
    int64_t lease_ms;
};
/* The task was leased, or its lease extended: its lock holds for two leases at least, or ends. */
QUERN_NODISCARD quern_status qn_locks_leased(struct qn_conn *conn, int64_t seq,
                                             int32_t unique_until, struct qn_span lease,
                                             quern_error *err);
/* The task waits until at_ms, which may be now. */
QUERN_NODISCARD quern_status qn_locks_waits(struct qn_conn *conn, int64_t seq, int64_t at_ms,
                                            int64_t now_ms, quern_error *err);
QUERN_NODISCARD quern_status qn_locks_archived(struct qn_conn *conn, int64_t seq,
                                               int32_t unique_until, int64_t now_ms,
                                               quern_error *err);

#endif
