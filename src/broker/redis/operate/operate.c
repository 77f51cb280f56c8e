/* SPDX-License-Identifier: MIT */
/* operate.c - an operation by hand on one task.
 *
 * The queue is found first, if it is not given; the script (operate.lua) then decides by the state
 * of the task. The unique lock is named by a field of the hash; for grouped tasks of Go by the
 * message only, so the message is read before a task is deleted. A cancellation sets a mark and
 * publishes the id in one step: a worker of ours reads the mark with its next extension at the
 * latest; a worker of Go receives only the publication, or misses it, and always retries. */
#include "broker/redis/operate/operate.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/redis/operate/operate_lua.h"
#include "broker/redis/schema/keys.h"
#include "message/asynq/asynq.h"
#include "task/lifecycle.h"
#include "task/limits.h"

static const char *word_of(quern_action action)
{
    switch (action) {
    case QUERN_ACTION_RUN:
        return "run";
    case QUERN_ACTION_ARCHIVE:
        return "archive";
    case QUERN_ACTION_DELETE:
        return "delete";
    case QUERN_ACTION_TRASH:
        return "trash";
    case QUERN_ACTION_CANCEL_RETRY:
        return "retry";
    case QUERN_ACTION_CANCEL_ARCHIVE:
    case QUERN_ACTION_RESTORE: /* trash_act.c */
        break;
    }
    return "stop";
}

void qn_operate_add(struct qn_pipeline *pipeline, quern_action action,
                    const struct qn_operate_tasks *tasks)
{
    qn_pipeline_script(pipeline, &qn_lua_operate, 1);
    qn_keys_add_prefix(pipeline, tasks->queue);
    qn_pipeline_text(pipeline, word_of(action));
    qn_pipeline_text(pipeline, tasks->state == NULL ? "" : tasks->state);
    qn_pipeline_int(pipeline, QN_ARCHIVE_SIZE_MAX);
    for (size_t i = 0; i < tasks->count; i++) {
        qn_pipeline_bytes(pipeline, tasks->items[i].id, tasks->items[i].id_size);
        qn_pipeline_text(pipeline, tasks->items[i].unique_key);
    }
}

bool qn_operate_is_full(const struct qn_reply *reply)
{
    const char *word = qn_reply_text(qn_reply_at(reply, 0));
    return strcmp(word, "full") == 0 || strcmp(word, "trash") == 0;
}

quern_status qn_operate_refuse_full(const char *queue, const struct qn_reply *reply,
                                    quern_error *err)
{
    if (strcmp(qn_reply_text(qn_reply_at(reply, 0)), "trash") == 0) {
        const struct qn_trash_use use = {qn_reply_uint(qn_reply_at(reply, 1)),
                                         qn_reply_uint(qn_reply_at(reply, 2))};
        return qn_trash_refuse_full(queue, use, err);
    }
    int64_t archived = qn_number_clamp(qn_reply_int(qn_reply_at(reply, 1), 0), 0, UINT32_MAX);
    int64_t more = qn_number_clamp(qn_reply_int(qn_reply_at(reply, 2), 0), 0, UINT32_MAX);
    return qn_error_set(err, QUERN_E_STATE,
                        "the archive holds %lld of %d tasks; archiving %lld more would delete its "
                        "oldest %lld",
                        (long long)archived, QN_ARCHIVE_SIZE_MAX, (long long)more,
                        (long long)(archived + more - QN_ARCHIVE_SIZE_MAX));
}

/* --- Where it is ---------------------------------------------------------------------- */

struct places {
    char queues[2][QN_NAME_SIZE_MAX + 1]; /* the first and another */
    size_t count;
};

static bool add_place(const struct qn_place *place, const struct qn_task_entry *entry, void *user)
{
    struct places *places = user;
    (void)entry;
    (void)snprintf(places->queues[places->count], sizeof places->queues[0], "%s", place->queue);
    return ++places->count < 2;
}

static quern_status find_queue_of(struct qn_redis *self, const char *id, struct places *places,
                                  quern_error *err)
{
    struct qn_arena arena = {0};
    const struct qn_place_sink sink = {.on_place = add_place, .user = places};
    struct qn_names queues;
    quern_status status = qn_redis_inspect_queues(self, &arena, &queues, err);
    if (status == QUERN_OK) {
        status = qn_find_id(self, queues, id, &sink, err);
    }
    qn_arena_finish(&arena);
    if (status == QUERN_OK && places->count == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s in any queue", id);
    }
    if (status == QUERN_OK && places->count > 1) {
        return qn_lifecycle_refuse_several(id, places->queues[0], places->queues[1], err);
    }
    return status;
}

/* --- Doing it ------------------------------------------------------------------------- */

static quern_status refuse_operation(quern_action action, const char *queue, const char *id,
                                     const struct qn_reply *reply, quern_error *err)
{
    const char *why = qn_reply_text(qn_reply_at(reply, 0));
    if (qn_operate_is_full(reply)) {
        return qn_operate_refuse_full(queue, reply, err);
    }
    if (strcmp(why, "missing") == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s in queue %s", id, queue);
    }
    if (strcmp(why, "set") == 0) {
        return qn_error_set(err, QUERN_E_STATE,
                            "cannot %s task %s: it is being aggregated with its group",
                            qn_lifecycle_verb(action), id);
    }
    quern_task_state state = qn_lifecycle_parse(why);
    if (state != 0) {
        return qn_lifecycle_refuse(action, state, id, err);
    }
    return qn_error_set(err, QUERN_E_STATE, "cannot %s task %s: it is %s%s",
                        qn_lifecycle_verb(action), id, why,
                        strcmp(why, "damaged") == 0 ? "; delete it instead" : "");
}

/* The lock that the message names; "" when it cannot be read. */
static quern_status read_lock(struct qn_pipeline *pipeline, const char *queue,
                              struct qn_operate_task *task, quern_error *err)
{
    const struct qn_task_entry entry = {.id = task->id, .id_size = task->id_size};
    const struct qn_reply *reply = NULL;
    struct qn_asynq_task message;
    qn_pipeline_command(pipeline, "HGET");
    qn_pipeline_limit(pipeline, QN_REPLY_TASKS_MAX);
    qn_keys_add_task(pipeline, queue, entry.id, entry.id_size);
    qn_pipeline_text(pipeline, "msg");
    quern_status status = qn_pipeline_run(pipeline, err);
    if (status == QUERN_OK && qn_pipeline_reply(pipeline, 0, &reply, NULL) == QUERN_OK &&
        reply->type == QN_REPLY_TEXT &&
        qn_asynq_task_decode(pipeline->arena, reply->data, reply->size, &message, NULL) ==
            QUERN_OK) {
        task->unique_key = message.unique_key;
    }
    return status;
}

static quern_status act_in(struct qn_redis *self, quern_action action, const char *queue,
                           const char *id, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    struct qn_operate_task task = {.id = id, .id_size = strlen(id), .unique_key = ""};
    quern_status status = QUERN_OK;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    if (action == QUERN_ACTION_DELETE || action == QUERN_ACTION_TRASH) {
        status = read_lock(&pipeline, queue, &task, err);
    }
    if (status == QUERN_OK) {
        const struct qn_operate_tasks tasks = {.queue = queue, .items = &task, .count = 1};
        qn_operate_add(&pipeline, action, &tasks);
        status = qn_pipeline_run(&pipeline, err);
    }
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(&pipeline, pipeline.command_count - 1, &reply, err);
    }
    if (status == QUERN_OK) {
        const char *word = qn_reply_text(qn_reply_at(reply, 0));
        status =
            strcmp(word, "done") == 0 ? QUERN_OK : refuse_operation(action, queue, id, reply, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_operate(struct qn_broker *broker, quern_action action, const char *queue,
                              const char *id, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    struct places places = {0};
    quern_status status = QUERN_OK;
    if (queue == NULL) {
        status = find_queue_of(self, id, &places, err);
        queue = places.queues[0];
    }
    return status == QUERN_OK ? act_in(self, action, queue, id, err) : status;
}
