/* SPDX-License-Identifier: MIT */
/* lock_holder.c - which task holds a unique lock: asynq's key of it has the id as its value. */
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/inspect/inspect.h"
#include "task/limits.h"

quern_status qn_redis_lock_holder(struct qn_broker *broker, const char *unique_key, char *ret_id,
                                  quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "GET");
    qn_pipeline_text(&pipeline, unique_key);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        size_t size = reply->type == QN_REPLY_TEXT ? strcspn(reply->data, "\n") : SIZE_MAX;
        if (size <= QN_NAME_SIZE_MAX) {
            memcpy(ret_id, reply->data, size);
            ret_id[size] = '\0';
        } else {
            status = qn_error_set(err, QUERN_E_NOT_FOUND, "no task holds the lock");
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}
