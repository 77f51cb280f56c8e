/* SPDX-License-Identifier: MIT */
/* groups.h - the thread of a worker that aggregates groups. */
#ifndef QN_WORKER_GROUPS_H
#define QN_WORKER_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "quern/status.h"

struct quern_worker;

/* Starts the thread if the mux, which is frozen, has aggregators. */
QUERN_NODISCARD quern_status qn_groups_start(struct quern_worker *worker, quern_error *err);
/* Asks the thread to end. */
void qn_groups_stop(struct quern_worker *worker);
/* After qn_groups_stop: joins the thread. False: its aggregator has not ended after wait_ms, and
 * uses the worker; call it again later. Without a thread it does nothing. */
bool qn_groups_join(struct quern_worker *worker, int64_t wait_ms);

#endif
