/* SPDX-License-Identifier: MIT */
/* entry_info.h - stored entries in the form that programs get. */
#ifndef QN_SCHEDULE_ENTRY_INFO_H
#define QN_SCHEDULE_ENTRY_INFO_H

#include "quern/entry.h"
#include "schedule/entry.h"

/* Everything that `entry` points to is copied into the arena. */
QUERN_NODISCARD quern_status qn_entry_copy(struct qn_arena *arena,
                                           const struct qn_schedule_entry *entry,
                                           struct qn_schedule_entry *ret_copy, quern_error *err);
/* Its task as a caller gave it: without id, with durations in place of moments. Borrows `entry`;
 * the unique_key lives in the arena. */
QUERN_NODISCARD quern_status qn_entry_task(const struct qn_schedule_entry *entry,
                                           struct qn_arena *arena, quern_task *ret_task,
                                           quern_error *err);
/* Borrows `entry`; new texts and the task live in the arena. A zone or an expression that cannot be
 * used is the fault of the info, not an error of the call. */
QUERN_NODISCARD quern_status qn_entry_info_make(const struct qn_schedule_entry *entry,
                                                struct qn_zones *zones, struct qn_arena *arena,
                                                quern_entry_info *ret_info, quern_error *err);
/* The first tick after a moment, whatever the pause and the last tick are; false: there is none. */
bool qn_entry_next(const struct qn_plan_terms *terms, int64_t after_s, int64_t *ret_next_s);

#endif
