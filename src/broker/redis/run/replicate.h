/* SPDX-License-Identifier: MIT */
/* replicate.h - waits until replicas have the tasks that were stored (?wait=N). */
#ifndef QN_BROKER_REDIS_RUN_REPLICATE_H
#define QN_BROKER_REDIS_RUN_REPLICATE_H

#include "broker/redis/redis.h"

/* On the connection of a pipeline that has stored tasks of this queue with this session. Does
 * nothing unless the URL says that replicas must confirm. QUERN_E_NOT_REPLICATED: too few did in
 * time; everything is stored on this server. The text says how many did, and not that it is stored.
 */
QUERN_NODISCARD quern_status qn_replicate_wait(struct qn_redis *self, struct qn_pipeline *pipeline,
                                               const char *queue, uint64_t session,
                                               quern_error *err);

#endif
