/* SPDX-License-Identifier: MIT */
/* schedule_queues.c - asynq:quern:schedules. It is in another slot of a cluster than the entries,
 * so it is written by plain commands: before the first entry of a queue, and after the last. */
#include "broker/redis/schedule/schedule_queues.h"

#include "base/error.h"
#include "broker/redis/schedule/changed_lua.h"
#include "broker/redis/schema/keys.h"

quern_status qn_schedule_queues(struct qn_redis *self, struct qn_arena *arena,
                                struct qn_names *ret_queues, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "SMEMBERS");
    qn_pipeline_text(&pipeline, QN_KEY_SCHEDULES);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    const char **names = NULL;
    size_t count = status == QUERN_OK ? reply->count : 0;
    if (status == QUERN_OK) {
        names = qn_arena_alloc(arena, (count + 1) * sizeof *names);
        status = names == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        names[i] = qn_arena_strdup(arena, qn_reply_text(qn_reply_at(reply, i)));
        status = names[i] == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK) {
        *ret_queues = (struct qn_names){names, count};
    }
    return status;
}

void qn_schedule_changed(struct qn_redis *self)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_changed, 1);
    qn_pipeline_text(&pipeline, QN_KEY_SCHEDULE);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, NULL);
    (void)status; /* see schedule_queues.h */
    qn_pipeline_end(&pipeline);
}

static quern_status change_set(struct qn_pipeline *pipeline, const char *command, const char *queue,
                               quern_error *err)
{
    const struct qn_reply *reply = NULL;
    qn_pipeline_command(pipeline, command);
    qn_pipeline_text(pipeline, QN_KEY_SCHEDULES);
    qn_pipeline_text(pipeline, queue);
    return qn_pipeline_ask(pipeline, &reply, err);
}

quern_status qn_schedule_queue_drop(struct qn_redis *self, const char *queue, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    quern_status status = change_set(&pipeline, "SREM", queue, err);
    if (status == QUERN_OK) {
        qn_pipeline_command(&pipeline, "EXISTS");
        qn_keys_add(&pipeline, queue, QN_KEY_ENTRIES);
        status = qn_pipeline_ask(&pipeline, &reply, err);
    }
    if (status == QUERN_OK && qn_reply_int(reply, 0) > 0) {
        status = change_set(&pipeline, "SADD", queue, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}
