/* SPDX-License-Identifier: MIT */
/* run_table.h - every run that a worker holds, from its lease to its confirmed outcome.
 *
 *   add -> waiting -- start --> running -- finish --> finished -- drop --> gone
 *             |                    |---- fence ---------^
 *             '---- finish --------'     (its thread still runs)
 *
 * All functions are called with the worker's mutex held. */
#ifndef QN_WORKER_RUN_RUN_TABLE_H
#define QN_WORKER_RUN_RUN_TABLE_H

#include "worker/run/run.h"

struct qn_run_table {
    struct qn_list held;     /* all of them, by quern_run.node */
    struct qn_list waiting;  /* by phase_node, oldest lease first */
    struct qn_list starting; /* running, but the broker does not know it; oldest start first */
    struct qn_list finished; /* with their verdict, also fenced ones */
    size_t held_count;
    size_t waiting_count;
    size_t running_count;
    size_t finished_count;
    uint32_t charged[QN_ALONE_CHARGES - 1]; /* [c - 1]: held runs of tasks of level c or above */
    size_t stuck_count; /* pool threads that are lost to handlers which do not end */
};

void qn_run_table_init(struct qn_run_table *table);
/* Takes over the caller's reference. */
void qn_run_table_add(struct qn_run_table *table, struct quern_run *take_run);
/* The handler's thread gets a reference. */
void qn_run_table_start(struct qn_run_table *table, struct quern_run *run);
/* A waiting or running run has ended. */
void qn_run_table_finish(struct qn_run_table *table, struct quern_run *run,
                         const struct qn_verdict *verdict);
/* A running run is abandoned: its verdict is final, regardless of its handler's return value. */
void qn_run_table_fence(struct qn_run_table *table, struct quern_run *run,
                        const struct qn_verdict *verdict);
/* The one that finished first, taken off the list of finished ones; NULL: there is none. */
struct quern_run *qn_run_table_take_finished(struct qn_run_table *table);
/* Forgets a finished run that was taken off that list. */
void qn_run_table_drop(struct qn_run_table *table, struct quern_run *run);

#endif
