/* SPDX-License-Identifier: MIT */
/* forward.c - moves due scheduled and retry tasks to the tail of pending (forward.lua).
 *
 * The script returns the time until the next task is due, by the server's clock; here that
 * becomes a moment of our own wall clock, so that it does not matter how far the two differ. */
#include "broker/redis/redis.h"

#include "broker/redis/schema/keys.h"
#include "broker/redis/upkeep/forward_lua.h"

#define LIMIT_MAX 1000 /* far less than Lua can unpack */
#define LATER_MS 100   /* until a queue is asked again that cannot answer */

struct forwarded {
    size_t moved;
    int64_t next_due_at_ms;
};

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

static void add_call(struct qn_pipeline *pipeline, struct qn_names queues, size_t limit)
{
    qn_pipeline_script(pipeline, &qn_lua_forward, queues.count);
    for (size_t i = 0; i < queues.count; i++) {
        qn_keys_add_prefix(pipeline, queues.items[i]);
    }
    qn_pipeline_uint(pipeline, limit < LIMIT_MAX ? limit : LIMIT_MAX);
}

/* Adds what a call moved, and when the next task is due that it knows. */
static quern_status read_call(const struct qn_broker *broker, const struct qn_pipeline *pipeline,
                              size_t index, struct forwarded *forwarded, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    int64_t next_due_at_ms = qn_clock_wall_ms(broker->clock) + LATER_MS;
    quern_status status = qn_pipeline_reply(pipeline, index, &reply, err);
    if (status == QUERN_E_BUSY && pipeline->commands[index].hasty) {
        status = QUERN_OK; /* the queue is being moved, or its node is down */
    } else if (status == QUERN_OK) {
        status = qn_pipeline_expect(pipeline, reply->type == QN_REPLY_ARRAY && reply->count == 2,
                                    "forward", err);
        next_due_at_ms = moment_of(broker, qn_reply_at(reply, 1));
        forwarded->moved += (size_t)qn_reply_uint(qn_reply_at(reply, 0));
    }
    if (next_due_at_ms < forwarded->next_due_at_ms) {
        forwarded->next_due_at_ms = next_due_at_ms;
    }
    return status;
}

quern_status qn_redis_forward(struct qn_broker *broker, struct qn_upkeep upkeep, size_t *ret_moved,
                              int64_t *ret_next_due_at_ms, quern_error *err)
{
    struct forwarded forwarded = {.next_due_at_ms = INT64_MAX};
    struct qn_pipeline pipeline;
    bool is_spread = qn_redis_of(broker)->cluster != NULL; /* each queue is at a node of its own */
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_PUMP, QN_PIPELINE_WRITES);
    if (!is_spread) {
        add_call(&pipeline, upkeep.queues, upkeep.limit);
    }
    for (size_t i = 0; is_spread && i < upkeep.queues.count; i++) {
        add_call(&pipeline, (struct qn_names){&upkeep.queues.items[i], 1}, upkeep.limit);
        qn_pipeline_hasty(&pipeline);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    status = status == QUERN_OK ? qn_pipeline_any_present(&pipeline, 0, err) : status;
    for (size_t i = 0; status == QUERN_OK && i < pipeline.command_count; i++) {
        status = read_call(broker, &pipeline, i, &forwarded, err);
    }
    if (status == QUERN_OK) {
        *ret_moved = forwarded.moved;
        *ret_next_due_at_ms = forwarded.next_due_at_ms;
    }
    qn_pipeline_end(&pipeline);
    return status;
}
