/* SPDX-License-Identifier: MIT */
/* isolation.h - the company of charged tasks: a task that saw processes die comes back in ever
 * less of it. Pure, as deaths.h. */
#ifndef QN_TASK_ISOLATION_H
#define QN_TASK_ISOLATION_H

#include <stdbool.h>
#include <stdint.h>

#include "task/limits.h"

/* Of a worker, whether or not its runs have processes of their own: such a process can end the
 * worker, too. The level of a task: struct qn_deaths. With one slot nothing is kept apart. */
struct qn_isolation {
    uint32_t slots;
    uint32_t held[QN_ALONE_CHARGES - 1]; /* [c - 1]: its runs of tasks of level c or above */
};

/* Whether a task of this level must run alone, by the queue's solo lock. */
bool qn_isolation_is_solo(const struct qn_isolation *isolation, int64_t level);
/* How many more runs of tasks of this level the worker may hold; not for solo runs. */
uint32_t qn_isolation_room(const struct qn_isolation *isolation, int64_t level);
/* Counts one more run of such a task. */
void qn_isolation_add(struct qn_isolation *isolation, int64_t level);

#endif
