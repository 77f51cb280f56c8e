/* SPDX-License-Identifier: MIT */
/* pause.c - pauses and resumes a queue: asynq's key `paused`. A queue must be in asynq:queues; that
 * set may be on another server than the queue, so it is read first, in a pipeline of its own. */
#include "base/error.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/operate/pause_lua.h"
#include "broker/redis/schema/keys.h"

static quern_status change(struct qn_redis *self, const char *queue, bool pause, bool *ret_changed,
                           quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_pause, 1);
    qn_keys_add_prefix(&pipeline, queue);
    qn_pipeline_int(&pipeline, pause ? 1 : 0);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        *ret_changed = qn_reply_int(reply, 0) == 1;
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_pause(struct qn_broker *broker, const char *queue, bool pause,
                            quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    bool changed = false;
    quern_status status = qn_redis_find_queue(broker, queue, err);
    if (status == QUERN_OK) {
        status = change(self, queue, pause, &changed, err);
    }
    if (status == QUERN_OK && !changed) {
        status = qn_error_set(err, QUERN_E_STATE, "queue \"%s\" is %s", queue,
                              pause ? "already paused" : "not paused");
    }
    return status;
}
