/* SPDX-License-Identifier: MIT */
/* find.c - one task by its id, for clients and inspectors.
 *
 * A listing of the tasks with this id, of which two are enough to know that it is not the only one.
 */
#include "broker/find.h"

#include "base/error.h"

#define FOUND_MAX 2

struct found {
    quern_task_info *items[FOUND_MAX];
    size_t count;
    bool no_memory;
};

static bool keep(const quern_task_info *info, void *user)
{
    struct found *found = user;
    quern_task_info *copy = qn_task_info_copy(info);
    found->no_memory = copy == NULL;
    if (copy != NULL) {
        found->items[found->count++] = copy;
    }
    return copy != NULL && found->count < FOUND_MAX;
}

static quern_status take_only(struct found *found, const char *id, quern_task_info **ret_info,
                              quern_error *err)
{
    if (found->no_memory) {
        return qn_error_nomem(err);
    }
    if (found->count == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s", id);
    }
    if (found->count > 1) {
        return qn_error_set(
            err, QUERN_E_STATE, "task %s is in several queues, %s and %s among them: say which", id,
            quern_task_info_queue(found->items[0]), quern_task_info_queue(found->items[1]));
    }
    *ret_info = found->items[0];
    found->count = 0;
    return QUERN_OK;
}

quern_status qn_find_task(struct qn_broker *broker, const char *queue, const char *id,
                          quern_task_info **ret_info, quern_error *err)
{
    const quern_task_filter filter = {.queue = queue, .id = id, .limit = FOUND_MAX};
    struct found found = {.count = 0};
    quern_status status = qn_broker_tasks(broker, &filter, keep, &found, err);
    if (status == QUERN_OK) {
        status = take_only(&found, id, ret_info, err);
    }
    for (size_t i = 0; i < found.count; i++) {
        quern_task_info_free(found.items[i]);
    }
    return status;
}
