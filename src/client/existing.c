/* SPDX-License-Identifier: MIT */
/* existing.c - the task because of which another one was refused.
 *
 * Its id is known from the reply; it is read in a step of its own, so it may be gone by then, which
 * is no error. The status of the refusal stays as it is, whatever happens here. */
#include "client/existing.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "broker/find.h"
#include "broker/task_info.h"
#include "client/client.h"

static const char *queue_of(const quern_task *task)
{
    return task->queue == NULL ? "default" : task->queue;
}

quern_task_info *qn_existing_task(quern_client *client, const quern_task *task, const char *holder,
                                  quern_error *err)
{
    bool duplicate = err->code == QUERN_E_DUPLICATE;
    const char *id = !duplicate ? task->id : holder[0] != '\0' ? holder : NULL;
    quern_task_info *info = NULL;
    if (id == NULL || qn_find_task(client->broker, queue_of(task), id, &info, NULL) != QUERN_OK) {
        return NULL;
    }
    if (duplicate) {
        size_t used = strlen(err->text);
        (void)snprintf(err->text + used, sizeof err->text - used, ": %s", id);
    }
    info->existing = true;
    return info;
}

quern_status qn_existing_instead(quern_client *client, const quern_task *task, const char *holder,
                                 quern_task_info **info, quern_error *err)
{
    quern_task_info *found = NULL;
    quern_status status = qn_find_task(client->broker, queue_of(task), holder, &found, NULL);
    if (status != QUERN_OK) {
        struct quern_task_info stand_in = **info;
        stand_in.task.id = holder;
        found = qn_task_info_copy(&stand_in);
        if (found == NULL) {
            return qn_error_nomem(err);
        }
    }
    found->existing = true;
    quern_task_info_free(*info);
    *info = found;
    return QUERN_OK;
}
