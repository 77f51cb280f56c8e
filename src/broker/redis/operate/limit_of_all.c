/* SPDX-License-Identifier: MIT */
/* limit_of_all.c - the limit of all queues: how many tasks run at a time.
 *
 * It is kept in a hash of its own, for queues that are made later (lease.lua), and as one of the
 * semaphores of each queue that there is (lua/limits/lib_tokens.lua). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/redis/operate/operate.h"
#include "broker/redis/operate/set_limit_lua.h"
#include "broker/redis/schema/keys.h"
#include "task/limit.h"

#define FIELD "4" /* like that of a queue's semaphores */
#define NAME "\x1e"

/* Notes it in this queue as it is now. */
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

/* HSET with a value, HDEL without; *ret_changed: the reply. */
static quern_status write_hash(struct qn_redis *self, const char *value, int64_t *ret_changed,
                               quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_command(&pipeline, value != NULL ? "HSET" : "HDEL");
    qn_pipeline_text(&pipeline, QN_KEY_ALL_LIMITS);
    qn_pipeline_text(&pipeline, FIELD);
    if (value != NULL) {
        qn_pipeline_text(&pipeline, value);
    }
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    *ret_changed = status == QUERN_OK ? qn_reply_int(reply, 0) : 0;
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_operate_set_limit_of_all(struct qn_redis *self, const quern_limit *limit,
                                         quern_error *err)
{
    char value[32];
    int64_t changed = 0;
    if (limit->scope != QUERN_LIMIT_QUEUE || limit->period_ms > 0) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "of all queues a redis broker limits only how many tasks run at a "
                            "time, not types, keys or starts: limit each queue by itself");
    }
    (void)snprintf(value, sizeof value, "%" PRId64 " %s", limit->count, NAME);
    quern_status status = write_hash(self, value, &changed, err);
    return status == QUERN_OK ? note_in_all(self, err) : status;
}

quern_status qn_operate_remove_limit_of_all(struct qn_redis *self,
                                            const struct qn_limit_owner *owner, quern_error *err)
{
    int64_t removed = 0;
    quern_status status = QUERN_OK;
    if (owner->scope == QUERN_LIMIT_QUEUE) {
        status = write_hash(self, NULL, &removed, err);
    }
    if (status == QUERN_OK && removed == 0) {
        return qn_limit_not_found(owner, err);
    }
    return status == QUERN_OK ? note_in_all(self, err) : status;
}

/* How many tasks run in these queues. */
static quern_status count_running(struct qn_redis *self, struct qn_names queues,
                                  int64_t *ret_running, quern_error *err)
{
    struct qn_pipeline pipeline;
    *ret_running = 0;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < queues.count; i++) {
        qn_pipeline_command(&pipeline, "LLEN");
        qn_keys_add(&pipeline, queues.items[i], "active");
    }
    quern_status status = queues.count > 0 ? qn_pipeline_run(&pipeline, err) : QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        *ret_running += qn_number_clamp(qn_reply_int(pipeline.commands[i].reply, 0), 0, INT32_MAX);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_operate_limit_of_all(struct qn_redis *self, quern_limit *ret_limit, bool *ret_found,
                                     quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    struct qn_arena arena = {0};
    struct qn_names queues = {NULL, 0};
    *ret_limit = (quern_limit){.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_QUEUE, .name = ""};
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "HGET");
    qn_pipeline_text(&pipeline, QN_KEY_ALL_LIMITS);
    qn_pipeline_text(&pipeline, FIELD);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    const char *text = status == QUERN_OK ? qn_reply_text(reply) : "";
    struct qn_cursor cursor = {.at = text, .end = text + strlen(text)};
    uint64_t count = 0;
    *ret_found = qn_number_take(&cursor, &count);
    ret_limit->count = count < QN_LIMIT_COUNT_MAX ? (int64_t)count : QN_LIMIT_COUNT_MAX;
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK && *ret_found) {
        status = qn_redis_inspect_queues(self, &arena, &queues, err);
    }
    if (status == QUERN_OK && *ret_found) {
        status = count_running(self, queues, &ret_limit->used, err);
    }
    qn_arena_finish(&arena);
    return status;
}
