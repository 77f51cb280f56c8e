/* SPDX-License-Identifier: MIT */
/* finish_set.c - stores what was made of a set, and removes its members, in one script
 * (finish_set.lua).
 *
 * A member of Go names its lock in its message only, so the locks come from the members as they
 * were read. */
#include "base/bug.h"
#include "base/error.h"
#include "broker/redis/group/finish_set_lua.h"
#include "broker/redis/group/sets.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/task_row.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"

static void add_locks(struct qn_pipeline *pipeline, const struct qn_group_set *set)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        count += set->members[i]->task.unique_key != NULL;
    }
    qn_pipeline_uint(pipeline, count);
    for (size_t i = 0; i < set->count; i++) {
        const struct qn_task *task = &set->members[i]->task;
        if (task->unique_key != NULL) {
            qn_pipeline_text(pipeline, task->id);
            qn_pipeline_text(pipeline, task->unique_key);
        }
    }
}

static quern_status add_task(struct qn_pipeline *pipeline, const struct qn_task *task,
                             quern_error *err)
{
    struct qn_bytes message = {0};
    quern_status status = qn_task_fields_encode(pipeline->arena, task, &message, err);
    if (status == QUERN_OK) {
        qn_pipeline_text(pipeline, task->id);
        qn_pipeline_bytes(pipeline, message.data, message.size);
        qn_task_row_add(pipeline, task, 1);
    }
    return status;
}

static quern_status ask(struct qn_pipeline *pipeline, const struct qn_finish_set *finish,
                        char *ret_letter, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    qn_pipeline_script(pipeline, &qn_lua_finish_set, 1);
    qn_pipeline_hasty(pipeline); /* the caller asks again, and others need the channel */
    qn_keys_add_prefix(pipeline, finish->set->queue);
    qn_keys_add_session(pipeline, finish->stamp.session);
    qn_pipeline_uint(pipeline, QN_BUG(REPLAY_IGNORED) ? 0 : finish->stamp.sequence);
    qn_sets_add_key(pipeline, finish->set);
    add_locks(pipeline, finish->set);
    quern_status status = finish->task == NULL ? QUERN_OK : add_task(pipeline, finish->task, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_ask(pipeline, &reply, err);
    }
    *ret_letter = status == QUERN_OK ? qn_reply_text(reply)[0] : '\0';
    return status;
}

static quern_status refuse(const struct qn_group_set *set, quern_status status, const char *why,
                           quern_error *err)
{
    return qn_error_set(err, status, "the task that was made of the group \"%s\": %s", set->group,
                        why);
}

quern_status qn_redis_finish_set(struct qn_broker *broker, const struct qn_finish_set *finish,
                                 quern_error *err)
{
    struct qn_pipeline pipeline;
    char letter = '\0';
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    quern_status status = ask(&pipeline, finish, &letter, err);
    qn_pipeline_end(&pipeline);
    if (status != QUERN_OK || letter == 'o') {
        return status;
    }
    switch (letter) {
    case 's':
        return qn_sets_stale(finish->set, err);
    case 'd':
        return refuse(finish->set, QUERN_E_DUPLICATE, "another one has its unique lock", err);
    case 'c':
        return refuse(finish->set, QUERN_E_CONFLICT, "there is one with its id", err);
    case 'f':
        return refuse(finish->set, QUERN_E_FULL, "its queue is full", err);
    default:
        return qn_error_set(err, QUERN_E_BROKER, "unexpected reply to finish_set");
    }
}
