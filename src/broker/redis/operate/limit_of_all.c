/* SPDX-License-Identifier: MIT */
/* limit_of_all.c - sets and removes limits of all queues together.
 *
 * They are kept in a hash of their own, and each queue notes that there are some: those that there
 * are here (set_limit.lua), those that are made later when they are first served (lease.lua). */
#include <string.h>

#include "base/error.h"
#include "broker/redis/operate/operate.h"
#include "broker/redis/operate/set_limit_lua.h"
#include "broker/redis/operate/set_limit_of_all_lua.h"
#include "broker/redis/schema/keys.h"

/* Of how many tasks run, as one of the semaphores of each queue; lua/limits/lib_tokens.lua. */
#define RUNS_FIELD "4"
#define RUNS_NAME "\x1e"

/* Notes in this queue which there are now. */
static quern_status note_in(struct qn_redis *self, const char *queue, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_set_limit, 1);
    qn_keys_add_prefix(&pipeline, queue);
    qn_pipeline_text(&pipeline, "u");
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status note_in_all(struct qn_redis *self, quern_error *err)
{
    struct qn_arena arena = {0};
    struct qn_names queues = {NULL, 0};
    quern_status status = qn_redis_inspect_queues(self, &arena, &queues, err);
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        status = note_in(self, queues.items[i], err);
    }
    qn_arena_finish(&arena);
    return status;
}

static const char *field_of(struct qn_arena *arena, const struct qn_limit_owner *owner, bool rate)
{
    return owner->scope == QUERN_LIMIT_QUEUE && !rate ? RUNS_FIELD
                                                      : qn_operate_limit_field(arena, owner, rate);
}

quern_status qn_operate_set_limit_of_all(struct qn_redis *self, const quern_limit *limit,
                                         quern_error *err)
{
    bool rate = limit->period_ms > 0;
    bool of_runs = limit->scope == QUERN_LIMIT_QUEUE && !rate;
    const struct qn_limit_owner owner = {limit->queue, (quern_limit_scope)limit->scope,
                                         limit->name};
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_set_limit_of_all, 1);
    qn_pipeline_text(&pipeline, QN_KEY_ALL_LIMITS);
    qn_pipeline_text(&pipeline, "s");
    qn_pipeline_text(&pipeline, field_of(pipeline.arena, &owner, rate));
    const char *value = qn_operate_limit_value(pipeline.arena, limit);
    qn_pipeline_text(&pipeline, value != NULL && of_runs
                                    ? qn_arena_printf(pipeline.arena, "%s " RUNS_NAME, value)
                                    : value);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    qn_pipeline_end(&pipeline);
    return status == QUERN_OK ? note_in_all(self, err) : status;
}

quern_status qn_operate_remove_limit_of_all(struct qn_redis *self,
                                            const struct qn_limit_owner *owner, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_set_limit_of_all, 1);
    qn_pipeline_text(&pipeline, QN_KEY_ALL_LIMITS);
    qn_pipeline_text(&pipeline, "r");
    qn_pipeline_text(&pipeline, field_of(pipeline.arena, owner, false));
    qn_pipeline_text(&pipeline, field_of(pipeline.arena, owner, true));
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    int64_t removed = status == QUERN_OK ? qn_reply_int(reply, 0) : 0;
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK && removed == 0) {
        return qn_limit_not_found(owner, err);
    }
    return status == QUERN_OK ? note_in_all(self, err) : status;
}
