/* SPDX-License-Identifier: MIT */
/* keeper.h - the thread of the timers, and its state. */
#ifndef QN_WORKER_KEEPER_KEEPER_H
#define QN_WORKER_KEEPER_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

/* The groups of a queue. */
struct qn_group_note {
    uint64_t tasks;
    uint64_t groups;
    bool logged;
};

/* Used by the keeper's thread only. */
struct qn_keeper {
    struct qn_group_note *group_notes; /* per queue */
    uint32_t gone_count;               /* times in a row that the data was not found */
    uint64_t progress_round;           /* see progress.c; new runs have 0, so it begins with 1 */
    bool progress_left;                /* of this round: another one is needed */
};

void *qn_keeper_main(void *worker);

#endif
