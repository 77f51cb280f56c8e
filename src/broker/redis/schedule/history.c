/* SPDX-License-Identifier: MIT */
/* history.c - what became of the ticks of an entry (lib_history.lua). Asynq's own list, which Go
 * reads, has no ticks; so ours is read. */
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/redis/schedule/schedule_queues.h"
#include "broker/redis/schema/keys.h"

/* "at_ms tick_s what skipped id"; a damaged line is left out. */
static bool read_line(const char *line, struct qn_tick_event *ret_event)
{
    uint64_t numbers[4];
    struct qn_cursor cursor = {line, line + strlen(line)};
    for (size_t i = 0; i < 4; i++) {
        if (!qn_number_take(&cursor, &numbers[i]) || !qn_number_take_char(&cursor, ' ') ||
            numbers[i] > QN_MOMENT_MS_MAX) {
            return false;
        }
    }
    bool is_what = numbers[2] >= QN_TICK_ENQUEUE && numbers[2] <= QN_TICK_REPLACED;
    bool is_count = numbers[3] <= UINT32_MAX;
    if (is_what && is_count) {
        *ret_event = (struct qn_tick_event){.at_ms = (int64_t)numbers[0],
                                            .tick_s = (int64_t)numbers[1],
                                            .what = (enum qn_tick_what)numbers[2],
                                            .skipped = (uint32_t)numbers[3],
                                            .id = cursor.at};
    }
    return is_what && is_count;
}

struct answer {
    struct qn_arena arena;
    struct qn_names lines;
    int64_t now_ms;
};

static quern_status ask(struct qn_redis *self, const struct qn_entry_key *key,
                        struct answer *answer, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *time = NULL;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "TIME");
    qn_pipeline_command(&pipeline, "LRANGE");
    qn_keys_add(&pipeline, key->queue,
                qn_arena_printf(pipeline.arena, QN_KEY_TICKLOG "%s", key->name));
    qn_pipeline_int(&pipeline, 0);
    qn_pipeline_int(&pipeline, QN_TICK_HISTORY_MAX - 1);
    quern_status status = qn_pipeline_ask(&pipeline, &time, err);
    if (status == QUERN_OK) {
        answer->now_ms = qn_reply_seconds(qn_reply_at(time, 0)) * 1000;
        status = qn_pipeline_reply(&pipeline, 1, &reply, err);
    }
    const char **lines = NULL;
    if (status == QUERN_OK) {
        lines = qn_arena_alloc(&answer->arena, (reply->count + 1) * sizeof *lines);
        status = lines == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    for (size_t i = 0; status == QUERN_OK && i < reply->count; i++) {
        lines[i] = qn_arena_strdup(&answer->arena, qn_reply_text(qn_reply_at(reply, i)));
        status = lines[i] == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    if (status == QUERN_OK) {
        answer->lines = (struct qn_names){lines, reply->count};
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_schedule_history(struct qn_broker *broker, const struct qn_entry_key *key,
                                       bool (*on_event)(const struct qn_tick_event *event,
                                                        void *user),
                                       void *user, quern_error *err)
{
    struct answer answer = {0};
    bool goes_on = true;
    quern_status status = ask(qn_redis_of(broker), key, &answer, err);
    for (size_t i = 0; status == QUERN_OK && goes_on && i < answer.lines.count; i++) {
        struct qn_tick_event event;
        if (read_line(answer.lines.items[i], &event) &&
            event.at_ms > answer.now_ms - QN_TICK_HISTORY_MS) {
            goes_on = on_event(&event, user);
        }
    }
    qn_arena_finish(&answer.arena);
    return status;
}
