/* SPDX-License-Identifier: MIT */
/* set_queue.c - the settings of a queue, by a script. Before, a queue that is new is listed: that
 * set may be on another server than the queue. */
#include "broker/redis/operate/operate.h"
#include "broker/redis/operate/set_queue_lua.h"
#include "broker/redis/schema/keys.h"

quern_status qn_operate_list_queue(struct qn_redis *self, const char *queue, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_command(&pipeline, "SADD");
    qn_pipeline_text(&pipeline, QN_KEY_QUEUES);
    qn_pipeline_text(&pipeline, queue);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status write_settings(struct qn_redis *self, const char *queue,
                                   const quern_queue_settings *settings, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_set_queue, 1);
    qn_keys_add_prefix(&pipeline, queue);
    if (settings->max_pending == 0) {
        qn_pipeline_text(&pipeline, "");
    } else {
        bool none = settings->max_pending == QUERN_MAX_PENDING_NONE;
        qn_pipeline_int(&pipeline, none ? 0 : settings->max_pending);
    }
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_set_queue(struct qn_broker *broker, const char *queue,
                                const quern_queue_settings *settings, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    quern_status status = qn_redis_find_queue(broker, queue, err);
    if (status == QUERN_E_NOT_FOUND) {
        status = qn_operate_list_queue(self, queue, err);
    }
    return status == QUERN_OK ? write_settings(self, queue, settings, err) : status;
}
