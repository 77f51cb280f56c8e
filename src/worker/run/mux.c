/* SPDX-License-Identifier: MIT */
/* mux.c - from the type of a task to its handler.
 *
 * The patterns are kept with the longest first, so the first one that is a prefix of the type is
 * the answer: a pattern equal to the type is the longest prefix there can be. "*" is the one that
 * is no prefix, and comes last. Middlewares are called as a chain whose state lives on the stack,
 * one frame a level.
 *
 * A worker freezes the mux while it runs; until then one thread builds it. So looking up needs no
 * lock. Changes are refused with QUERN_E_STATE while it is frozen. */
#include "worker/run/mux.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "base/text/str.h"
#include "task/name.h"
#include "worker/policy/handler_options.h"

enum { ENTRIES_MAX = 65536, MIDDLEWARES_MAX = 64 };

struct layer {
    quern_middleware call;
    void *user;
};

struct quern_mux {
    struct qn_mux_entry *entries; /* longest pattern first */
    size_t entry_count;
    size_t entry_capacity;
    struct layer *layers; /* outermost first */
    size_t layer_count;
    size_t layer_capacity;
    struct qn_group_table groups;
    quern_outcome not_found;
    bool counts_unknown;  /* not_found was set */
    _Atomic int *freezes; /* apart, so that a const mux can be frozen */
};

/* One level of the chain: it is the `next_user` of the middleware above it. */
struct link {
    const quern_mux *mux;
    const struct qn_mux_entry *entry; /* NULL: not found */
    size_t level;
};

quern_status quern_mux_new(quern_mux **ret_mux, quern_error *err)
{
    if (ret_mux == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "ret_mux: must not be NULL");
    }
    quern_mux *mux = qn_alloc_zero(1, sizeof *mux);
    if (mux == NULL) {
        return qn_error_nomem(err);
    }
    mux->freezes = qn_alloc(sizeof *mux->freezes);
    if (mux->freezes == NULL) {
        qn_free(mux);
        return qn_error_nomem(err);
    }
    atomic_init(mux->freezes, 0);
    mux->not_found = QUERN_RETRY;
    *ret_mux = mux;
    return QUERN_OK;
}

static void finish_entry(struct qn_mux_entry *entry)
{
    if (entry->free_user != NULL) {
        entry->free_user(entry->user);
    }
    qn_handler_options_finish(&entry->options);
    qn_free(entry->pattern);
}

void quern_mux_free(quern_mux *mux)
{
    if (mux == NULL) {
        return;
    }
    for (size_t i = 0; i < mux->entry_count; i++) {
        finish_entry(&mux->entries[i]);
    }
    qn_group_table_finish(&mux->groups);
    qn_free(mux->entries);
    qn_free(mux->layers);
    qn_free(mux->freezes);
    qn_free(mux);
}

static quern_status check_change(const quern_mux *mux, quern_error *err)
{
    if (mux == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "mux: must not be NULL");
    }
    if (atomic_load(mux->freezes) != 0) {
        return qn_error_set(err, QUERN_E_STATE, "mux cannot be changed while a worker runs");
    }
    return QUERN_OK;
}

/* Where an entry belongs; *ret_found when the pattern is there already. */
static size_t find_place(const quern_mux *mux, const char *pattern, size_t size, bool *ret_found)
{
    size_t place = 0;
    while (place < mux->entry_count && mux->entries[place].pattern_size >= size) {
        if (strcmp(mux->entries[place].pattern, pattern) == 0) {
            *ret_found = true;
            return place;
        }
        place++;
    }
    *ret_found = false;
    return place;
}

quern_status qn_mux_add(quern_mux *mux, const char *pattern, const struct qn_mux_entry *entry,
                        quern_error *err)
{
    quern_status status = check_change(mux, err);
    if (status == QUERN_OK) {
        status = qn_name_check("pattern", pattern, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    size_t size = strlen(pattern);
    bool found;
    size_t place = find_place(mux, pattern, size, &found);
    if (found) {
        return qn_error_set(err, QUERN_E_CONFLICT, "pattern %.200s already has a handler", pattern);
    }
    if (mux->entry_count == ENTRIES_MAX) {
        return qn_error_set(err, QUERN_E_FULL, "mux has %d patterns already", ENTRIES_MAX);
    }
    char *copy = qn_str_dup(pattern);
    if (copy == NULL) {
        return qn_error_nomem(err);
    }
    struct qn_mux_entry *entries =
        qn_vec_grow(mux->entries, mux->entry_count, &mux->entry_capacity, sizeof *entries);
    if (entries == NULL) {
        qn_free(copy);
        return qn_error_nomem(err);
    }
    mux->entries = entries;
    memmove(&entries[place + 1], &entries[place], (mux->entry_count - place) * sizeof *entries);
    entries[place] = *entry;
    entries[place].pattern = copy;
    entries[place].pattern_size = size;
    mux->entry_count++;
    return QUERN_OK;
}

quern_status quern_mux_handle_sized(quern_mux *mux, const char *pattern, quern_handler handler,
                                    void *user, const quern_handler_options *options,
                                    size_t options_size, quern_error *err)
{
    if (pattern == NULL || handler == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            pattern == NULL ? "pattern" : "handler");
    }
    struct qn_mux_entry entry = {.handler = handler, .user = user};
    quern_status status =
        qn_handler_options_read((struct qn_bytes){options, options_size}, &entry.options, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_mux_add(mux, pattern, &entry, err);
    if (status != QUERN_OK) {
        qn_handler_options_finish(&entry.options);
    }
    return status;
}

quern_status quern_mux_configure_sized(quern_mux *mux, const char *pattern,
                                       const quern_handler_options *options, size_t options_size,
                                       quern_error *err)
{
    quern_status status = check_change(mux, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (pattern == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "pattern: must not be NULL");
    }
    bool found;
    size_t place = find_place(mux, pattern, strlen(pattern), &found);
    if (!found) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "pattern %.200s has no handler", pattern);
    }
    quern_handler_options own;
    status = qn_handler_options_read((struct qn_bytes){options, options_size}, &own, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_handler_options_finish(&mux->entries[place].options);
    mux->entries[place].options = own;
    return QUERN_OK;
}

quern_status qn_mux_add_aggregator(quern_mux *mux, const char *pattern,
                                   const struct qn_group_entry *entry, quern_error *err)
{
    quern_status status = check_change(mux, err);
    return status == QUERN_OK ? qn_group_table_add(&mux->groups, pattern, entry, err) : status;
}

quern_status quern_mux_aggregate_sized(quern_mux *mux, const char *pattern,
                                       quern_aggregator aggregator, void *user,
                                       const quern_group_options *options, size_t options_size,
                                       quern_error *err)
{
    if (pattern == NULL || aggregator == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            pattern == NULL ? "pattern" : "aggregator");
    }
    struct qn_group_entry entry = {.aggregator = aggregator, .user = user};
    quern_status status =
        qn_group_options_read((struct qn_bytes){options, options_size}, &entry.options, err);
    return status == QUERN_OK ? qn_mux_add_aggregator(mux, pattern, &entry, err) : status;
}

const struct qn_group_table *qn_mux_groups(const quern_mux *mux)
{
    return &mux->groups;
}

quern_status quern_mux_use(quern_mux *mux, quern_middleware middleware, void *user,
                           quern_error *err)
{
    quern_status status = check_change(mux, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (middleware == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "middleware: must not be NULL");
    }
    if (mux->layer_count == MIDDLEWARES_MAX) {
        return qn_error_set(err, QUERN_E_FULL, "mux has %d middlewares already", MIDDLEWARES_MAX);
    }
    struct layer *layers =
        qn_vec_grow(mux->layers, mux->layer_count, &mux->layer_capacity, sizeof *layers);
    if (layers == NULL) {
        return qn_error_nomem(err);
    }
    mux->layers = layers;
    layers[mux->layer_count++] = (struct layer){.call = middleware, .user = user};
    return QUERN_OK;
}

quern_status quern_mux_not_found(quern_mux *mux, quern_outcome outcome, quern_error *err)
{
    quern_status status = check_change(mux, err);
    if (status != QUERN_OK) {
        return status;
    }
    if ((int)outcome < QUERN_DONE || (int)outcome > QUERN_SNOOZE) {
        return qn_error_set(err, QUERN_E_INVALID, "unknown not-found outcome %d", (int)outcome);
    }
    mux->not_found = outcome;
    mux->counts_unknown = true;
    return QUERN_OK;
}

const struct qn_mux_entry *qn_mux_find(const quern_mux *mux, const char *type)
{
    size_t size = strlen(type);
    const struct qn_mux_entry *for_all = NULL;
    for (size_t i = 0; i < mux->entry_count; i++) {
        const struct qn_mux_entry *entry = &mux->entries[i];
        if (strcmp(entry->pattern, "*") == 0) {
            for_all = entry; /* another pattern of one byte may follow */
        } else if (entry->pattern_size <= size &&
                   memcmp(entry->pattern, type, entry->pattern_size) == 0) {
            return entry;
        }
    }
    return for_all;
}

bool qn_mux_takes(const quern_mux *mux, const char *type)
{
    return mux->counts_unknown || qn_mux_find(mux, type) != NULL;
}

bool qn_mux_only_aggregates(const quern_mux *mux)
{
    return mux->entry_count == 0 && !mux->counts_unknown && mux->groups.count > 0;
}

void qn_mux_describe(const quern_mux *mux, char *out, size_t out_size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < mux->entry_count; i++) {
        const struct qn_mux_entry *entry = &mux->entries[i];
        size_t left = mux->entry_count - i;
        if (out_size - used < entry->pattern_size + sizeof " and 65536 more") {
            (void)snprintf(out + used, out_size - used, " and %zu more", left);
            return;
        }
        used +=
            (size_t)snprintf(out + used, out_size - used, "%s%s", i > 0 ? " " : "", entry->pattern);
    }
}

bool qn_mux_list(const quern_mux *mux, char separator, char *out, size_t out_size)
{
    size_t used = 0;
    out[0] = '\0';
    if (mux->counts_unknown) {
        return snprintf(out, out_size, "%c*", separator) < (int)out_size;
    }
    if (mux->entry_count == 0) {
        return snprintf(out, out_size, "%c", separator) < (int)out_size;
    }
    for (size_t i = 0; i < mux->entry_count; i++) {
        const struct qn_mux_entry *entry = &mux->entries[i];
        if (out_size - used < entry->pattern_size + 2) {
            return false;
        }
        out[used++] = separator;
        memcpy(out + used, entry->pattern, entry->pattern_size + 1);
        used += entry->pattern_size;
    }
    return true;
}

static quern_outcome not_found(const quern_mux *mux, quern_run *run, const quern_task *task)
{
    return quern_run_fail(run, mux->not_found, "handler not found for task \"%s\"", task->type);
}

static quern_outcome call_link(quern_run *run, const quern_task *task, void *user)
{
    const struct link *link = user;
    const quern_mux *mux = link->mux;
    if (link->level < mux->layer_count) {
        const struct layer *layer = &mux->layers[link->level];
        struct link next = {.mux = mux, .entry = link->entry, .level = link->level + 1};
        return layer->call(run, task, call_link, &next, layer->user);
    }
    if (link->entry == NULL) {
        return not_found(mux, run, task);
    }
    return link->entry->handler(run, task, link->entry->user);
}

quern_outcome qn_mux_call(const quern_mux *mux, quern_run *run, const quern_task *task)
{
    struct link first = {.mux = mux, .entry = qn_mux_find(mux, task->type)};
    return call_link(run, task, &first);
}

size_t qn_mux_count(const quern_mux *mux)
{
    return mux->entry_count;
}

const struct qn_mux_entry *qn_mux_at(const quern_mux *mux, size_t index)
{
    return &mux->entries[index];
}

bool qn_mux_counts_unknown(const quern_mux *mux, quern_outcome *ret_outcome)
{
    *ret_outcome = mux->not_found;
    return mux->counts_unknown;
}

void qn_mux_set_grace(quern_mux *mux, const char *pattern, int64_t grace_ms)
{
    bool found;
    size_t place = find_place(mux, pattern, strlen(pattern), &found);
    if (found) {
        mux->entries[place].grace_ms = grace_ms;
    }
}

static size_t count_commands(const quern_mux *mux)
{
    size_t commands = 0;
    for (size_t i = 0; i < mux->entry_count; i++) {
        commands += mux->entries[i].has_process ? 1 : 0;
    }
    return commands;
}

bool qn_mux_has_commands(const quern_mux *mux)
{
    return count_commands(mux) > 0;
}

bool qn_mux_is_mixed(const quern_mux *mux)
{
    size_t commands = count_commands(mux);
    return commands > 0 && (commands < mux->entry_count || mux->counts_unknown);
}

void qn_mux_freeze(const quern_mux *mux)
{
    atomic_fetch_add(mux->freezes, 1);
}

void qn_mux_thaw(const quern_mux *mux)
{
    atomic_fetch_sub(mux->freezes, 1);
}
