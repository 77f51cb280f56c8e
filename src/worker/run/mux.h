/* SPDX-License-Identifier: MIT */
/* mux.h - the mux as the worker uses it. */
#ifndef QN_WORKER_RUN_MUX_H
#define QN_WORKER_RUN_MUX_H

#include <stdbool.h>

#include "quern/mux.h"
#include "schedule/group/group_table.h"

struct qn_mux_entry {
    char *pattern;
    size_t pattern_size;
    quern_handler handler;
    void *user;
    void (*free_user)(void *user); /* NULL: the caller's */
    quern_handler_options options; /* checked; its lists are ours */
    int64_t grace_ms;              /* without options, see qn_mux_grace_ms */
    bool has_process;              /* its code runs in a process of its own */
};

enum { QN_GRACE_SPARE_MS = 2000 }; /* to reap a process and leave pipes that others hold */

/* The least time that a cancelled run of it may need to end, by its options, or by the task_ms of
 * its task; 0: nothing special. */
static inline int64_t qn_mux_grace_ms(const struct qn_mux_entry *entry, int64_t task_ms)
{
    int64_t ms = task_ms > 0 ? task_ms : entry->options.kill_after_ms;
    return entry->has_process && ms > 0 ? ms + QN_GRACE_SPARE_MS : entry->grace_ms;
}

/* The handler for a type; NULL: not found. Any thread, while frozen. */
const struct qn_mux_entry *qn_mux_find(const quern_mux *mux, const char *type);
/* Whether a task of this type is run here: a handler serves it, or its not-found outcome was set.
 * Any thread, while frozen. */
bool qn_mux_takes(const quern_mux *mux, const char *type);
/* Whether it has aggregators and nothing else: no task is run here. Any thread, while frozen. */
bool qn_mux_only_aggregates(const quern_mux *mux);
/* The patterns in one line, cut where it is full. */
void qn_mux_describe(const quern_mux *mux, char *out, size_t out_size);
/* Each pattern behind a separator, "*" for all types, the separator alone for none. False: they do
 * not fit. */
QUERN_NODISCARD bool qn_mux_list(const quern_mux *mux, char separator, char *out, size_t out_size);
/* Calls the middlewares and the handler, or gives the not-found outcome. */
quern_outcome qn_mux_call(const quern_mux *mux, quern_run *run, const quern_task *task);
/* Registers a copy of `entry` (its pattern is filled in here) as quern_mux_handle does; on success
 * the mux owns the lists of the options, and entry->user when free_user is given. */
QUERN_NODISCARD quern_status qn_mux_add(quern_mux *mux, const char *pattern,
                                        const struct qn_mux_entry *entry, quern_error *err);
/* Registers an aggregator as quern_mux_aggregate does; entry->options are checked already. On
 * success the mux owns entry->user when free_user is given. */
QUERN_NODISCARD quern_status qn_mux_add_aggregator(quern_mux *mux, const char *pattern,
                                                   const struct qn_group_entry *entry,
                                                   quern_error *err);
const struct qn_group_table *qn_mux_groups(const quern_mux *mux);
/* Its patterns, the longest first. */
size_t qn_mux_count(const quern_mux *mux);
const struct qn_mux_entry *qn_mux_at(const quern_mux *mux, size_t index);
/* Whether its not-found outcome was set, and to what. */
bool qn_mux_counts_unknown(const quern_mux *mux, quern_outcome *ret_outcome);
/* The grace_ms of a pattern that is there. */
void qn_mux_set_grace(quern_mux *mux, const char *pattern, int64_t grace_ms);
/* Whether it has both: handlers, and commands, which never go to a child. While frozen. */
bool qn_mux_is_mixed(const quern_mux *mux);
bool qn_mux_has_commands(const quern_mux *mux);
/* While frozen (calls nest) the mux cannot be changed. Any thread. */
void qn_mux_freeze(const quern_mux *mux);
void qn_mux_thaw(const quern_mux *mux);

#endif
