/* SPDX-License-Identifier: MIT */
/* forward.c - moves due scheduled and retry tasks to the tail of pending (forward.lua).
 *
 * The script tells how long it is until the next task is due, by the server's clock; here that
 * becomes a moment of our own wall clock, so that it does not matter how far the two differ. */
#include "broker/redis/redis.h"

#include "broker/redis/upkeep/forward_lua.h"

#define LIMIT_MAX 1000 /* what Lua can unpack, with much to spare */

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

quern_status qn_redis_forward(struct qn_broker *broker, const char *const *queues,
                              size_t queue_count, size_t limit, size_t *ret_moved,
                              int64_t *ret_next_due_at_ms, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    struct qn_talk talk;
    qn_talk_begin(&talk, qn_redis_of(broker), QN_LANE_PUMP, QN_TALK_WRITES);
    qn_talk_script(&talk, &qn_lua_forward, queue_count);
    for (size_t i = 0; i < queue_count; i++) {
        qn_talk_prefix(&talk, queues[i]);
    }
    qn_talk_uint(&talk, limit < LIMIT_MAX ? limit : LIMIT_MAX);
    quern_status status = qn_talk_run(&talk, err);
    if (status == QUERN_OK) {
        status = qn_talk_reply(&talk, 0, &reply, err);
    }
    if (status == QUERN_OK) {
        status = qn_reply_expect(&talk, reply->type == QN_REPLY_ARRAY && reply->count == 2,
                                 "forward", err);
    }
    if (status == QUERN_OK) {
        *ret_moved = (size_t)qn_reply_uint(qn_reply_at(reply, 0));
        *ret_next_due_at_ms = moment_of(broker, qn_reply_at(reply, 1));
    }
    qn_talk_end(&talk);
    return status;
}
