/* SPDX-License-Identifier: MIT */
/* drained.c - whether queues hold anything that still has to be run; for --drain and
 * --until-idle.
 *
 * A key of the wrong type holds no task: it does not delay the end of a worker, and recovery has
 * reported it. */
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"

struct part {
    const char *command;
    const char *container;
};

static const struct part any_state[] = {{"LLEN", "pending"},
                                        {"LLEN", "active"},
                                        {"ZCARD", "scheduled"},
                                        {"ZCARD", "retry"},
                                        {"ZCARD", "aggregation_sets"}};
static const struct part can_start[] = {
    {"LLEN", "pending"}, {"EXISTS", "paused"}, {"EXISTS", QN_KEY_LANES}};

/* Of one queue: whether there is anything in its parts, the first of which is at `first`. */
static quern_status read_queue(const struct qn_pipeline *pipeline, size_t first, size_t part_count,
                               bool *ret_has, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < part_count; i++) {
        const struct qn_reply *reply = NULL;
        ret_has[i] = false;
        status = qn_pipeline_reply(pipeline, first + i, &reply, err);
        if (status == QUERN_OK) {
            ret_has[i] = qn_reply_int(reply, 0) > 0;
        }
        status = status == QUERN_E_CORRUPT ? QUERN_OK : status;
    }
    return status;
}

quern_status qn_redis_drained(struct qn_broker *broker, struct qn_names queues, enum qn_until until,
                              bool *ret_drained, quern_error *err)
{
    bool any = until == QN_UNTIL_EMPTY;
    const struct part *parts = any ? any_state : can_start;
    const size_t part_count =
        any ? sizeof any_state / sizeof any_state[0] : sizeof can_start / sizeof can_start[0];
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < queues.count * part_count; i++) {
        qn_pipeline_command(&pipeline, parts[i % part_count].command);
        qn_keys_add(&pipeline, queues.items[i / part_count], parts[i % part_count].container);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    bool busy = false;
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        bool has[sizeof any_state / sizeof any_state[0]];
        status = read_queue(&pipeline, i * part_count, part_count, has, err);
        if (status == QUERN_OK) {
            busy = busy || (any ? has[0] || has[1] || has[2] || has[3] || has[4]
                                : (has[0] || has[2]) && !has[1]);
        }
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK) {
        *ret_drained = !busy;
    }
    return status;
}
