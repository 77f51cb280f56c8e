/* SPDX-License-Identifier: MIT */
/* poll.h - the one question that an idle worker asks each second, about all its queues. */
#ifndef QN_BROKER_REDIS_WAKE_POLL_H
#define QN_BROKER_REDIS_WAKE_POLL_H

#include "redis/pipeline.h"

/* ret_held: for each queue whether something is active or leased there; ret_clock_ms: what the
 * server's clock showed. Work that the listener has not been told of wakes it (listener.h).
 * `pipeline` is begun by the caller. */
QUERN_NODISCARD quern_status qn_glance(struct qn_pipeline *pipeline, const char *const *queues,
                                       size_t queue_count, bool *ret_held, int64_t *ret_clock_ms,
                                       quern_error *err);

#endif
