/* SPDX-License-Identifier: MIT */
/* entry_set.c - the entries that a program gives, each in an arena of its own. */
#include "schedule/entry_set.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "schedule/entry_info.h"

static size_t find(const struct quern_entry_set *set, const char *queue, const char *name)
{
    size_t i = 0;
    while (i < set->count && (strcmp(set->entries[i].task.queue, queue) != 0 ||
                              strcmp(set->entries[i].name, name) != 0)) {
        i++;
    }
    return i;
}

static quern_status make_room(struct quern_entry_set *set, quern_error *err)
{
    if (set->count == QN_ENTRIES_MAX) {
        return qn_error_set(err, QUERN_E_FULL, "more than %d entries", QN_ENTRIES_MAX);
    }
    struct qn_arena *arenas =
        qn_vec_grow(set->arenas, set->count, &set->arena_capacity, sizeof *arenas);
    set->arenas = arenas != NULL ? arenas : set->arenas;
    struct qn_schedule_entry *entries =
        qn_vec_grow(set->entries, set->count, &set->entry_capacity, sizeof *entries);
    set->entries = entries != NULL ? entries : set->entries;
    return arenas == NULL || entries == NULL ? qn_error_nomem(err) : QUERN_OK;
}

static quern_status add_copy(struct quern_entry_set *set, const struct qn_schedule_entry *entry,
                             quern_error *err)
{
    if (find(set, entry->task.queue, entry->name) < set->count) {
        return qn_error_set(err, QUERN_E_CONFLICT, "entry \"%s\" is there twice", entry->name);
    }
    quern_status status = make_room(set, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_arena arena = {0};
    status = qn_entry_copy(&arena, entry, &set->entries[set->count], err);
    if (status != QUERN_OK) {
        qn_arena_finish(&arena);
        return status;
    }
    set->arenas[set->count++] = arena;
    return QUERN_OK;
}

quern_status quern_entry_set_add_sized(quern_entry_set *set, const quern_entry *entry,
                                       size_t entry_size, const quern_task *task, size_t task_size,
                                       quern_error *err)
{
    if (set == NULL || entry == NULL || task == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            set == NULL     ? "set"
                            : entry == NULL ? "entry"
                                            : "task");
    }
    struct qn_entry_given given = {.origin = set->origin, .default_zone = set->default_zone};
    quern_status status = qn_entry_read_given((struct qn_bytes){entry, entry_size},
                                              (struct qn_bytes){task, task_size}, &given, err);
    if (status != QUERN_OK) {
        return status;
    }
    const struct qn_entry_terms terms = {
        .zones = set->zones, .now_ms = qn_clock_wall_ms(set->clock), .broker = set->broker};
    struct qn_arena arena = {0};
    struct qn_schedule_entry made;
    status = qn_entry_make(&given, &terms, &arena, &made, err);
    if (status == QUERN_OK) {
        status = add_copy(set, &made, err);
    } else if (given.name != NULL) {
        qn_error_prefix(err, "entry \"%.128s\"", given.name);
    }
    qn_arena_finish(&arena);
    return status;
}

quern_status qn_entry_set_add_all(struct quern_entry_set *set, const struct quern_entry_set *other,
                                  quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < other->count; i++) {
        status = add_copy(set, &other->entries[i], err);
    }
    return status;
}

quern_status qn_entry_set_remove(struct quern_entry_set *set, const char *queue, const char *name,
                                 quern_error *err)
{
    size_t index = find(set, queue, name);
    if (index == set->count) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no entry of this name is registered");
    }
    qn_arena_finish(&set->arenas[index]);
    set->count--;
    set->arenas[index] = set->arenas[set->count];
    set->entries[index] = set->entries[set->count];
    return QUERN_OK;
}

void qn_entry_set_finish(struct quern_entry_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        qn_arena_finish(&set->arenas[i]);
    }
    qn_free(set->arenas);
    qn_free(set->entries);
    set->arenas = NULL;
    set->entries = NULL;
    set->count = 0;
    set->arena_capacity = 0;
    set->entry_capacity = 0;
}
