/* SPDX-License-Identifier: MIT */
/* entry_set.h - the entries that a program gives: checked, and copied. */
#ifndef QN_SCHEDULE_ENTRY_SET_H
#define QN_SCHEDULE_ENTRY_SET_H

#include "base/clock.h"
#include "base/memory/arena.h"
#include "quern/scheduler.h"
#include "schedule/entry.h"

struct quern_entry_set {
    const char *origin;
    const char *default_zone;
    struct qn_zones *zones;
    const struct quern_clock *clock;
    const struct qn_broker *broker;    /* as in qn_entry_terms */
    struct qn_arena *arenas;           /* one for each entry; qn_free */
    struct qn_schedule_entry *entries; /* qn_free */
    size_t count;
    size_t arena_capacity;
    size_t entry_capacity;
};

void qn_entry_set_finish(struct quern_entry_set *set);
/* QUERN_E_NOT_FOUND: there is none. */
QUERN_NODISCARD quern_status qn_entry_set_remove(struct quern_entry_set *set, const char *queue,
                                                 const char *name, quern_error *err);
/* Copies all entries of another set. */
QUERN_NODISCARD quern_status qn_entry_set_add_all(struct quern_entry_set *set,
                                                  const struct quern_entry_set *other,
                                                  quern_error *err);

#endif
