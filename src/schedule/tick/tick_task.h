/* SPDX-License-Identifier: MIT */
/* tick_task.h - the task of a tick, made of its entry's task: id, headers, moments. Pure. */
#ifndef QN_SCHEDULE_TICK_TICK_TASK_H
#define QN_SCHEDULE_TICK_TICK_TASK_H

#include "base/memory/arena.h"
#include "broker/schedule/schedule.h"

struct qn_tick_terms {
    const struct qn_schedule_entry *entry;
    int64_t tick_s;
    int64_t now_ms; /* the broker's wall clock */
};

/* Its id is "NAME@2026-11-23T01:30:00Z". It is due at the tick, later by the entry's jitter and the
 * delay of its task; pending if that has passed. Borrows the entry; new texts live in `arena`. */
QUERN_NODISCARD quern_status qn_tick_task_make(const struct qn_tick_terms *terms,
                                               struct qn_arena *arena, struct qn_task *ret_task,
                                               quern_error *err);
/* The same task as a hook sees it, without the moments, which it cannot change. */
QUERN_NODISCARD quern_status qn_tick_task_show(const struct qn_schedule_entry *entry,
                                               const struct qn_task *task, struct qn_arena *arena,
                                               quern_task *ret_shown, quern_error *err);
/* What a hook has made of it replaces the task. QUERN_E_INVALID: it is no task by the rules of
 * qn_task_prepare, or in another queue. */
QUERN_NODISCARD quern_status qn_tick_task_replace(const struct qn_tick_terms *terms,
                                                  const quern_task *given, struct qn_arena *arena,
                                                  struct qn_task *task, quern_error *err);

#endif
