/* SPDX-License-Identifier: MIT */
/* ticking_list.h - the stored entries, loaded for the ticker. */
#ifndef QN_SCHEDULE_TICK_TICKING_LIST_H
#define QN_SCHEDULE_TICK_TICKING_LIST_H

#include "schedule/tick/ticker.h"

/* Replaces the list by what is stored; on an error it stays. What was logged about an entry that
 * has not changed is not logged again. */
QUERN_NODISCARD quern_status qn_ticking_list_load(struct qn_ticker *ticker, quern_error *err);
void qn_ticking_list_finish(struct qn_ticking_list *list);
/* Finds the next tick behind the last one. */
void qn_ticking_find_next(struct qn_ticking *ticking, struct qn_plan *plan);
/* A copy whose texts live in the arena; only `cron` and what the ticker needs. */
QUERN_NODISCARD quern_status qn_ticking_copy_entry(struct qn_arena *arena,
                                                   const struct qn_schedule_entry *entry,
                                                   struct qn_schedule_entry *ret_copy,
                                                   quern_error *err);

#endif
