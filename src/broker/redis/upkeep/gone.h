/* SPDX-License-Identifier: MIT */
/* gone.h - notes that a worker is gone, before anything of what it held is ended. */
#ifndef QN_BROKER_REDIS_UPKEEP_GONE_H
#define QN_BROKER_REDIS_UPKEEP_GONE_H

#include "redis/pipeline.h"

/* Counts how many runs the worker had started in all its queues, and notes that in the worker's
 * record in each of them, `queue` included; what somebody else has noted before stays. */
QUERN_NODISCARD quern_status qn_gone_note(struct qn_pipeline *pipeline, const char *queue,
                                          const char *worker_id, quern_error *err);

#endif
