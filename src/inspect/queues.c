/* SPDX-License-Identifier: MIT */
/* queues.c - the list of queues that an inspector hands out. Names live in the list's arena. */
#include "inspect/queues.h"

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "inspect/inspector.h"

struct quern_queue_list {
    struct qn_arena arena;
    quern_queue_info *items;
    size_t count;
    size_t capacity;
    bool no_memory;
};

static bool add_queue(const quern_queue_info *queue, void *user)
{
    quern_queue_list *list = user;
    const char *name = qn_arena_strdup(&list->arena, queue->name);
    quern_queue_info *items = qn_vec_grow(list->items, list->count, &list->capacity, sizeof *items);
    list->items = items != NULL ? items : list->items;
    if (name == NULL || items == NULL) {
        list->no_memory = true;
        return false;
    }
    list->items[list->count] = *queue;
    list->items[list->count].name = name;
    list->count++;
    return true;
}

/* only: NULL: all. */
static quern_status list_queues(quern_inspector *inspector, const struct qn_names *only,
                                quern_queue_list **ret_list, quern_error *err)
{
    quern_queue_list *list = qn_alloc_zero(1, sizeof *list);
    if (list == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    if (only == NULL || only->count > 0) {
        status = qn_broker_queues(inspector->broker, only, add_queue, list, err);
    }
    if (status == QUERN_OK && list->no_memory) {
        status = qn_error_nomem(err);
    }
    if (status != QUERN_OK) {
        quern_queue_list_free(list);
        return status;
    }
    *ret_list = list;
    return QUERN_OK;
}

quern_status quern_inspector_queues(quern_inspector *inspector, quern_queue_list **ret_list,
                                    quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && ret_list == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "ret_list: must not be NULL");
    }
    return status == QUERN_OK ? list_queues(inspector, NULL, ret_list, err) : status;
}

quern_status qn_inspect_queues(quern_inspector *inspector, struct qn_names names,
                               quern_queue_list **ret_list, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    const char **found = NULL;
    size_t count = 0;
    if (status == QUERN_OK) {
        found = qn_alloc((names.count + 1) * sizeof *found);
        status = found == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    for (size_t i = 0; status == QUERN_OK && i < names.count; i++) {
        status = qn_broker_find_queue(inspector->broker, names.items[i], err);
        if (status == QUERN_OK) {
            found[count++] = names.items[i];
        }
        status = status == QUERN_E_NOT_FOUND ? QUERN_OK : status;
    }
    if (status == QUERN_OK) {
        const struct qn_names only = {.items = found, .count = count};
        status = list_queues(inspector, &only, ret_list, err);
    }
    qn_free(found);
    return status;
}

size_t quern_queue_list_size(const quern_queue_list *list)
{
    return list->count;
}

const quern_queue_info *quern_queue_list_at(const quern_queue_list *list, size_t index)
{
    return index < list->count ? &list->items[index] : NULL;
}

void quern_queue_list_free(quern_queue_list *list)
{
    if (list != NULL) {
        qn_arena_finish(&list->arena);
        qn_free(list->items);
        qn_free(list);
    }
}
