/* SPDX-License-Identifier: MIT */
/* trigger.c - enqueues the task of an entry by hand (trigger.lua). */
#include "base/bug.h"
#include "base/error.h"
#include "broker/redis/run/task_row.h"
#include "broker/redis/schedule/schedule_queues.h"
#include "broker/redis/schedule/trigger_lua.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"

/* The id of the task that holds the lock, in place of one that was stored. */
static quern_status report_holder(const char *id, const struct qn_trigger *trigger,
                                  quern_error *err)
{
    if (trigger->ret_holder == NULL) {
        return QUERN_OK;
    }
    *trigger->ret_holder = qn_arena_strdup(trigger->arena, id);
    return *trigger->ret_holder == NULL ? qn_error_nomem(err) : QUERN_OK;
}

static quern_status result_of(const struct qn_reply *reply, const struct qn_trigger *trigger,
                              quern_error *err)
{
    const char *letter = qn_reply_text(reply);
    switch (*letter) {
    case 'o':
        return QUERN_OK;
    case 'i':
    case 'r':
        return report_holder(letter + 1, trigger, err);
    case 'd':
        return qn_error_set(err, QUERN_E_DUPLICATE, "an equal task is there already");
    case 'c':
        return qn_error_set(err, QUERN_E_CONFLICT, "there is a task with the id \"%s\"",
                            trigger->task->id);
    case 'f':
        return qn_error_set(err, QUERN_E_FULL, "queue \"%s\" has its max_pending tasks",
                            trigger->task->queue);
    case 'g':
        return qn_error_set(err, QUERN_E_NOT_FOUND, "queue \"%s\" has no entry \"%s\"",
                            trigger->task->queue, trigger->name);
    default:
        return qn_error_set(err, QUERN_E_CORRUPT, "entry \"%s\" of queue \"%s\" is damaged",
                            trigger->name, trigger->task->queue);
    }
}

quern_status qn_redis_schedule_trigger(struct qn_broker *broker, const struct qn_trigger *trigger,
                                       quern_error *err)
{
    struct qn_pipeline pipeline;
    struct qn_bytes message = {0};
    const struct qn_reply *reply = NULL;
    if (trigger->ret_holder != NULL) {
        *trigger->ret_holder = NULL;
    }
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    quern_status status = qn_task_fields_encode(pipeline.arena, trigger->task, &message, err);
    if (status == QUERN_OK) {
        qn_pipeline_script(&pipeline, &qn_lua_trigger, 1);
        qn_keys_add_prefix(&pipeline, trigger->task->queue);
        qn_keys_add_session(&pipeline, trigger->stamp.session);
        qn_pipeline_uint(&pipeline, QN_BUG(REPLAY_IGNORED) ? 0 : trigger->stamp.sequence);
        qn_pipeline_text(&pipeline, trigger->name);
        qn_pipeline_text(&pipeline, trigger->task->id);
        qn_pipeline_bytes(&pipeline, message.data, message.size);
        qn_task_row_add(&pipeline, trigger->task, 1);
        status = qn_pipeline_ask(&pipeline, &reply, err);
    }
    if (status == QUERN_OK) {
        status = qn_pipeline_expect(&pipeline, reply->type == QN_REPLY_TEXT && reply->size >= 1,
                                    "trigger", err);
    }
    if (status == QUERN_OK) {
        status = result_of(reply, trigger, err);
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_E_FULL) {
        qn_redis_full_explain(qn_redis_of(broker), err);
    }
    return status;
}
