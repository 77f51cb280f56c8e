/* SPDX-License-Identifier: MIT */
/* cursor_order.c - puts the entries of a block in order by the moments that we know exactly. */
#include <stdlib.h>

#include "base/error.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"

bool qn_cursor_order_is_reversed(const struct qn_task_cursor *cursor)
{
    bool ended = cursor->state == QUERN_TASK_ARCHIVED || cursor->state == QUERN_TASK_COMPLETED;
    return ended && !cursor->oldest_first;
}

/* The exact moment: in the due index for the future, in quern_past for the past. */
static void ask_moments(struct qn_pipeline *pipeline, const struct qn_task_cursor *cursor,
                        size_t first, size_t count)
{
    bool due = cursor->state == QUERN_TASK_SCHEDULED || cursor->state == QUERN_TASK_RETRY;
    if (due) {
        qn_pipeline_command(pipeline, "ZMSCORE");
        qn_keys_add(pipeline, cursor->queue, QN_KEY_DUE);
    }
    for (size_t i = first; i < first + count; i++) {
        if (due) {
            qn_pipeline_bytes(pipeline, cursor->entries[i].id, cursor->entries[i].id_size);
        } else {
            qn_pipeline_command(pipeline, "HGET");
            qn_keys_add_task(pipeline, cursor->queue, cursor->entries[i].id,
                             cursor->entries[i].id_size);
            qn_pipeline_text(pipeline, "quern_past");
        }
    }
}

static void set_moment(const struct qn_task_cursor *cursor, struct qn_task_entry *entry,
                       const struct qn_reply *reply)
{
    if (cursor->state != QUERN_TASK_ARCHIVED && cursor->state != QUERN_TASK_COMPLETED) {
        int64_t due_at_ms = qn_reply_moment_ms(reply);
        if (due_at_ms > 0 && (due_at_ms + 999) / 1000 == entry->score) {
            entry->at_ms = due_at_ms;
        }
        return;
    }
    struct qn_task_fields_past past;
    qn_task_fields_past_read(qn_reply_text(reply), reply->type == QN_REPLY_TEXT ? reply->size : 0,
                             &past);
    /* Completed by Go: 0 here, see set_completed. */
    if (cursor->state == QUERN_TASK_COMPLETED || past.ended_at_ms / 1000 == entry->score) {
        entry->at_ms = past.ended_at_ms;
    }
}

/* Go's completed tasks have it in their messages only. */
static quern_status set_completed(struct qn_task_cursor *cursor, size_t first, size_t count,
                                  quern_error *err)
{
    struct qn_pipeline pipeline;
    size_t asked = 0;
    qn_redis_begin(&pipeline, cursor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = first; i < first + count; i++) {
        if (cursor->entries[i].at_ms == 0) {
            qn_pipeline_command(&pipeline, "HGET");
            qn_pipeline_limit(&pipeline, QN_REPLY_TASKS_MAX);
            qn_keys_add_task(&pipeline, cursor->queue, cursor->entries[i].id,
                             cursor->entries[i].id_size);
            qn_pipeline_text(&pipeline, "msg");
            asked++;
        }
    }
    quern_status status = asked > 0 ? qn_pipeline_run(&pipeline, err) : QUERN_OK;
    for (size_t i = first, at = 0; status == QUERN_OK && at < asked; i++) {
        const struct qn_reply *reply = NULL;
        struct qn_asynq_task message;
        if (cursor->entries[i].at_ms == 0 &&
            qn_pipeline_reply(&pipeline, at++, &reply, NULL) == QUERN_OK &&
            reply->type == QN_REPLY_TEXT &&
            qn_asynq_task_decode(pipeline.arena, reply->data, reply->size, &message, NULL) ==
                QUERN_OK) {
            cursor->entries[i].at_ms = message.completed_at_ms;
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status read_moments(struct qn_task_cursor *cursor, size_t first, size_t count,
                                 quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, cursor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    ask_moments(&pipeline, cursor, first, count);
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        static const struct qn_reply nothing = {.type = QN_REPLY_NIL};
        const struct qn_reply *reply = &nothing;
        /* An error (a key of a wrong type) is met again where the task itself is read. */
        if (qn_pipeline_reply(&pipeline, pipeline.command_count == 1 ? 0 : i, &reply, NULL) !=
            QUERN_OK) {
            reply = &nothing;
        }
        set_moment(cursor, &cursor->entries[first + i],
                   reply->type == QN_REPLY_ARRAY ? qn_reply_at(reply, i) : reply);
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK && cursor->state == QUERN_TASK_COMPLETED) {
        status = set_completed(cursor, first, count, err);
    }
    return status;
}

static int by_moment(const void *a, const void *b)
{
    const struct qn_task_entry *left = a;
    const struct qn_task_entry *right = b;
    if (left->at_ms != right->at_ms) {
        return left->at_ms < right->at_ms ? -1 : 1;
    }
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static int by_moment_reversed(const void *a, const void *b)
{
    const struct qn_task_entry *left = a;
    const struct qn_task_entry *right = b;
    if (left->at_ms != right->at_ms) {
        return left->at_ms > right->at_ms ? -1 : 1;
    }
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

quern_status qn_cursor_order_date(struct qn_task_cursor *cursor, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < cursor->count; i += QN_INSPECT_BATCH) {
        size_t left = cursor->count - i;
        status = read_moments(cursor, i, left < QN_INSPECT_BATCH ? left : QN_INSPECT_BATCH, err);
    }
    return status;
}

quern_status qn_cursor_order_sort(struct qn_task_cursor *cursor, quern_error *err)
{
    quern_status status = qn_cursor_order_date(cursor, err);
    if (status == QUERN_OK && cursor->count > 1) {
        qsort(cursor->entries, cursor->count, sizeof *cursor->entries,
              qn_cursor_order_is_reversed(cursor) ? by_moment_reversed : by_moment);
    }
    return status;
}
