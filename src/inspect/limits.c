/* SPDX-License-Identifier: MIT */
/* limits.c - sets limits, and the list of them that an inspector hands out. Names live in the
 * list's arena. */
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/sized.h"
#include "base/memory/vec.h"
#include "broker/limit/limit.h"
#include "inspect/inspector.h"
#include "task/limit.h"
#include "task/name.h"

struct quern_limit_list {
    struct qn_arena arena;
    quern_limit *items;
    size_t count;
    size_t capacity;
    bool no_memory;
};

static quern_status check_name(const char *queue, int32_t scope, const char *name, quern_error *err)
{
    bool of_all = strcmp(queue, QUERN_ALL_QUEUES) == 0;
    quern_status status = of_all ? QUERN_OK : qn_name_check_queue(queue, err);
    if (status != QUERN_OK) {
        return status;
    }
    switch (scope) {
    case QUERN_LIMIT_QUEUE:
        return name == NULL || name[0] == '\0'
                   ? QUERN_OK
                   : qn_error_set(err, QUERN_E_INVALID, "a limit of a queue has no name");
    case QUERN_LIMIT_TYPE:
        return qn_name_check("type", name, err);
    case QUERN_LIMIT_KEY:
        return qn_name_check("key", name, err);
    case QUERN_LIMIT_SEMAPHORE:
        return of_all ? qn_error_set(err, QUERN_E_INVALID,
                                     "a semaphore is set for each queue that is to share it")
                      : qn_name_check("semaphore", name, err);
    default:
        return qn_error_set(err, QUERN_E_INVALID, "%d is no scope of a limit", (int)scope);
    }
}

static quern_status check_limit(const quern_limit *limit, quern_error *err)
{
    const struct qn_limit numbers = {
        .count = limit->count, .period_ms = limit->period_ms, .burst = limit->burst};
    quern_status status = check_name(limit->queue, limit->scope, limit->name, err);
    if (status == QUERN_OK && limit->scope == QUERN_LIMIT_SEMAPHORE && limit->period_ms != 0) {
        status = qn_error_set(err, QUERN_E_INVALID,
                              "a semaphore counts tokens that are held, not starts in a period");
    }
    return status == QUERN_OK ? qn_limit_check(&numbers, err) : status;
}

quern_status quern_inspector_set_limit_sized(quern_inspector *inspector, const quern_limit *limit,
                                             size_t limit_size, quern_error *err)
{
    quern_limit ours;
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && (limit == NULL || limit->queue == NULL)) {
        status = qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                              limit == NULL ? "limit" : "queue");
    }
    if (status == QUERN_OK) {
        status = qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){limit, limit_size},
                               "quern_limit", err);
    }
    if (status == QUERN_OK && ours.reserved != 0) {
        status = qn_error_set(err, QUERN_E_INVALID, "limit: reserved is not 0");
    }
    if (status == QUERN_OK) {
        status = check_limit(&ours, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    ours.name = ours.scope == QUERN_LIMIT_QUEUE ? "" : ours.name;
    return qn_broker_set_limit(inspector->broker, &ours, err);
}

quern_status quern_inspector_remove_limit(quern_inspector *inspector, const char *queue,
                                          quern_limit_scope scope, const char *name,
                                          quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && queue == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "queue: must not be NULL");
    }
    if (status == QUERN_OK) {
        status = check_name(queue, (int32_t)scope, name, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    const struct qn_limit_owner owner = {
        .queue = queue, .scope = scope, .name = scope == QUERN_LIMIT_QUEUE ? "" : name};
    return qn_broker_remove_limit(inspector->broker, &owner, err);
}

static bool add_limit(const quern_limit *limit, void *user)
{
    quern_limit_list *list = user;
    const char *queue = qn_arena_strdup(&list->arena, limit->queue);
    const char *name = qn_arena_strdup(&list->arena, limit->name);
    quern_limit *items = qn_vec_grow(list->items, list->count, &list->capacity, sizeof *items);
    list->items = items != NULL ? items : list->items;
    if (queue == NULL || name == NULL || items == NULL) {
        list->no_memory = true;
        return false;
    }
    list->items[list->count] = *limit;
    list->items[list->count].queue = queue;
    list->items[list->count].name = name;
    list->count++;
    return true;
}

quern_status quern_inspector_limits(quern_inspector *inspector, const char *queue,
                                    quern_limit_list **ret_list, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && ret_list == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "ret_list: must not be NULL");
    }
    if (status != QUERN_OK) {
        return status;
    }
    quern_limit_list *list = qn_alloc_zero(1, sizeof *list);
    if (list == NULL) {
        return qn_error_nomem(err);
    }
    status = qn_broker_limits(inspector->broker, queue, add_limit, list, err);
    if (status == QUERN_OK && list->no_memory) {
        status = qn_error_nomem(err);
    }
    if (status != QUERN_OK) {
        quern_limit_list_free(list);
        return status;
    }
    *ret_list = list;
    return QUERN_OK;
}

size_t quern_limit_list_size(const quern_limit_list *list)
{
    return list->count;
}

const quern_limit *quern_limit_list_at(const quern_limit_list *list, size_t index)
{
    return index < list->count ? &list->items[index] : NULL;
}

void quern_limit_list_free(quern_limit_list *list)
{
    if (list != NULL) {
        qn_arena_finish(&list->arena);
        qn_free(list->items);
        qn_free(list);
    }
}
