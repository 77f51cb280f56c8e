/* SPDX-License-Identifier: MIT */
/* edit_matching.c - edits the tasks that fulfil a query.
 *
 * It goes from place to place (a state of a queue). The ids of a place are gathered first, as a
 * task whose moment changes moves in the order of the search, and then edited in bounded steps of
 * the broker, which compares each with the query once more. */
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "broker/edit/edit.h"
#include "inspect/edit.h"
#include "inspect/search_scope.h"
#include "task/limits.h"

#define EDIT_SCAN_MAX 20000 /* tasks that one step of the search looks at */

struct bulk {
    struct qn_broker *broker;
    struct qn_search_scope scope;
    const quern_task_edit *edit;
    bool acts; /* else it only counts */
    quern_matching total;
    int64_t begin_ms; /* of the broker; 0: not known yet */
    /* The present place. */
    struct qn_arena arena;
    struct qn_edit_item *items;
    size_t count;
    size_t capacity;
    uint64_t matched;
    bool keeps; /* the items */
    bool no_memory;
};

static bool gather(const quern_task_info *info, void *user)
{
    struct bulk *bulk = user;
    bulk->matched++;
    if (!bulk->keeps) {
        return true;
    }
    struct qn_edit_item *items =
        qn_vec_grow(bulk->items, bulk->count, &bulk->capacity, sizeof(struct qn_edit_item));
    bulk->items = items != NULL ? items : bulk->items;
    const char *id = qn_arena_strdup(&bulk->arena, info->task.id);
    bulk->no_memory = items == NULL || id == NULL;
    if (!bulk->no_memory) {
        items[bulk->count++] = (struct qn_edit_item){id, info->at_ms, info->task.payload_size};
    }
    return !bulk->no_memory;
}

static quern_status search_place(struct bulk *bulk, const struct qn_search_place *place,
                                 quern_error *err)
{
    struct qn_search_end end = {.is_over = false};
    quern_status status = QUERN_OK;
    bulk->matched = bulk->count = 0;
    qn_arena_reset(&bulk->arena);
    while (status == QUERN_OK && !end.is_over) {
        const struct qn_search step = {.condition = bulk->scope.condition,
                                       .queue = place->queue,
                                       .state = place->state,
                                       .oldest_first = true,
                                       .now_ms = bulk->begin_ms,
                                       .from = end.at,
                                       .limit = QN_SEARCH_SCAN_MAX,
                                       .scan_max = EDIT_SCAN_MAX,
                                       .on_task = gather,
                                       .user = bulk};
        status = qn_broker_search(bulk->broker, &step, &end, err);
        if (status == QUERN_OK && bulk->no_memory) {
            status = qn_error_nomem(err);
        }
        bulk->begin_ms = status == QUERN_OK ? end.now_ms : bulk->begin_ms;
    }
    return status;
}

static void count_answer(quern_matching *total, struct qn_edit_answer answer)
{
    switch (answer.result) {
    case QN_EDIT_DONE:
        total->done++;
        break;
    case QN_EDIT_MISSING:
    case QN_EDIT_CHANGED:
    case QN_EDIT_STATE: /* it was in another one */
        total->changed++;
        break;
    case QN_EDIT_UNDATED:
    case QN_EDIT_MEMBER:
    case QN_EDIT_DAMAGED:
        total->refused++;
        break;
    }
    total->matched++;
}

static quern_status edit_items(struct bulk *bulk, const struct qn_search_place *place,
                               quern_error *err)
{
    struct qn_edit_answer answers[QN_BULK_MAX];
    quern_status status = QUERN_OK;
    for (size_t first = 0; status == QUERN_OK && first < bulk->count; first += QN_BULK_MAX) {
        size_t left = bulk->count - first;
        const struct qn_edit_list list = {.edit = bulk->edit,
                                          .queue = place->queue,
                                          .state = place->state,
                                          .items = bulk->items + first,
                                          .count = left < QN_BULK_MAX ? left : QN_BULK_MAX,
                                          .condition = bulk->scope.condition,
                                          .now_ms = bulk->begin_ms};
        status = qn_broker_edit(bulk->broker, &list, answers, err);
        for (size_t i = 0; status == QUERN_OK && i < list.count; i++) {
            count_answer(&bulk->total, answers[i]);
        }
        if (bulk->scope.search->on_progress != NULL) {
            bulk->scope.search->on_progress(&bulk->total, bulk->scope.search->user);
        }
    }
    return status;
}

static quern_status edit_place(struct bulk *bulk, const struct qn_search_place *place,
                               quern_error *err)
{
    bool allowed = qn_edit_allows(bulk->edit, place->state);
    bulk->keeps = bulk->acts && allowed;
    quern_status status = search_place(bulk, place, err);
    if (status != QUERN_OK || bulk->keeps) {
        return status == QUERN_OK ? edit_items(bulk, place, err) : status;
    }
    bulk->total.matched += bulk->matched;
    bulk->total.done += allowed ? bulk->matched : 0;
    bulk->total.refused += allowed ? 0 : bulk->matched;
    return QUERN_OK;
}

static quern_status run_bulk(struct bulk *bulk, const quern_search *search,
                             quern_matching *ret_matching, quern_error *err)
{
    quern_status status = qn_search_scope_init(&bulk->scope, bulk->broker, search, err);
    for (size_t i = 0; status == QUERN_OK && i < bulk->scope.count; i++) {
        status = edit_place(bulk, &bulk->scope.places[i], err);
    }
    qn_search_scope_finish(&bulk->scope);
    qn_arena_finish(&bulk->arena);
    qn_free(bulk->items);
    *ret_matching = bulk->total;
    return status;
}

quern_status quern_inspector_edit_matching_sized(quern_inspector *inspector,
                                                 const quern_task_edit *edit, size_t edit_size,
                                                 const quern_search *search, size_t search_size,
                                                 quern_matching *ret_matching, quern_error *err)
{
    quern_search ours;
    quern_task_edit our_edit;
    quern_status status =
        qn_search_scope_take(inspector, (struct qn_bytes){search, search_size}, &ours, err);
    if (status == QUERN_OK && ret_matching == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "ret_matching: must not be NULL");
    }
    if (status == QUERN_OK) {
        *ret_matching = (quern_matching){.matched = 0};
        status = qn_edit_take((struct qn_bytes){edit, edit_size}, &our_edit, err);
    }
    if (status == QUERN_OK && ours.in_trash != 0) {
        status = qn_error_set(err, QUERN_E_INVALID, "search: tasks in the trash are not edited");
    }
    if (status != QUERN_OK) {
        return status;
    }
    our_edit.seen = NULL;
    struct bulk bulk = {.broker = inspector->broker, .edit = &our_edit, .acts = ours.dry_run == 0};
    return run_bulk(&bulk, &ours, ret_matching, err);
}
