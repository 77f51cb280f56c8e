/* SPDX-License-Identifier: MIT */
/* forward.c - moves due scheduled and retry tasks to the tail of pending (forward.lua).
 *
 * The script returns the time until the next task is due, by the server's clock; here that
 * becomes a moment of our own wall clock, so that it does not matter how far the two differ. */
#include "broker/redis/redis.h"

#include "broker/redis/schema/keys.h"
#include "broker/redis/upkeep/forward_lua.h"

#define LIMIT_MAX 1000 /* far less than Lua can unpack */

static int64_t moment_of(const struct qn_broker *broker, const struct qn_reply *remaining_us)
{
    const int64_t none = INT64_MAX;
    int64_t us = qn_reply_span_us(remaining_us, none);
    if (us == none) {
        return none;
    }
    int64_t ms = us > 0 ? (us + 999) / 1000 : us / 1000; /* never early */
    return qn_clock_wall_ms(broker->clock) + ms;
}

quern_status qn_redis_forward(struct qn_broker *broker, struct qn_upkeep upkeep, size_t *ret_moved,
                              int64_t *ret_next_due_at_ms, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_PUMP, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_forward, upkeep.queues.count);
    for (size_t i = 0; i < upkeep.queues.count; i++) {
        qn_keys_add_prefix(&pipeline, upkeep.queues.items[i]);
    }
    qn_pipeline_uint(&pipeline, upkeep.limit < LIMIT_MAX ? upkeep.limit : LIMIT_MAX);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_expect(&pipeline, reply->type == QN_REPLY_ARRAY && reply->count == 2,
                                    "forward", err);
    }
    if (status == QUERN_OK) {
        *ret_moved = (size_t)qn_reply_uint(qn_reply_at(reply, 0));
        *ret_next_due_at_ms = moment_of(broker, qn_reply_at(reply, 1));
    }
    qn_pipeline_end(&pipeline);
    return status;
}
