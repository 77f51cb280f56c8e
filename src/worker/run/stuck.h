/* SPDX-License-Identifier: MIT */
/* stuck.h - notices that handlers which ignore their cancellation hold all slots. */
#ifndef QN_WORKER_RUN_STUCK_H
#define QN_WORKER_RUN_STUCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quern_worker;

/* Of the thread of quern_worker_run. */
struct qn_stuck {
    int64_t since_mono_ns; /* 0: a slot is left */
    int64_t log_at_mono_ns;
};

/* Handlers that ignore their cancellation and still hold a thread. */
size_t qn_stuck_hung_count(struct quern_worker *worker);
/* With mutex held: they hold all slots. */
bool qn_stuck_has_no_slot(const struct quern_worker *worker);
/* Logs when it begins, each minute, and when it ends. Returns after how many ms to call it
 * again; -1: only when a handler was given up; 0: stuck_timeout_ms has passed. */
int64_t qn_stuck_check(struct quern_worker *worker, struct qn_stuck *stuck);

#endif
