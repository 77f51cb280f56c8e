/* SPDX-License-Identifier: MIT */
/* result.c - data that a run writes while it runs: its result and its progress. Both are fields of
 * the task, written by one script if the token is still valid. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/result_lua.h"
#include "broker/redis/schema/keys.h"

static quern_status write_field(struct qn_pipeline *pipeline, const struct qn_leased *run,
                                const char *field, struct qn_bytes value, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    qn_pipeline_script(pipeline, &qn_lua_result, 1);
    qn_keys_add_prefix(pipeline, run->task.queue);
    qn_pipeline_text(pipeline, run->task.id);
    qn_pipeline_uint(pipeline, run->token);
    qn_pipeline_text(pipeline, field);
    /* An empty result is not none. */
    qn_pipeline_bytes(pipeline, value.data != NULL ? value.data : "", value.size);
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status == QUERN_OK && qn_reply_int(reply, 0) == 0) {
        status = qn_error_set(err, QUERN_E_STALE, "the lease of task %s is lost", run->task.id);
    }
    return status;
}

quern_status qn_redis_write_result(struct qn_broker *broker, const struct qn_leased *run,
                                   struct qn_bytes result, quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    quern_status status = write_field(&pipeline, run, "result", result, err);
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_write_progress(struct qn_broker *broker, const struct qn_leased *run,
                                     int32_t percent, const char *note, quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    const char *text =
        qn_arena_printf(pipeline.arena, "%" PRId32 " %s", percent, note != NULL ? note : "");
    quern_status status = text == NULL ? qn_error_nomem(err)
                                       : write_field(&pipeline, run, "quern_progress",
                                                     (struct qn_bytes){text, strlen(text)}, err);
    qn_pipeline_end(&pipeline);
    return status;
}
