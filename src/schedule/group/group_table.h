/* SPDX-License-Identifier: MIT */
/* group_table.h - from the name of a group to its aggregator and its settings. */
#ifndef QN_SCHEDULE_GROUP_GROUP_TABLE_H
#define QN_SCHEDULE_GROUP_GROUP_TABLE_H

#include "broker/group.h"
#include "quern/group.h"

struct qn_group_entry {
    char *pattern; /* owned by the table */
    quern_aggregator aggregator;
    void *user;
    void (*free_user)(void *user); /* NULL: the caller's */
    quern_group_options options;   /* checked, defaults filled in; timeout_ms 0: none */
};

/* The longest pattern first, "*" last. Zeroed it is empty. */
struct qn_group_table {
    struct qn_group_entry *entries;
    size_t count;
    size_t capacity;
};

/* Checks the options and fills in their defaults. */
QUERN_NODISCARD quern_status qn_group_options_read(struct qn_bytes options,
                                                   quern_group_options *ret_options,
                                                   quern_error *err);
/* Adds a copy of `entry` (its pattern is filled in here); then the table owns entry->user when
 * free_user is given. */
QUERN_NODISCARD quern_status qn_group_table_add(struct qn_group_table *table, const char *pattern,
                                                const struct qn_group_entry *entry,
                                                quern_error *err);
/* NULL: none serves this group. */
const struct qn_group_entry *qn_group_table_find(const struct qn_group_table *table,
                                                 const char *group);
void qn_group_table_finish(struct qn_group_table *table);

#endif
