/* SPDX-License-Identifier: MIT */
/* poll.h - the one question that an idle worker asks each second, about all its queues. */
#ifndef QN_BROKER_REDIS_WAKE_POLL_H
#define QN_BROKER_REDIS_WAKE_POLL_H

#include "redis/pipeline.h"

struct qn_poll {
    const char *const *queues;
    size_t queue_count;
    bool *held;       /* filled: for each queue whether something is active or leased there */
    int64_t clock_ms; /* filled: the server's clock */
};

struct qn_redis;
/* Work without a notice wakes the listener (listener.h). `pipeline` is begun by the caller. */
QUERN_NODISCARD quern_status qn_poll_run(struct qn_redis *self, struct qn_pipeline *pipeline,
                                         struct qn_poll *poll, quern_error *err);

#endif
