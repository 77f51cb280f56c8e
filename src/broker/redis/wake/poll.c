/* SPDX-License-Identifier: MIT */
/* poll.c - polls all queues of a worker, by one script (poll.lua).
 *
 * It has two purposes. Recovery can skip queues in which nothing is active, which are all queues of
 * an idle system. And it is the safety net of the wake-up: tasks that came into the queues without
 * a notification, because a message was lost or a clock was set, are found here, each second. */
#include "broker/redis/wake/poll.h"

#include "broker/redis/redis.h"

#include "broker/redis/schema/keys.h"
#include "broker/redis/wake/poll_lua.h"

enum { REPLY_CLOCK, REPLY_WORK, REPLY_DUE, REPLY_HELD };

quern_status qn_poll_run(struct qn_redis *self, struct qn_pipeline *pipeline, struct qn_poll *poll,
                         quern_error *err)
{
    const struct qn_reply *reply = NULL;
    qn_pipeline_script(pipeline, &qn_lua_poll, poll->queue_count);
    for (size_t i = 0; i < poll->queue_count; i++) {
        qn_keys_add_prefix(pipeline, poll->queues[i]);
    }
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_expect(pipeline,
                                    reply->type == QN_REPLY_ARRAY &&
                                        reply->count == REPLY_HELD + poll->queue_count,
                                    qn_lua_poll.name, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    for (size_t i = 0; i < poll->queue_count; i++) {
        poll->held[i] = qn_reply_int(reply->items[REPLY_HELD + i], 1) != 0;
    }
    poll->clock_ms = qn_reply_moment_ms(reply->items[REPLY_CLOCK]);
    const struct quern_clock *clock = self->base.clock;
    int64_t until_us = qn_reply_span_us(reply->items[REPLY_DUE], -1);
    qn_redis_listener_compare(&self->listener, qn_reply_int(reply->items[REPLY_WORK], 0) != 0,
                              until_us < 0 ? INT64_MAX : qn_clock_wall_in_us(clock, until_us),
                              qn_clock_wall_ms(clock));
    return QUERN_OK;
}
