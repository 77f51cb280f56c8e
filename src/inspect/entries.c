/* SPDX-License-Identifier: MIT */
/* entries.c - lists stored entries, and their history. Everything in a list lives in its arena. */
#include "inspect/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "task/limits.h"

#define QUEUES_SHOWN 3

struct quern_entry_list {
    struct qn_arena arena;
    struct qn_schedule_entry *entries; /* qn_free */
    size_t count;
    size_t capacity;
    quern_entry_info *items; /* in the arena, as many */
    char leader[QN_LEADER_ID_SIZE_MAX + 1];
    quern_status status; /* of copying */
};

static bool keep_entry(const struct qn_schedule_entry *entry, void *user)
{
    quern_entry_list *list = user;
    struct qn_schedule_entry *entries =
        qn_vec_grow(list->entries, list->count, &list->capacity, sizeof *entries);
    if (entries == NULL) {
        list->status = QUERN_E_NOMEM;
        return false;
    }
    list->entries = entries;
    list->status = qn_entry_copy(&list->arena, entry, &entries[list->count], NULL);
    list->count += list->status == QUERN_OK ? 1 : 0;
    return list->status == QUERN_OK;
}

static int compare_entries(const void *left, const void *right)
{
    const struct qn_schedule_entry *a = left;
    const struct qn_schedule_entry *b = right;
    int order = strcmp(a->task.queue, b->task.queue);
    return order != 0 ? order : strcmp(a->name, b->name);
}

/* Reads the entries that match, sorted. */
static quern_status read_entries(quern_inspector *inspector, const struct qn_entry_filter *filter,
                                 quern_entry_list *list, quern_error *err)
{
    quern_status status = qn_schedule_list(inspector->broker, filter, keep_entry, list, err);
    if (status == QUERN_OK && list->status != QUERN_OK) {
        status = qn_error_nomem(err);
    }
    if (status == QUERN_OK && list->count > 1) {
        qsort(list->entries, list->count, sizeof *list->entries, compare_entries);
    }
    return status;
}

static quern_status make_infos(quern_entry_list *list, quern_error *err)
{
    struct qn_zones zones;
    list->items = qn_arena_alloc(&list->arena, (list->count + 1) * sizeof *list->items);
    if (list->items == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_zones_init(&zones, NULL, err);
    if (status != QUERN_OK) {
        return status;
    }
    for (size_t i = 0; status == QUERN_OK && i < list->count; i++) {
        status = qn_entry_info_make(&list->entries[i], &zones, &list->arena, &list->items[i], err);
    }
    qn_zones_finish(&zones);
    return status;
}

static quern_status find_leader(quern_inspector *inspector, quern_entry_list *list,
                                quern_error *err)
{
    const struct qn_lead look = {.what = QN_LEAD_LOOK, .owner = "", .id = ""};
    struct qn_lead_reply reply;
    quern_status status = qn_schedule_lead(inspector->broker, &look, &reply, err);
    if (status == QUERN_OK && reply.lease_left_ms > 0) {
        memcpy(list->leader, reply.id, sizeof reply.id);
    }
    return status;
}

quern_status quern_inspector_entries(quern_inspector *inspector, const char *queue,
                                     const char *name, quern_entry_list **ret_list,
                                     quern_error *err)
{
    const struct qn_entry_filter filter = {.queue = queue, .name = name};
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && ret_list == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "ret_list: must not be NULL");
    }
    if (status != QUERN_OK) {
        return status;
    }
    quern_entry_list *list = qn_alloc_zero(1, sizeof *list);
    if (list == NULL) {
        return qn_error_nomem(err);
    }
    status = read_entries(inspector, &filter, list, err);
    if (status == QUERN_OK) {
        status = make_infos(list, err);
    }
    if (status == QUERN_OK) {
        status = find_leader(inspector, list, err);
    }
    if (status != QUERN_OK) {
        quern_entry_list_free(list);
        return status;
    }
    *ret_list = list;
    return QUERN_OK;
}

size_t quern_entry_list_size(const quern_entry_list *list)
{
    return list->count;
}

const quern_entry_info *quern_entry_list_at(const quern_entry_list *list, size_t index)
{
    return index < list->count ? &list->items[index] : NULL;
}

const char *quern_entry_list_leader(const quern_entry_list *list)
{
    return list->leader;
}

void quern_entry_list_free(quern_entry_list *list)
{
    if (list != NULL) {
        qn_arena_finish(&list->arena);
        qn_free(list->entries);
        qn_free(list);
    }
}

/* --- One of them ---------------------------------------------------------------------- */

static quern_status refuse_ambiguous(const quern_entry_list *list, quern_error *err)
{
    char queues[QN_NAME_SIZE_MAX * QUEUES_SHOWN + 32] = "";
    size_t used = 0;
    for (size_t i = 0; i < list->count && i < QUEUES_SHOWN; i++) {
        int size = snprintf(queues + used, sizeof queues - used, "%s%s", i == 0 ? "" : ", ",
                            list->entries[i].task.queue);
        used = (size_t)size < sizeof queues - used ? used + (size_t)size : sizeof queues - 1;
    }
    return qn_error_set(
        err, QUERN_E_STATE, "entry \"%s\" is in %zu queues: name one of them (%s%s)",
        list->entries[0].name, list->count, queues, list->count > QUEUES_SHOWN ? ", ..." : "");
}

static quern_status check_found(const struct qn_entry_filter *filter, const quern_entry_list *list,
                                quern_error *err)
{
    if (list->count == 0 && filter->queue != NULL) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "queue \"%s\" has no entry \"%s\"",
                            filter->queue, filter->name);
    }
    if (list->count == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no entry \"%s\"", filter->name);
    }
    return list->count == 1 ? QUERN_OK : refuse_ambiguous(list, err);
}

quern_status qn_inspect_find_entry(quern_inspector *inspector, const struct qn_entry_filter *filter,
                                   struct qn_arena *arena, struct qn_schedule_entry *ret_entry,
                                   quern_error *err)
{
    quern_entry_list list = {.count = 0};
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && filter->name == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "name: must not be NULL");
    }
    if (status == QUERN_OK) {
        status = qn_schedule_check_name(filter->name, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    status = read_entries(inspector, filter, &list, err);
    if (status == QUERN_OK) {
        status = check_found(filter, &list, err);
    }
    if (status == QUERN_OK) {
        status = qn_entry_copy(arena, &list.entries[0], ret_entry, err);
    }
    qn_arena_finish(&list.arena);
    qn_free(list.entries);
    return status;
}

/* --- History -------------------------------------------------------------------------- */

struct quern_entry_history {
    struct qn_arena arena;
    quern_entry_event *items; /* qn_free */
    size_t count;
    size_t capacity;
    bool no_memory;
};

static bool keep_event(const struct qn_tick_event *event, void *user)
{
    quern_entry_history *history = user;
    const char *id = qn_arena_strdup(&history->arena, event->id);
    quern_entry_event *items =
        qn_vec_grow(history->items, history->count, &history->capacity, sizeof *items);
    history->items = items != NULL ? items : history->items;
    if (id == NULL || items == NULL) {
        history->no_memory = true;
        return false;
    }
    items[history->count++] = (quern_entry_event){.tick_at_ms = event->tick_s * 1000,
                                                  .at_ms = event->at_ms,
                                                  .id = id,
                                                  .kind = (int32_t)event->what,
                                                  .skipped = event->skipped};
    return true;
}

static quern_status read_history(quern_inspector *inspector, const struct qn_entry_filter *filter,
                                 quern_entry_history *history, quern_error *err)
{
    struct qn_entry_key key = {
        .queue = filter->queue, .name = filter->name, .revision = QN_REVISION_ANY};
    struct qn_schedule_entry entry;
    quern_status status = QUERN_OK;
    if (filter->queue == NULL) {
        status = qn_inspect_find_entry(inspector, filter, &history->arena, &entry, err);
        key.queue = status == QUERN_OK ? entry.task.queue : NULL;
    }
    if (status == QUERN_OK) {
        status = qn_schedule_history(inspector->broker, &key, keep_event, history, err);
    }
    return status == QUERN_OK && history->no_memory ? qn_error_nomem(err) : status;
}

quern_status quern_inspector_entry_history(quern_inspector *inspector, const char *queue,
                                           const char *name, quern_entry_history **ret_history,
                                           quern_error *err)
{
    const struct qn_entry_filter filter = {.queue = queue, .name = name};
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && (name == NULL || ret_history == NULL)) {
        status = qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                              name == NULL ? "name" : "ret_history");
    }
    if (status == QUERN_OK) {
        status = qn_schedule_check_name(name, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    quern_entry_history *history = qn_alloc_zero(1, sizeof *history);
    if (history == NULL) {
        return qn_error_nomem(err);
    }
    status = read_history(inspector, &filter, history, err);
    if (status != QUERN_OK) {
        quern_entry_history_free(history);
        return status;
    }
    *ret_history = history;
    return QUERN_OK;
}

size_t quern_entry_history_size(const quern_entry_history *history)
{
    return history->count;
}

const quern_entry_event *quern_entry_history_at(const quern_entry_history *history, size_t index)
{
    return index < history->count ? &history->items[index] : NULL;
}

void quern_entry_history_free(quern_entry_history *history)
{
    if (history != NULL) {
        qn_arena_finish(&history->arena);
        qn_free(history->items);
        qn_free(history);
    }
}

const char *quern_entry_event_kind_name(quern_entry_event_kind kind)
{
    static const char *const names[] = {
        [QUERN_ENTRY_ENQUEUED] = "enqueued",   [QUERN_ENTRY_LATE] = "late",
        [QUERN_ENTRY_SKIPPED] = "skipped",     [QUERN_ENTRY_VETOED] = "vetoed",
        [QUERN_ENTRY_DUPLICATE] = "duplicate", [QUERN_ENTRY_CONFLICT] = "conflict",
        [QUERN_ENTRY_TRIGGERED] = "triggered", [QUERN_ENTRY_REPLACED] = "replaced",
    };
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}
