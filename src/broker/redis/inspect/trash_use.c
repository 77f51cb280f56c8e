/* SPDX-License-Identifier: MIT */
/* trash_use.c - how much is in the trash of a queue. */
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "broker/trash/trash.h"

quern_status qn_redis_trash_use(struct qn_broker *broker, const char *queue,
                                struct qn_trash_use *ret_use, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *count = NULL;
    const struct qn_reply *bytes = NULL;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "ZCARD");
    qn_keys_add(&pipeline, queue, QN_KEY_TRASH);
    qn_pipeline_command(&pipeline, "GET");
    qn_keys_add(&pipeline, queue, QN_KEY_TRASH_BYTES);
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(&pipeline, 0, &count, err);
    }
    if (status == QUERN_OK) {
        uint64_t most = UINT32_MAX; /* Redis holds no more */
        uint64_t found = qn_reply_uint(count);
        ret_use->count = found < most ? found : most;
        ret_use->bytes =
            qn_pipeline_reply(&pipeline, 1, &bytes, NULL) == QUERN_OK ? qn_reply_uint(bytes) : 0;
    }
    qn_pipeline_end(&pipeline);
    return status;
}
