/* SPDX-License-Identifier: MIT */
/* entry.h - the definition of an entry as users write it: checks, and what plan.h needs of it. */
#ifndef QN_SCHEDULE_ENTRY_H
#define QN_SCHEDULE_ENTRY_H

#include "base/memory/arena.h"
#include "base/memory/view.h"
#include "base/time/zones.h"
#include "broker/schedule/schedule.h"
#include "schedule/plan.h"
#include "task/cron/cron.h"

#define QN_ENTRY_HEADERS_OWN 2 /* quern-entry and quern-tick, which the scheduler adds */
#define QN_ENTRY_LATE_MS 60000 /* by default: longer than a change of leader */

/* As a user gives it; 0 and NULL are the defaults. Borrowed by the entry that is made of it. */
struct qn_entry_given {
    const char *name;
    const char *origin;
    const char *cron;         /* five fields, or six with a second in front */
    const char *zone;         /* NULL or "": the one in the cron text, else default_zone */
    const char *default_zone; /* NULL or "": UTC */
    const char *misfire;      /* "skip", "once", "all N"; NULL: once */
    int64_t late_ms;          /* 0: QN_ENTRY_LATE_MS; negative: none */
    int64_t jitter_ms;
    quern_task task; /* without id and process_at_ms; its queue is the entry's */
};

/* A caller's quern_entry and quern_task, of whatever size; origin and default_zone stay. */
QUERN_NODISCARD quern_status qn_entry_read_given(struct qn_bytes entry, struct qn_bytes task,
                                                 struct qn_entry_given *given, quern_error *err);

struct qn_entry_terms {
    struct qn_zones *zones;
    int64_t now_ms;                 /* of the wall clock */
    const struct qn_broker *broker; /* must offer what the task has; NULL: not checked */
};
/* Checks everything and fills in the defaults. The task is one by the rules of qn_task_prepare, but
 * without id and with its durations as they are given: its lock lasts unique_ms from the moment it
 * is due. New strings live in `arena`. QUERN_E_INVALID: the text names the field and the rule;
 * QUERN_E_NOT_FOUND and other errors of qn_zones_get: the zone. */
QUERN_NODISCARD quern_status qn_entry_make(const struct qn_entry_given *given,
                                           const struct qn_entry_terms *terms,
                                           struct qn_arena *arena,
                                           struct qn_schedule_entry *ret_entry, quern_error *err);

/* An entry's expression and zone, ready for plan.h. A plain value. */
struct qn_entry_clock {
    struct qn_cron cron;
    const struct qn_zone *zone; /* of the qn_zones */
};

/* Errors as qn_entry_make: a stored entry may name a zone that this system does not have. */
QUERN_NODISCARD quern_status qn_entry_read_clock(const struct qn_schedule_entry *entry,
                                                 struct qn_zones *zones,
                                                 struct qn_entry_clock *ret_clock,
                                                 quern_error *err);
/* The terms of a stored entry; they borrow `clock`. */
struct qn_plan_terms qn_entry_plan_terms(const struct qn_schedule_entry *entry,
                                         const struct qn_entry_clock *clock);

#endif
