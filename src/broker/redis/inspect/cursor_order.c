/* SPDX-License-Identifier: MIT */
/* cursor_order.c - puts the spots of a block in order by the moments that we know exactly. */
#include <stdlib.h>

#include "base/error.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"

bool qn_spots_reversed(const struct qn_spots *spots)
{
    bool ended = spots->state == QUERN_TASK_ARCHIVED || spots->state == QUERN_TASK_COMPLETED;
    return ended && !spots->oldest_first;
}

/* What says it exactly: the due index for what is to come, quern_past for what is over. */
static void ask_moments(struct qn_pipeline *pipeline, const struct qn_spots *spots, size_t first,
                        size_t count)
{
    bool due = spots->state == QUERN_TASK_SCHEDULED || spots->state == QUERN_TASK_RETRY;
    if (due) {
        qn_pipeline_command(pipeline, "ZMSCORE");
        qn_keys_add(pipeline, spots->queue, "quern:due");
    }
    for (size_t i = first; i < first + count; i++) {
        if (due) {
            qn_pipeline_bytes(pipeline, spots->spots[i].id, spots->spots[i].id_size);
        } else {
            qn_pipeline_command(pipeline, "HGET");
            qn_look_task_key(pipeline, spots->queue, &spots->spots[i]);
            qn_pipeline_text(pipeline, "quern_past");
        }
    }
}

static void set_moment(const struct qn_spots *spots, struct qn_spot *spot,
                       const struct qn_reply *reply)
{
    if (spots->state != QUERN_TASK_ARCHIVED && spots->state != QUERN_TASK_COMPLETED) {
        int64_t due_at_ms = qn_reply_moment_ms(reply);
        if (due_at_ms > 0 && (due_at_ms + 999) / 1000 == spot->score) {
            spot->at_ms = due_at_ms;
        }
        return;
    }
    struct qn_field_past past;
    qn_field_past_read(qn_reply_text(reply), reply->type == QN_REPLY_TEXT ? reply->size : 0, &past);
    /* Completed by Go: 0 here, see set_completed. */
    if (spots->state == QUERN_TASK_COMPLETED || past.ended_at_ms / 1000 == spot->score) {
        spot->at_ms = past.ended_at_ms;
    }
}

/* Go's completed tasks say it in their messages only. */
static quern_status set_completed(struct qn_spots *spots, size_t first, size_t count,
                                  quern_error *err)
{
    struct qn_pipeline pipeline;
    size_t asked = 0;
    qn_redis_begin(&pipeline, spots->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = first; i < first + count; i++) {
        if (spots->spots[i].at_ms == 0) {
            qn_pipeline_command(&pipeline, "HGET");
            qn_pipeline_limit(&pipeline, QN_REPLY_TASKS_MAX);
            qn_look_task_key(&pipeline, spots->queue, &spots->spots[i]);
            qn_pipeline_text(&pipeline, "msg");
            asked++;
        }
    }
    quern_status status = asked > 0 ? qn_pipeline_run(&pipeline, err) : QUERN_OK;
    for (size_t i = first, at = 0; status == QUERN_OK && at < asked; i++) {
        const struct qn_reply *reply = NULL;
        struct qn_asynq_task message;
        if (spots->spots[i].at_ms == 0 &&
            qn_pipeline_reply(&pipeline, at++, &reply, NULL) == QUERN_OK &&
            reply->type == QN_REPLY_TEXT &&
            qn_asynq_task_decode(pipeline.arena, reply->data, reply->size, &message, NULL) ==
                QUERN_OK) {
            spots->spots[i].at_ms = message.completed_at_ms;
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status read_moments(struct qn_spots *spots, size_t first, size_t count,
                                 quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, spots->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    ask_moments(&pipeline, spots, first, count);
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        static const struct qn_reply nothing = {.type = QN_REPLY_NIL};
        const struct qn_reply *reply = &nothing;
        /* An error (a key of a wrong type) is met again where the task itself is read. */
        if (qn_pipeline_reply(&pipeline, pipeline.command_count == 1 ? 0 : i, &reply, NULL) !=
            QUERN_OK) {
            reply = &nothing;
        }
        set_moment(spots, &spots->spots[first + i],
                   reply->type == QN_REPLY_ARRAY ? qn_reply_at(reply, i) : reply);
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK && spots->state == QUERN_TASK_COMPLETED) {
        status = set_completed(spots, first, count, err);
    }
    return status;
}

static int by_moment(const void *a, const void *b)
{
    const struct qn_spot *left = a;
    const struct qn_spot *right = b;
    if (left->at_ms != right->at_ms) {
        return left->at_ms < right->at_ms ? -1 : 1;
    }
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static int by_moment_reversed(const void *a, const void *b)
{
    const struct qn_spot *left = a;
    const struct qn_spot *right = b;
    if (left->at_ms != right->at_ms) {
        return left->at_ms > right->at_ms ? -1 : 1;
    }
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

quern_status qn_spots_sort(struct qn_spots *spots, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < spots->count; i += QN_LOOK_BATCH) {
        size_t left = spots->count - i;
        status = read_moments(spots, i, left < QN_LOOK_BATCH ? left : QN_LOOK_BATCH, err);
    }
    if (status == QUERN_OK && spots->count > 1) {
        qsort(spots->spots, spots->count, sizeof *spots->spots,
              qn_spots_reversed(spots) ? by_moment_reversed : by_moment);
    }
    return status;
}
