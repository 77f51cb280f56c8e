/* SPDX-License-Identifier: MIT */
/* definition.h - the definition of an entry, as text in the hash quern:entries.
 *
 *     <created_at_ms>
 *     <with_seconds> <size>:<cron>,<size>:<zone>,
 *     <misfire> <misfire_max> <late_ms> <jitter_ms>
 *     <size>:<origin>,
 *     <the task, as in template.h>,
 *
 * The first line is the script's. The second says when, and is compared by the script. */
#ifndef QN_BROKER_REDIS_SCHEDULE_DEFINITION_H
#define QN_BROKER_REDIS_SCHEDULE_DEFINITION_H

#include "base/memory/view.h"
#include "broker/schedule/schedule.h"
#include "redis/reply.h"

struct qn_definition {
    struct qn_bytes when;
    struct qn_bytes rest;
};

/* QUERN_E_INVALID: it is too long. Lives in the arena. */
QUERN_NODISCARD quern_status qn_definition_encode(struct qn_arena *arena,
                                                  const struct qn_schedule_entry *entry,
                                                  struct qn_definition *ret_definition,
                                                  quern_error *err);

/* What a server has of an entry. */
struct qn_stored_entry {
    const char *queue;
    const char *name;
    const struct qn_reply *definition;
    const struct qn_reply *row; /* of quern:ticks */
};
#define QN_FAULT_DEFINITION "its definition is damaged"
/* Damage is a fault of the entry, no failure. It lives in the arena and borrows queue and name. */
QUERN_NODISCARD quern_status qn_definition_decode(struct qn_arena *arena,
                                                  const struct qn_stored_entry *stored,
                                                  struct qn_schedule_entry *ret_entry,
                                                  quern_error *err);

#endif
