/* SPDX-License-Identifier: MIT */
/* run_table.h - every run that a worker holds, from its lease to its confirmed outcome.
 *
 *   add -> waiting -- start --> running -- finish --> finished -- drop --> gone
 *             |                    |---- fence ---------^
 *             '---- finish --------'     (its thread still runs)
 *
 * A pattern may have a limit of its own, below the worker's slots. A run of it that finds no place
 * is parked: it waits here and not in the pool, and takes no slot.
 *
 *   place --> taken ------ finish, fence --> none
 *       |       ^--- take_ready --- ready <--,
 *       '--> parked ---- a place gets free --'
 *
 * All functions are called with the worker's mutex held. */
#ifndef QN_WORKER_RUN_RUN_TABLE_H
#define QN_WORKER_RUN_RUN_TABLE_H

#include "base/random.h"
#include "worker/run/run.h"

/* The runs of a pattern with a limit; or, of all others, those that are acked early and then go to
 * a child: done is not written before a child can have them, so there are as many as slots. Parked
 * ones wait as if in the pool: they count as taking a slot. */
struct qn_run_type {
    struct qn_run_type *next;
    const struct qn_mux_entry *entry; /* NULL: those with an early ack */
    uint32_t limit;
    uint32_t own_limit;   /* of the pattern; 0: none, the limit is the slots */
    bool is_within_slots; /* the limit is never above the slots */
    uint32_t taken;       /* its runs in the pool, or on their way there */
    uint32_t parked_count;
    struct qn_list parked;   /* by item.node */
    int64_t mean_ns;         /* of its runs, gliding; 0: none has ended */
    int64_t back_at_mono_ns; /* when the last of those put aside comes back */
};

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
    struct qn_run_type *types;              /* owned */
    struct qn_list ready;                   /* by item.node: to be given to the pool */
    size_t parked_count;                    /* for their pattern's limit: parked or ready */
    int64_t aside_until_mono_ns;            /* when the last run that found no place comes back */
    size_t stuck_count; /* pool threads that are lost to handlers which do not end */
    uint32_t slots;     /* of the worker */
};

void qn_run_table_init(struct qn_run_table *table, uint32_t slots);
/* Has effect on the places of those that depend on the slots. */
void qn_run_table_resize(struct qn_run_table *table, uint32_t slots);
/* When no run is left. */
void qn_run_table_free_types(struct qn_run_table *table);
/* A run that waits: whether it may go to the pool (true also for patterns without a limit), or is
 * parked, see its place; false and no place: it must be left to others. */
bool qn_run_table_place(struct qn_run_table *table, struct quern_run *run);
/* Moves the runs that have got a place to `items`, for the pool. False: there are none. */
bool qn_run_table_take_ready(struct qn_run_table *table, int64_t now_mono_ns,
                             struct qn_list *items);
/* How long a run without a place stays away: so that these come back one by one, about as fast as
 * they can be run. */
int64_t qn_run_table_aside_ms(struct qn_run_table *table, const struct quern_run *run,
                              int64_t now_mono_ns, struct qn_random *random);
/* Takes over the caller's reference. */
void qn_run_table_add(struct qn_run_table *table, struct quern_run *take_run);
/* A run that has started in the program before this one. Its place is its own, also where its
 * pattern has fewer by now. */
void qn_run_table_take_over(struct qn_run_table *table, struct quern_run *take_run);
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
/* Takes back one that was taken off, to the end of the list. */
void qn_run_table_put_back(struct qn_run_table *table, struct quern_run *run);
/* Forgets a finished run that was taken off that list. */
void qn_run_table_drop(struct qn_run_table *table, struct quern_run *run);

#endif
