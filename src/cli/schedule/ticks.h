/* SPDX-License-Identifier: MIT */
/* ticks.h - the next ticks of an expression, and how they look. */
#ifndef QN_CLI_SCHEDULE_TICKS_H
#define QN_CLI_SCHEDULE_TICKS_H

#include "cli/cli.h"
#include "schedule/entry_info.h"

#define QN_TICKS_MAX 1000

/* Reports why an expression, a zone or an entry was refused: bad data, also if there is no such
 * zone. */
int qn_ticks_refuse(const struct qn_cli *cli, const quern_error *err);

/* An expression with its zone. It refers to itself: it stays where it is. */
struct qn_ticks_clock {
    struct qn_zones zones;
    struct qn_arena arena;
    struct qn_schedule_entry entry;
    struct qn_entry_clock clock;
    struct qn_plan_terms terms;
};

/* created_at_ms: where "@every" counts from. The error of an expression or a zone names the fault.
 * Only after QUERN_OK there is something to finish. */
QUERN_NODISCARD quern_status qn_ticks_init(struct qn_ticks_clock *ticks, const quern_entry *entry,
                                           int64_t created_at_ms, quern_error *err);
void qn_ticks_finish(struct qn_ticks_clock *ticks);
/* Up to `count` ticks after a moment, in seconds; returns how many there are. */
size_t qn_ticks_find(const struct qn_ticks_clock *ticks, int64_t after_ms, int64_t *ret_ticks,
                     size_t count);
/* A line for each: local time, UTC, how far off; and whether clocks change before it. */
void qn_ticks_print(const struct qn_ticks_clock *ticks, const int64_t *found, size_t count);
json_t *qn_ticks_json(const struct qn_ticks_clock *ticks, const int64_t *found, size_t count);

#endif
