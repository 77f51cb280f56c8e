/* SPDX-License-Identifier: MIT */
/* gone.h - notes that a worker is gone, before any of its leases is ended. */
#ifndef QN_BROKER_REDIS_UPKEEP_GONE_H
#define QN_BROKER_REDIS_UPKEEP_GONE_H

#include "redis/pipeline.h"

/* Counts how many runs the worker had started in all its queues, and notes that in the worker's
 * record in each of them, `queue` included; an earlier note by another worker stays. */
QUERN_NODISCARD quern_status qn_gone_note(struct qn_pipeline *pipeline, const char *queue,
                                          const char *worker_id, quern_error *err);

#endif
