/* SPDX-License-Identifier: MIT */
/* schedule_queues.h - the set of queues that have entries, and the notice that one has changed. */
#ifndef QN_BROKER_REDIS_SCHEDULE_SCHEDULE_QUEUES_H
#define QN_BROKER_REDIS_SCHEDULE_SCHEDULE_QUEUES_H

#include "broker/redis/redis.h"

/* All queues of the set. The names live in the arena. */
QUERN_NODISCARD quern_status qn_schedule_queues(struct qn_redis *self, struct qn_arena *arena,
                                                struct qn_names *ret_queues, quern_error *err);
/* Raises the version. What it announces is done already, and schedulers find it within half a
 * minute without it: it does not fail. */
void qn_schedule_changed(struct qn_redis *self);
/* Takes a queue without entries out of the set; one that got an entry meanwhile stays. */
QUERN_NODISCARD quern_status qn_schedule_queue_drop(struct qn_redis *self, const char *queue,
                                                    quern_error *err);

#endif
