/* SPDX-License-Identifier: MIT */
/* find.c - one task by its id, for clients and inspectors.
 *
 * A listing of the tasks with this id, of which two are enough to know that it is not the only one.
 * A short id is looked for as it is first, so that a whole id always wins and never costs a search;
 * then it is completed from the ids that begin so. Only UUIDs are completed: an id that a
 * program chose, as order-1, would else be taken for order-10 once its task is done and gone. */
#include "broker/find.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "message/id.h"
#include "task/lifecycle.h"

#define FOUND_MAX 2
#define NAMED_MAX 3 /* ids in the text, which holds no more */

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
        return qn_lifecycle_refuse_several(id, quern_task_info_queue(found->items[0]),
                                           quern_task_info_queue(found->items[1]), err);
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

/* --- Short ids --------------------------------------------------------------------------- */

struct matches {
    const char *queue; /* NULL: all */
    char ids[NAMED_MAX][QN_ID_TEXT_SIZE];
    size_t count;
};

/* One that is reported twice counts once, and so does one id in two queues: the listing of that id
 * finds both. */
static bool keep_match(const char *queue, const char *id, void *user)
{
    struct matches *matches = user;
    bool is_elsewhere = matches->queue != NULL && strcmp(matches->queue, queue) != 0;
    if (is_elsewhere || qn_id_uuid_size(id) != QN_ID_TEXT_SIZE - 1) {
        return true;
    }
    for (size_t i = 0; i < matches->count && i < NAMED_MAX; i++) {
        if (strcmp(matches->ids[i], id) == 0) {
            return true;
        }
    }
    if (matches->count < NAMED_MAX) {
        (void)snprintf(matches->ids[matches->count], QN_ID_TEXT_SIZE, "%s", id);
    }
    return ++matches->count <= NAMED_MAX;
}

static quern_status refuse_ambiguous(const struct matches *matches, const char *id,
                                     quern_error *err)
{
    return qn_error_set(err, QUERN_E_STATE, "several tasks begin with %s: %s, %s%s%s%s", id,
                        matches->ids[0], matches->ids[1], matches->count > 2 ? ", " : "",
                        matches->count > 2 ? matches->ids[2] : "",
                        matches->count > NAMED_MAX ? " and others" : "");
}

quern_status qn_find_short(struct qn_broker *broker, const char *queue, const char *id,
                           quern_task_info **ret_info, quern_error *err)
{
    struct matches matches = {.queue = queue};
    size_t size = qn_id_uuid_size(id);
    quern_status status = qn_find_task(broker, queue, id, ret_info, err);
    if (status != QUERN_E_NOT_FOUND || size < QN_ID_SHORT_SIZE_MIN || size == QN_ID_TEXT_SIZE - 1) {
        return status;
    }
    status = qn_broker_match_id(broker, id, keep_match, &matches, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (matches.count == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s, and no id begins with it", id);
    }
    return matches.count == 1 ? qn_find_task(broker, queue, matches.ids[0], ret_info, err)
                              : refuse_ambiguous(&matches, id, err);
}
