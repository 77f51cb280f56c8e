/* SPDX-License-Identifier: MIT */
/* put.c - adds and replaces entries: a script for each (put.lua).
 *
 * First the queues are put on their lists, and the entries of the broker are counted: that is a
 * bound for schedulers, and two calls at a time may pass it by a few. Then all scripts go out in
 * one write, in their order, so that of two puts of one name the last one stays. */
#include <string.h>

#include "base/error.h"
#include "broker/redis/schedule/definition.h"
#include "broker/redis/schedule/put_lua.h"
#include "broker/redis/schedule/schedule_queues.h"
#include "broker/redis/schema/keys.h"

static const char *queue_of(const struct qn_put *put)
{
    return put->entry->task.queue;
}

static void add_queues(struct qn_pipeline *pipeline, const char *key, const struct qn_put *puts,
                       size_t count)
{
    qn_pipeline_command(pipeline, "SADD");
    qn_pipeline_text(pipeline, key);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(queue_of(&puts[i]), queue_of(&puts[i - 1])) != 0) {
            qn_pipeline_text(pipeline, queue_of(&puts[i]));
        }
    }
}

/* Lists the queues of the new entries, and reads how many entries there are. */
static quern_status prepare_queues(struct qn_pipeline *pipeline, const struct qn_put *puts,
                                   size_t count, int64_t *ret_stored, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    size_t first = pipeline->command_count;
    add_queues(pipeline, QN_KEY_QUEUES, puts, count);
    add_queues(pipeline, QN_KEY_SCHEDULES, puts, count);
    qn_pipeline_command(pipeline, "SMEMBERS");
    qn_pipeline_text(pipeline, QN_KEY_SCHEDULES);
    quern_status status = qn_pipeline_run(pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < 3; i++) {
        status = qn_pipeline_reply(pipeline, first + i, &reply, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    size_t first_size = pipeline->command_count;
    size_t queue_count = reply->count;
    for (size_t i = 0; i < queue_count; i++) {
        qn_pipeline_command(pipeline, "HLEN");
        qn_keys_add(pipeline, qn_reply_text(qn_reply_at(reply, i)), QN_KEY_ENTRIES);
    }
    status = queue_count > 0 ? qn_pipeline_run(pipeline, err) : QUERN_OK;
    *ret_stored = 0;
    for (size_t i = 0; status == QUERN_OK && i < queue_count; i++) {
        if (qn_pipeline_reply(pipeline, first_size + i, &reply, NULL) == QUERN_OK) {
            *ret_stored += qn_reply_int(reply, 0);
        }
    }
    return status;
}

static void add_put(struct qn_pipeline *pipeline, const struct qn_put *put, bool is_full,
                    const struct qn_definition *definition)
{
    qn_keys_add_prefix(pipeline, queue_of(put));
    qn_pipeline_text(pipeline, put->entry->name);
    if (put->expected == QN_REVISION_ANY) {
        qn_pipeline_text(pipeline, "any");
    } else {
        qn_pipeline_uint(pipeline, put->expected);
    }
    qn_pipeline_int(pipeline, put->entry->last_s);
    qn_pipeline_text(pipeline, is_full ? "1" : "0");
    qn_pipeline_bytes(pipeline, definition->when.data, definition->when.size);
    qn_pipeline_bytes(pipeline, definition->rest.data, definition->rest.size);
}

static quern_status take_result(const struct qn_pipeline *pipeline, size_t command,
                                struct qn_put *put, quern_error *err)
{
    static const char *const words[] = {
        [QN_PUT_ADDED] = "added",   [QN_PUT_REPLACED] = "replaced", [QN_PUT_SAME] = "same",
        [QN_PUT_EXISTS] = "exists", [QN_PUT_CHANGED] = "changed",   [QN_PUT_GONE] = "gone",
        [QN_PUT_FULL] = "full"};
    const struct qn_reply *reply = NULL;
    quern_status status = qn_pipeline_reply(pipeline, command, &reply, err);
    if (status != QUERN_OK) {
        return status;
    }
    const char *word = qn_reply_text(qn_reply_at(reply, 0));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            put->result = (enum qn_put_result)i;
            put->revision = qn_reply_uint(qn_reply_at(reply, 1));
            return QUERN_OK;
        }
    }
    return qn_pipeline_expect(pipeline, false, "put", err);
}

/* Fails only if no entry was put, or if the call has to be repeated to know. */
static quern_status take_results(const struct qn_pipeline *pipeline, size_t first,
                                 struct qn_put *puts, size_t count, quern_error *err)
{
    quern_status failure = QUERN_OK;
    size_t failed = 0;
    for (size_t i = 0; i < count; i++) {
        quern_status status =
            take_result(pipeline, first + i, &puts[i], failure == QUERN_OK ? err : NULL);
        failed += status == QUERN_OK ? 0 : 1;
        failure = failure == QUERN_OK ? status : failure;
    }
    if (failure == QUERN_OK || failed == count) {
        return failure;
    }
    return qn_error_as_unknown(err, "stored in part");
}

quern_status qn_redis_schedule_put(struct qn_broker *broker, struct qn_put *puts, size_t count,
                                   quern_error *err)
{
    if (count == 0) {
        return QUERN_OK;
    }
    struct qn_redis *self = qn_redis_of(broker);
    struct qn_pipeline pipeline;
    int64_t stored = 0;
    quern_status status = QUERN_OK;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    struct qn_definition *definitions = qn_arena_alloc(pipeline.arena, count * sizeof *definitions);
    if (definitions == NULL) {
        status = qn_error_nomem(err);
    }
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        status = qn_definition_encode(pipeline.arena, puts[i].entry, &definitions[i], err);
    }
    if (status == QUERN_OK) {
        status = prepare_queues(&pipeline, puts, count, &stored, err);
    }
    size_t first = pipeline.command_count;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        if (i == 0) {
            qn_pipeline_script_text(&pipeline, &qn_lua_put, 1);
        } else {
            qn_pipeline_script(&pipeline, &qn_lua_put, 1);
        }
        add_put(&pipeline, &puts[i], stored + (int64_t)i >= QN_ENTRIES_MAX, &definitions[i]);
    }
    if (status == QUERN_OK) {
        status = qn_pipeline_run(&pipeline, err);
    }
    if (status == QUERN_OK) {
        status = take_results(&pipeline, first, puts, count, err);
    }
    qn_pipeline_end(&pipeline);
    bool is_changed = status == QUERN_E_UNKNOWN;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        is_changed = is_changed || puts[i].result <= QN_PUT_REPLACED;
    }
    if (is_changed) {
        qn_schedule_changed(self);
    }
    if (status == QUERN_E_FULL) {
        qn_redis_full_explain(self, err);
    }
    return status;
}
