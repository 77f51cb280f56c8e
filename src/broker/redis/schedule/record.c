/* SPDX-License-Identifier: MIT */
/* record.c - the entries of the leader as Go's Inspector lists them (record.lua): the id of an
 * entry is {<queue>}:<name>, so that its history has the hash tag of the queue. */
#include <string.h>

#include "base/error.h"
#include "base/text/duration.h"
#include "broker/redis/redis.h"
#include "broker/redis/schedule/record_lua.h"
#include "broker/redis/schema/keys.h"
#include "message/asynq/asynq.h"

#define OPTIONS_MAX 7
#define DURATION_SIZE 32
#define HOUR_MS (3600 * INT64_C(1000))
#define RECORD_ROWS_MAX 1000
#define RECORD_SIZE_MAX ((size_t)1 << 20) /* more: without payloads */

struct options {
    struct qn_arena *arena;
    const char *items[OPTIONS_MAX];
    size_t count;
    bool no_memory;
};

static void add_option(struct options *options, const char *text)
{
    options->no_memory = options->no_memory || text == NULL;
    options->items[options->count++] = text;
}

/* Go knows no days: hours are its longest unit. */
static void add_duration(struct options *options, const char *name, int64_t ms)
{
    char rest[DURATION_SIZE];
    long long hours = (long long)(ms / HOUR_MS);
    if (ms > 0) {
        qn_duration_format(ms % HOUR_MS, rest, sizeof rest);
        add_option(options, hours > 0
                                ? qn_arena_printf(options->arena, "%s(%lldh%s)", name, hours, rest)
                                : qn_arena_printf(options->arena, "%s(%s)", name, rest));
    }
}

/* As Go writes a text in quotes, as far as names go. */
static const char *quoted(struct qn_arena *arena, const char *text)
{
    char *out = qn_arena_alloc(arena, 2 * strlen(text) + 1);
    char *at = out;
    for (; out != NULL && *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            *at++ = '\\';
        }
        *at++ = *text;
    }
    if (out != NULL) {
        *at = '\0';
    }
    return out;
}

static void add_options(struct options *options, const struct qn_task *task)
{
    const char *queue = quoted(options->arena, task->queue);
    add_option(options,
               queue == NULL ? NULL : qn_arena_printf(options->arena, "Queue(\"%s\")", queue));
    add_option(options,
               qn_arena_printf(options->arena, "MaxRetry(%lld)", (long long)task->retry_max));
    add_duration(options, "Timeout", task->timeout_ms);
    add_duration(options, "Unique", task->unique_ms);
    add_duration(options, "Retention", task->retention_ms);
    add_duration(options, "ProcessIn", task->delay_ms);
    if (task->group != NULL) {
        const char *group = quoted(options->arena, task->group);
        add_option(options,
                   group == NULL ? NULL : qn_arena_printf(options->arena, "Group(\"%s\")", group));
    }
}

static quern_status encode(struct qn_arena *arena, const struct qn_record_row *row,
                           bool with_payload, struct qn_bytes *ret_bytes, quern_error *err)
{
    const struct qn_schedule_entry *entry = row->entry;
    struct options options = {.arena = arena};
    add_options(&options, &entry->task);
    const char *spec = entry->zone == NULL || entry->zone[0] == '\0'
                           ? entry->cron
                           : qn_arena_printf(arena, "CRON_TZ=%s %s", entry->zone, entry->cron);
    const char *id = qn_arena_printf(arena, "{%s}:%s", entry->task.queue, entry->name);
    if (options.no_memory || spec == NULL || id == NULL) {
        return qn_error_nomem(err);
    }
    const struct qn_asynq_schedule schedule = {
        .id = id,
        .spec = spec,
        .task_type = entry->task.type,
        .payload = with_payload ? entry->task.payload : NULL,
        .payload_size = with_payload ? entry->task.payload_size : 0,
        .options = options.items,
        .option_count = options.count,
        .next_at = qn_asynq_time_of_ms(row->next_s * 1000),
        .previous_at = qn_asynq_time_of_ms(row->prev_s * 1000)};
    return qn_asynq_schedule_encode(arena, &schedule, ret_bytes, err);
}

/* An entry that cannot be written, by a text that Go could not read, is left out. */
static quern_status add_rows(struct qn_pipeline *pipeline, const struct qn_record *record,
                             quern_error *err)
{
    size_t size = 0;
    size_t count = record->count < RECORD_ROWS_MAX ? record->count : RECORD_ROWS_MAX;
    for (size_t i = 0; i < count; i++) {
        size += record->rows[i].entry->task.payload_size;
    }
    for (size_t i = 0; i < count; i++) {
        struct qn_bytes bytes = {0};
        quern_status status =
            encode(pipeline->arena, &record->rows[i], size <= RECORD_SIZE_MAX, &bytes, err);
        if (status == QUERN_OK) {
            qn_pipeline_bytes(pipeline, bytes.data, bytes.size);
        } else if (status != QUERN_E_INVALID) {
            return status;
        }
    }
    return QUERN_OK;
}

quern_status qn_redis_schedule_record(struct qn_broker *broker, const struct qn_record *record,
                                      quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    int64_t live_s = record->count == 0 ? 0 : record->ttl_s;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    const char *key = qn_arena_printf(pipeline.arena, QN_KEY_SCHEDULERS ":{%s}", record->id);
    qn_pipeline_script(&pipeline, &qn_lua_record, 1);
    qn_pipeline_text(&pipeline, QN_KEY_SCHEDULERS);
    qn_pipeline_text(&pipeline, "list");
    qn_pipeline_int(&pipeline, live_s);
    qn_pipeline_text(&pipeline, key);
    qn_pipeline_script(&pipeline, &qn_lua_record, 1);
    qn_pipeline_text(&pipeline, key);
    qn_pipeline_text(&pipeline, "entries");
    qn_pipeline_int(&pipeline, live_s);
    quern_status status = add_rows(&pipeline, record, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_run(&pipeline, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < 2; i++) {
        status = qn_pipeline_reply(&pipeline, i, &reply, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}
