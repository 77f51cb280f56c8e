/* SPDX-License-Identifier: MIT */
/* find_queue.c - whether there is a queue of a name. */
#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"

quern_status qn_redis_find_queue(struct qn_broker *broker, const char *queue, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "SISMEMBER");
    qn_pipeline_text(&pipeline, QN_KEY_QUEUES);
    qn_pipeline_text(&pipeline, queue);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK && qn_reply_int(reply, 0) != 1) {
        status = qn_error_set(err, QUERN_E_NOT_FOUND, "no queue \"%s\"", queue);
    }
    qn_pipeline_end(&pipeline);
    return status;
}
