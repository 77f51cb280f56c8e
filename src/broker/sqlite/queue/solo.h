/* SPDX-License-Identifier: MIT */
/* solo.h - the solo lock of a queue: the right to run a task of it alone (enum qn_solo). */
#ifndef QN_BROKER_SQLITE_QUEUE_SOLO_H
#define QN_BROKER_SQLITE_QUEUE_SOLO_H

#include "broker/sqlite/queue/queue_counters.h"

/* The highest level of a charged pending task of the queue, at most QN_ALONE_CHARGES; -1: none is
 * charged. */
QUERN_NODISCARD quern_status qn_solo_level(struct qn_conn *conn, int64_t queue_no,
                                           int32_t *ret_level, quern_error *err);
/* How long until the worker of the counters may have the lock; 0: now. */
int64_t qn_solo_wait_ms(const struct qn_solo_lock *lock, int64_t now_ms);
/* Takes the lock for the worker of the counters; it must be free to have. */
QUERN_NODISCARD quern_status qn_solo_take(struct qn_queue_counters *counters,
                                          struct qn_counted_queue *queue, quern_error *err);
/* Extends it, if it is still the worker's. */
QUERN_NODISCARD quern_status qn_solo_keep(struct qn_queue_counters *counters,
                                          struct qn_counted_queue *queue, bool *ret_held,
                                          quern_error *err);
/* Returns it, if it is still the worker's, and wakes those that wait for it. */
QUERN_NODISCARD quern_status qn_solo_end(struct qn_queue_counters *counters,
                                         struct qn_counted_queue *queue, quern_error *err);
/* Returns the locks of any worker; then their queues rest. extra_ms: on top of that. */
QUERN_NODISCARD quern_status qn_solo_return(struct qn_conn *conn, const char *worker_id,
                                            int64_t now_ms, int64_t extra_ms, quern_error *err);

#endif
