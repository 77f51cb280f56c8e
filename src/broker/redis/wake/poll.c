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

/* Of all calls. */
struct polled {
    int64_t clock_ms;
    bool work;
    int64_t until_us; /* the next task is due; -1: none */
};

static void add_call(struct qn_pipeline *pipeline, const char *const *queues, size_t count)
{
    qn_pipeline_script(pipeline, &qn_lua_poll, count);
    for (size_t i = 0; i < count; i++) {
        qn_keys_add_prefix(pipeline, queues[i]);
    }
}

/* One script. */
struct call {
    size_t index; /* in the pipeline */
    bool *held;
    size_t count; /* of its queues */
};

static quern_status read_call(const struct qn_pipeline *pipeline, const struct call *call,
                              struct polled *polled, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    bool *held = call->held;
    size_t count = call->count;
    quern_status status = qn_pipeline_reply(pipeline, call->index, &reply, err);
    if (status == QUERN_E_BUSY && pipeline->commands[call->index].hasty) {
        held[0] = false; /* the queue is being moved, or its node is down: later */
        return QUERN_OK;
    }
    if (status == QUERN_OK) {
        status = qn_pipeline_expect(
            pipeline, reply->type == QN_REPLY_ARRAY && reply->count == REPLY_HELD + count,
            qn_lua_poll.name, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        held[i] = qn_reply_int(reply->items[REPLY_HELD + i], 1) != 0;
    }
    int64_t clock_ms = qn_reply_moment_ms(reply->items[REPLY_CLOCK]);
    int64_t until_us = qn_reply_span_us(reply->items[REPLY_DUE], -1);
    polled->clock_ms = clock_ms > polled->clock_ms ? clock_ms : polled->clock_ms;
    polled->work = polled->work || qn_reply_int(reply->items[REPLY_WORK], 0) != 0;
    if (until_us >= 0 && (polled->until_us < 0 || until_us < polled->until_us)) {
        polled->until_us = until_us;
    }
    return QUERN_OK;
}

quern_status qn_poll_run(struct qn_redis *self, struct qn_pipeline *pipeline, struct qn_poll *poll,
                         quern_error *err)
{
    struct polled polled = {.until_us = -1};
    size_t first = pipeline->command_count;
    /* On a cluster each queue is at a node of its own. */
    size_t step = self->cluster == NULL ? poll->queue_count : 1;
    for (size_t i = 0; i < poll->queue_count; i += step) {
        add_call(pipeline, poll->queues + i, step);
        if (self->cluster != NULL) {
            qn_pipeline_hasty(pipeline);
        }
    }
    quern_status status = qn_pipeline_run(pipeline, err);
    status = status == QUERN_OK ? qn_pipeline_any_present(pipeline, first, err) : status;
    for (size_t i = 0; status == QUERN_OK && i < poll->queue_count; i += step) {
        const struct call call = {first + i / step, poll->held + i, step};
        status = read_call(pipeline, &call, &polled, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    poll->clock_ms = polled.clock_ms;
    const struct quern_clock *clock = self->base.clock;
    qn_redis_listener_compare(&self->listener, polled.work,
                              polled.until_us < 0 ? INT64_MAX
                                                  : qn_clock_wall_in_us(clock, polled.until_us),
                              qn_clock_wall_ms(clock));
    return QUERN_OK;
}
