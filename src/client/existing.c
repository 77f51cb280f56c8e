/* SPDX-License-Identifier: MIT */
/* existing.c - the task because of which another one was refused.
 *
 * It is read after the refusal, in steps of its own: so it may be gone by then, which is no error.
 * The status of the refusal stays as it is, whatever happens here. */
#include "client/existing.h"

#include <stdio.h>
#include <string.h>

#include "broker/find.h"
#include "client/client.h"
#include "message/asynq/unique_key.h"

static quern_status find_holder(quern_client *client, const char *queue, const quern_task *task,
                                char *ret_id)
{
    struct qn_arena arena = {0};
    const char *key = NULL;
    const struct qn_uniqueness same = {
        .queue = queue, .type = task->type, .payload = {task->payload, task->payload_size}};
    quern_status status = qn_unique_key(&arena, &same, &key, NULL);
    if (status == QUERN_OK) {
        status = qn_broker_lock_holder(client->broker, key, ret_id, NULL);
    }
    qn_arena_finish(&arena);
    return status;
}

quern_task_info *qn_existing_task(quern_client *client, const quern_task *task, quern_error *err)
{
    const char *queue = task->queue == NULL ? "default" : task->queue;
    char holder[QN_NAME_SIZE_MAX + 1];
    const char *id = task->id;
    quern_task_info *info = NULL;
    if (err->code == QUERN_E_DUPLICATE) {
        if (find_holder(client, queue, task, holder) != QUERN_OK) {
            return NULL;
        }
        id = holder;
    }
    if (id == NULL || qn_find_task(client->broker, queue, id, &info, NULL) != QUERN_OK) {
        return NULL;
    }
    if (err->code == QUERN_E_DUPLICATE) {
        size_t used = strlen(err->text);
        (void)snprintf(err->text + used, sizeof err->text - used, ": %s", id);
    }
    return info;
}
