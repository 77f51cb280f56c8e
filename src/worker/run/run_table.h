/* SPDX-License-Identifier: MIT */
/* run_table.h - the worker's books: every run it holds, from lease to confirmed outcome.
 *
 *   add -> waiting -- start --> running -- finish --> finished -- drop --> gone
 *             |                    |---- fence ---------^
 *             '---- finish --------'     (its thread still runs)
 *
 * All functions are called with the worker's mutex held. */
#ifndef QN_WORKER_RUN_RUN_TABLE_H
#define QN_WORKER_RUN_RUN_TABLE_H

#include "worker/run/run.h"

struct qn_books {
    struct qn_list held;     /* all of them, by quern_run.node */
    struct qn_list waiting;  /* by phase_node, oldest lease first */
    struct qn_list starting; /* running, but the broker has not been told; oldest start first */
    struct qn_list finished; /* with their verdict, also fenced ones */
    size_t held_count;
    size_t waiting_count;
    size_t running_count;
    size_t finished_count;
    uint32_t
        charged[QN_ALONE_CHARGES - 1]; /* [c - 1]: held runs of tasks charged c times or more */
    size_t stuck_count;                /* pool threads that are lost to handlers which do not end */
};

void qn_books_init(struct qn_books *books);
/* Takes over the caller's reference. */
void qn_books_add(struct qn_books *books, struct quern_run *take_run);
/* The handler's thread gets a reference. */
void qn_books_start(struct qn_books *books, struct quern_run *run);
/* A waiting or running run is over. */
void qn_books_finish(struct qn_books *books, struct quern_run *run,
                     const struct qn_verdict *verdict);
/* A running run is given up: its verdict stands, whatever its handler says later. */
void qn_books_fence(struct qn_books *books, struct quern_run *run,
                    const struct qn_verdict *verdict);
/* The one that finished first, taken off the list of finished ones; NULL: there is none. */
struct quern_run *qn_books_take_finished(struct qn_books *books);
/* Forgets a finished run that was taken off that list. */
void qn_books_drop(struct qn_books *books, struct quern_run *run);
/* Returns a reference; the last one frees the run. */
void qn_run_release(struct quern_run *run);

#endif
