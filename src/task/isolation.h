/* SPDX-License-Identifier: MIT */
/* isolation.h - the company of charged tasks: a task that saw processes die comes back in ever
 * less of it. Pure, as deaths.h. */
#ifndef QN_TASK_ISOLATION_H
#define QN_TASK_ISOLATION_H

#include <stdbool.h>
#include <stdint.h>

#include "task/limits.h"

/* Of a worker whose handlers share its process. Zero: each run has a process of its own, or there
 * is one slot only; then nothing is kept apart. */
struct qn_isolation {
    uint32_t slots;
    uint32_t held[QN_ALONE_CHARGES - 1]; /* [c - 1]: its runs of tasks charged c times or more */
};

/* Whether a task that was charged so often must run alone, by the queue's solo lock. */
bool qn_isolation_is_solo(const struct qn_isolation *isolation, int64_t charges);
/* How many more runs of tasks with this many charges the worker may hold; not for solo runs. */
uint32_t qn_isolation_room(const struct qn_isolation *isolation, int64_t charges);
/* Counts one more run of such a task. */
void qn_isolation_add(struct qn_isolation *isolation, int64_t charges);

#endif
