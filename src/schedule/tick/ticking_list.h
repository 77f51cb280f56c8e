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

#endif
