/* SPDX-License-Identifier: MIT */
/* restore.c - one task comes back from the trash; first its queue is found. */
#include "inspect/restore.h"

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "broker/inspect.h"
#include "task/lifecycle.h"

struct queues {
    struct qn_arena arena;
    const char **names;
    size_t count;
    size_t capacity;
    bool no_memory;
};

static bool add_queue(const quern_queue_info *queue, void *user)
{
    struct queues *queues = user;
    const char **names =
        qn_vec_grow(queues->names, queues->count, &queues->capacity, sizeof(const char *));
    const char *name = qn_arena_strdup(&queues->arena, queue->name);
    queues->names = names != NULL ? names : queues->names;
    queues->no_memory = names == NULL || name == NULL;
    if (!queues->no_memory) {
        queues->names[queues->count++] = name;
    }
    return !queues->no_memory;
}

/* In the trash of one queue; dry: only says what would become of it. */
static quern_status act(struct qn_broker *broker, struct qn_trash_list list, const char *id,
                        enum qn_trash_result *ret_result, quern_error *err)
{
    const struct qn_found found = {.id = id};
    list.action = QUERN_ACTION_RESTORE;
    list.items = &found;
    list.count = 1;
    return qn_broker_trash_act(broker, &list, ret_result, err);
}

static quern_status restore_in(struct qn_broker *broker, const char *queue, const char *id,
                               quern_error *err)
{
    enum qn_trash_result result = QN_TRASH_MISSING;
    quern_status status = act(broker, (struct qn_trash_list){.queue = queue}, id, &result, err);
    return status == QUERN_OK ? qn_trash_refuse(result, queue, id, err) : status;
}

static quern_status find_queue(struct qn_broker *broker, const struct queues *queues,
                               const char *id, const char **ret_queue, quern_error *err)
{
    const char *found = NULL;
    for (size_t i = 0; i < queues->count; i++) {
        enum qn_trash_result result = QN_TRASH_MISSING;
        const struct qn_trash_list look = {.queue = queues->names[i], .dry = true};
        quern_status status = act(broker, look, id, &result, err);
        if (status != QUERN_OK) {
            return status;
        }
        if (result != QN_TRASH_MISSING && found != NULL) {
            return qn_lifecycle_refuse_several(id, found, queues->names[i], err);
        }
        found = result != QN_TRASH_MISSING ? queues->names[i] : found;
    }
    *ret_queue = found;
    return found != NULL
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s in the trash of any queue", id);
}

quern_status qn_restore_task(struct qn_broker *broker, const char *queue, const char *id,
                             quern_error *err)
{
    struct queues queues = {.count = 0};
    quern_status status = QUERN_OK;
    if (queue == NULL) {
        status = qn_broker_queues(broker, NULL, add_queue, &queues, err);
        if (status == QUERN_OK && queues.no_memory) {
            status = qn_error_nomem(err);
        }
        if (status == QUERN_OK) {
            status = find_queue(broker, &queues, id, &queue, err);
        }
    }
    if (status == QUERN_OK) {
        status = restore_in(broker, queue, id, err);
    }
    qn_free(queues.names);
    qn_arena_finish(&queues.arena);
    return status;
}
