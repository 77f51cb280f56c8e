/* SPDX-License-Identifier: MIT */
/* limit.c - sets, removes and lists the limits of queues. What they mean for a lease:
 * lua/lib_limits.lua, lua/lib_gates.lua. */
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/redis/operate/limits_lua.h"
#include "broker/redis/operate/operate.h"
#include "broker/redis/operate/set_limit_lua.h"
#include "broker/redis/schema/keys.h"
#include "task/limit.h"

static quern_status write_limit(struct qn_redis *self, const quern_limit *limit, quern_error *err)
{
    const struct qn_limit_owner owner = {limit->queue, (quern_limit_scope)limit->scope,
                                         limit->name};
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_set_limit, 1);
    qn_keys_add_prefix(&pipeline, limit->queue);
    qn_pipeline_text(&pipeline, "s");
    qn_pipeline_text(&pipeline,
                     qn_operate_limit_field(pipeline.arena, &owner, limit->period_ms > 0));
    qn_pipeline_text(&pipeline, qn_operate_limit_value(pipeline.arena, limit));
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_set_limit(struct qn_broker *broker, const quern_limit *limit,
                                quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    bool is_of_all = strcmp(limit->queue, QUERN_ALL_QUEUES) == 0;
    if (self->cluster != NULL && (is_of_all || limit->scope == QUERN_LIMIT_SEMAPHORE)) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "%s needs one server: the queues of a cluster are at different nodes, "
                            "which count apart",
                            is_of_all ? "a limit of all queues" : "a semaphore");
    }
    if (is_of_all) {
        return qn_operate_set_limit_of_all(self, limit, err);
    }
    quern_status status = qn_redis_find_queue(broker, limit->queue, err);
    if (status == QUERN_E_NOT_FOUND) {
        status = qn_operate_list_queue(self, limit->queue, err);
    }
    return status == QUERN_OK ? write_limit(self, limit, err) : status;
}

quern_status qn_redis_remove_limit(struct qn_broker *broker, const struct qn_limit_owner *owner,
                                   quern_error *err)
{
    if (strcmp(owner->queue, QUERN_ALL_QUEUES) == 0 && qn_redis_of(broker)->cluster != NULL) {
        return qn_limit_not_found(owner, err);
    }
    if (strcmp(owner->queue, QUERN_ALL_QUEUES) == 0) {
        return qn_operate_remove_limit_of_all(qn_redis_of(broker), owner, err);
    }
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_set_limit, 1);
    qn_keys_add_prefix(&pipeline, owner->queue);
    qn_pipeline_text(&pipeline, "r");
    qn_pipeline_text(&pipeline, qn_operate_limit_field(pipeline.arena, owner, false));
    qn_pipeline_text(&pipeline, qn_operate_limit_field(pipeline.arena, owner, true));
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    int64_t removed = status == QUERN_OK ? qn_reply_int(reply, 0) : 0;
    qn_pipeline_end(&pipeline);
    return status == QUERN_OK && removed == 0 ? qn_limit_not_found(owner, err) : status;
}

/* --- Listing --------------------------------------------------------------------------- */

struct found {
    quern_limit *items;
    size_t count;
};

enum { SCOPE, NAME, COUNT, PERIOD, BURST, USED, VALUE_COUNT };

/* Of a row of the reply. A server may send any numbers. */
static quern_limit limit_of(const struct qn_reply *reply, size_t row, const char *queue)
{
    int64_t values[VALUE_COUNT];
    for (size_t i = 0; i < VALUE_COUNT; i++) {
        values[i] = i == NAME ? 0 : qn_reply_int(qn_reply_at(reply, row * VALUE_COUNT + i), 0);
    }
    bool rate = values[PERIOD] > 0;
    return (quern_limit){
        .queue = queue,
        .scope = (int32_t)qn_number_clamp(values[SCOPE], QUERN_LIMIT_QUEUE, QUERN_LIMIT_SEMAPHORE),
        .count = qn_number_clamp(values[COUNT], rate ? 1 : 0, QN_LIMIT_COUNT_MAX),
        .period_ms = qn_number_clamp(values[PERIOD], 0, QN_LIMIT_PERIOD_MS_MAX),
        .burst = rate ? qn_number_clamp(values[BURST], 0, QN_LIMIT_COUNT_MAX) : 0,
        .used = qn_number_clamp(values[USED], 0, INT64_MAX)};
}

/* queue: or QUERN_ALL_QUEUES. The reply is only read here, so that the callback may use the
 * broker. */
static quern_status read_limits(struct qn_redis *self, const char *queue, struct qn_arena *arena,
                                struct found *ret_found, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    ret_found->count = 0;
    if (strcmp(queue, QUERN_ALL_QUEUES) == 0 && self->cluster != NULL) {
        return QUERN_OK; /* there are none */
    }
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_script(&pipeline, &qn_lua_limits, 1);
    qn_pipeline_limit(&pipeline, QN_REPLY_ROWS_MAX);
    if (strcmp(queue, QUERN_ALL_QUEUES) == 0) {
        qn_pipeline_text(&pipeline, QN_KEY_ALL);
    } else {
        qn_keys_add_prefix(&pipeline, queue);
    }
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    size_t count =
        status == QUERN_OK && reply->type == QN_REPLY_ARRAY ? reply->count / VALUE_COUNT : 0;
    ret_found->items = qn_arena_alloc(arena, count * sizeof *ret_found->items);
    for (size_t i = 0; i < count && ret_found->items != NULL; i++) {
        const char *name = qn_reply_text(qn_reply_at(reply, i * VALUE_COUNT + NAME));
        quern_limit *limit = &ret_found->items[ret_found->count++];
        *limit = limit_of(reply, i, queue);
        limit->name = qn_arena_strdup(arena, name);
        ret_found->count -= limit->name == NULL ? 1 : 0;
    }
    qn_pipeline_end(&pipeline);
    return status == QUERN_OK && ret_found->count < count ? qn_error_nomem(err) : status;
}

struct receiver {
    bool (*on_limit)(const quern_limit *limit, void *user);
    void *user;
};

/* *go_on: becomes false when the receiver wants no more. */
static quern_status report_limits(struct qn_redis *self, const char *queue,
                                  const struct receiver *to, bool *go_on, quern_error *err)
{
    struct qn_arena arena = {0};
    struct found found;
    quern_status status = read_limits(self, queue, &arena, &found, err);
    for (size_t i = 0; status == QUERN_OK && *go_on && i < found.count; i++) {
        *go_on = to->on_limit(&found.items[i], to->user);
    }
    qn_arena_finish(&arena);
    return status;
}

quern_status qn_redis_limits(struct qn_broker *broker, const char *queue,
                             bool (*on_limit)(const quern_limit *limit, void *user), void *user,
                             quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    struct qn_arena arena = {0};
    struct qn_names queues = {NULL, 0};
    const struct receiver to = {on_limit, user};
    bool go_on = true;
    quern_status status =
        report_limits(self, queue != NULL ? queue : QUERN_ALL_QUEUES, &to, &go_on, err);
    if (status == QUERN_OK && queue == NULL) {
        status = qn_redis_inspect_queues(self, &arena, &queues, err);
    }
    for (size_t i = 0; status == QUERN_OK && go_on && i < queues.count; i++) {
        status = report_limits(self, queues.items[i], &to, &go_on, err);
    }
    qn_arena_finish(&arena);
    return status;
}
