/* SPDX-License-Identifier: MIT */
/* give_back.h - takes runs that have not started out of the pool again. With mutex held. */
#ifndef QN_WORKER_RUN_GIVE_BACK_H
#define QN_WORKER_RUN_GIVE_BACK_H

#include "worker/run/run.h"

struct quern_worker;

/* Gives back runs that wait too long, whose queue is paused, or all when the worker drains.
 * Returns how many waited too long. */
size_t qn_give_back_waiting(struct quern_worker *worker, int64_t now_mono_ns);
/* Leaves a run to others whose pattern has no place: it goes to retry for a moment, and nothing is
 * counted. */
void qn_give_back_aside(struct quern_worker *worker, struct quern_run *run, int64_t now_mono_ns);
/* Cancels a held run, wherever it is. */
void qn_give_back_cancelled(struct quern_worker *worker, struct quern_run *run,
                            enum qn_cancel_reason reason);

#endif
