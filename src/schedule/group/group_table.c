/* SPDX-License-Identifier: MIT */
/* group_table.c - from the name of a group to its aggregator and its settings.
 *
 * As for the types of tasks: the first pattern that is a prefix of the name, the longest first, and
 * at last "*". */
#include "schedule/group/group_table.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "base/memory/vec.h"
#include "base/text/number.h"
#include "base/text/str.h"
#include "task/limits.h"
#include "task/name.h"

enum { ENTRIES_MAX = 65536, GRACE_MS = 60000, GRACE_MS_MIN = 1000, TIMEOUT_MS = 1800000 };

static quern_status check_duration(const char *name, int64_t ms, quern_error *err)
{
    return ms >= 0 && ms <= QN_DURATION_MS_MAX
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_INVALID, "group option %s is %lld", name, (long long)ms);
}

quern_status qn_group_options_read(struct qn_bytes options, quern_group_options *ret_options,
                                   quern_error *err)
{
    quern_group_options read;
    quern_status status = qn_sized_copy(QN_ROOM_OF(read), options, "group options", err);
    if (status != QUERN_OK) {
        return status;
    }
    if (read.grace_ms != 0 && read.grace_ms < GRACE_MS_MIN) {
        return qn_error_set(err, QUERN_E_INVALID, "group option grace_ms is %lld, not at least %d",
                            (long long)read.grace_ms, GRACE_MS_MIN);
    }
    if (read.max_size < 0) {
        return qn_error_set(err, QUERN_E_INVALID, "group option max_size is %lld",
                            (long long)read.max_size);
    }
    status = check_duration("grace_ms", read.grace_ms, err);
    if (status == QUERN_OK) {
        status = check_duration("max_delay_ms", read.max_delay_ms, err);
    }
    if (status == QUERN_OK && read.timeout_ms != QUERN_TIMEOUT_NEVER) {
        status = check_duration("timeout_ms", read.timeout_ms, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    read.grace_ms = read.grace_ms == 0 ? GRACE_MS : read.grace_ms;
    read.timeout_ms = read.timeout_ms == 0                     ? TIMEOUT_MS
                      : read.timeout_ms == QUERN_TIMEOUT_NEVER ? 0
                                                               : read.timeout_ms;
    *ret_options = read;
    return QUERN_OK;
}

static bool is_for_all(const struct qn_group_entry *entry)
{
    return strcmp(entry->pattern, "*") == 0;
}

/* Where a pattern belongs; *ret_found when it is there already. */
static size_t find_place(const struct qn_group_table *table, const char *pattern, bool *ret_found)
{
    size_t size = strcmp(pattern, "*") == 0 ? 0 : strlen(pattern);
    size_t place = 0;
    *ret_found = false;
    for (size_t i = 0; i < table->count; i++) {
        const struct qn_group_entry *entry = &table->entries[i];
        *ret_found = *ret_found || strcmp(entry->pattern, pattern) == 0;
        place += !is_for_all(entry) && strlen(entry->pattern) >= size ? 1 : 0;
    }
    return place;
}

quern_status qn_group_table_add(struct qn_group_table *table, const char *pattern,
                                const struct qn_group_entry *entry, quern_error *err)
{
    bool found = false;
    quern_status status = qn_name_check("pattern", pattern, err);
    if (status != QUERN_OK) {
        return status;
    }
    size_t place = find_place(table, pattern, &found);
    if (found) {
        return qn_error_set(err, QUERN_E_CONFLICT, "pattern %.200s already has an aggregator",
                            pattern);
    }
    if (table->count == ENTRIES_MAX) {
        return qn_error_set(err, QUERN_E_FULL, "mux has %d patterns already", ENTRIES_MAX);
    }
    char *copy = qn_str_dup(pattern);
    struct qn_group_entry *entries =
        copy == NULL ? NULL
                     : qn_vec_grow(table->entries, table->count, &table->capacity, sizeof *entries);
    if (entries == NULL) {
        qn_free(copy);
        return qn_error_nomem(err);
    }
    table->entries = entries;
    memmove(&entries[place + 1], &entries[place], (table->count - place) * sizeof *entries);
    entries[place] = *entry;
    entries[place].pattern = copy;
    table->count++;
    return QUERN_OK;
}

const struct qn_group_entry *qn_group_table_find(const struct qn_group_table *table,
                                                 const char *group)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct qn_group_entry *entry = &table->entries[i];
        if (is_for_all(entry) || qn_str_starts_with(group, entry->pattern)) {
            return entry;
        }
    }
    return NULL;
}

void qn_group_table_finish(struct qn_group_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        struct qn_group_entry *entry = &table->entries[i];
        if (entry->free_user != NULL) {
            entry->free_user(entry->user);
        }
        qn_free(entry->pattern);
    }
    qn_free(table->entries);
    *table = (struct qn_group_table){0};
}
