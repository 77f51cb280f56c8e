/* SPDX-License-Identifier: MIT */
/* drained.c - whether queues hold anything that still has to be run; for --drain.
 *
 * A key of the wrong type holds no task: it does not delay the end of a worker, and recovery has
 * reported it. */
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"

static const struct {
    const char *command;
    const char *container;
} parts[] = {{"LLEN", "pending"}, {"LLEN", "active"}, {"ZCARD", "scheduled"}, {"ZCARD", "retry"}};
#define PART_COUNT (sizeof parts / sizeof parts[0])

quern_status qn_redis_drained(struct qn_broker *broker, struct qn_names queues, bool *ret_drained,
                              quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < queues.count * PART_COUNT; i++) {
        qn_pipeline_command(&pipeline, parts[i % PART_COUNT].command);
        qn_keys_add(&pipeline, queues.items[i / PART_COUNT], parts[i % PART_COUNT].container);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    bool busy = false;
    for (size_t i = 0; status == QUERN_OK && i < queues.count * PART_COUNT; i++) {
        const struct qn_reply *reply = NULL;
        status = qn_pipeline_reply(&pipeline, i, &reply, err);
        busy = busy || (status == QUERN_OK && qn_reply_int(reply, 0) > 0);
        status = status == QUERN_E_CORRUPT ? QUERN_OK : status;
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK) {
        *ret_drained = !busy;
    }
    return status;
}
