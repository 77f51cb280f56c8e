/* SPDX-License-Identifier: MIT */
/* result.c - what a run tells while it runs: its result and its progress. Both are fields of the
 * task, written by one script if the token is still valid. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/result_lua.h"

static quern_status write_field(struct qn_talk *talk, const struct qn_leased *run,
                                const char *field, const void *data, size_t size, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    qn_talk_script(talk, &qn_lua_result, 1);
    qn_talk_prefix(talk, run->task.queue);
    qn_talk_text(talk, run->task.id);
    qn_talk_uint(talk, run->token);
    qn_talk_text(talk, field);
    qn_talk_bytes(talk, data != NULL ? data : "", size); /* an empty result is not none */
    quern_status status = qn_talk_run(talk, err);
    if (status == QUERN_OK) {
        status = qn_talk_reply(talk, 0, &reply, err);
    }
    if (status == QUERN_OK && qn_reply_int(reply, 0) == 0) {
        status = qn_error_set(err, QUERN_E_STALE, "the lease of task %s is lost", run->task.id);
    }
    return status;
}

quern_status qn_redis_write_result(struct qn_broker *broker, const struct qn_leased *run,
                                   const void *data, size_t size, quern_error *err)
{
    struct qn_talk talk;
    qn_talk_begin(&talk, qn_redis_of(broker), QN_LANE_REST, QN_TALK_WRITES);
    quern_status status = write_field(&talk, run, "result", data, size, err);
    qn_talk_end(&talk);
    return status;
}

quern_status qn_redis_write_progress(struct qn_broker *broker, const struct qn_leased *run,
                                     int32_t percent, const char *note, quern_error *err)
{
    struct qn_talk talk;
    qn_talk_begin(&talk, qn_redis_of(broker), QN_LANE_REST, QN_TALK_WRITES);
    const char *text =
        qn_arena_printf(talk.arena, "%" PRId32 " %s", percent, note != NULL ? note : "");
    quern_status status = text == NULL
                              ? qn_error_nomem(err)
                              : write_field(&talk, run, "quern_progress", text, strlen(text), err);
    qn_talk_end(&talk);
    return status;
}
