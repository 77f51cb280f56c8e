/* SPDX-License-Identifier: MIT */
/* pair.h - the two connections that are one unit: the tracked one and the listener (listener.h). */
#ifndef QN_BROKER_REDIS_WAKE_PAIR_H
#define QN_BROKER_REDIS_WAKE_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "quern/status.h"
#include "redis/pipeline.h"

#define QN_PAIR_ATTEMPT_MAX 3 /* to read over a pair that stays one */

struct qn_redis;

/* The pair when an attempt began. */
struct qn_redis_pair {
    int node;         /* of a cluster; one server: 0 */
    uint64_t tracked; /* opened_count of each */
    uint64_t listener;
    int64_t listener_id;
    bool redirect;  /* the tracked connection has to be redirected to the listener first */
    size_t command; /* that does it; index in the pipeline */
};

/* All three with a pipeline on QN_CHANNEL_TRACKED: connects the listener, and says what the pair is
 * now. */
QUERN_NODISCARD quern_status qn_redis_pair_prepare(struct qn_redis *self, int node,
                                                   struct qn_redis_pair *ret_pair,
                                                   quern_error *err);
/* Adds the order to redirect where it is needed, before what reads. */
void qn_redis_pair_redirect(struct qn_pipeline *pipeline, struct qn_redis_pair *pair);
/* After the run. False: the pair fell apart meanwhile, so that notices of what was read may be
 * lost: read again. */
QUERN_NODISCARD bool qn_redis_pair_settle(struct qn_redis *self, const struct qn_redis_pair *pair,
                                          const struct qn_pipeline *pipeline);

#endif
