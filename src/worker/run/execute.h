/* SPDX-License-Identifier: MIT */
/* execute.h - runs on pool threads. */
#ifndef QN_WORKER_RUN_EXECUTE_H
#define QN_WORKER_RUN_EXECUTE_H

#include "worker/run/mux.h"
#include "worker/run/run.h"

struct quern_worker;

/* Sends results and progress of a worker's runs to its broker. */
extern const struct qn_run_sink qn_execute_sink;
/* quern_run.item.execute: starts the run, calls its handler, finishes it. A run that is acked early
 * and whose handler has a child is passed on to that. */
void qn_execute_item(struct qn_pool_item *item);
/* With mutex held: gives the pool the runs that have got a place of their pattern. True: then call
 * qn_pool_wake without it. */
QUERN_NODISCARD bool qn_execute_submit_ready(struct quern_worker *worker);
/* With mutex held: gives each run of the list (of item.node) to its pool, and empties the list.
 * True as above. */
QUERN_NODISCARD bool qn_execute_give(struct quern_worker *worker, struct qn_list *take_runs);
/* With mutex held: passes a run to the prefork pool. */
void qn_execute_submit(struct quern_worker *worker, struct quern_run *run);
/* For a run in a child: it is about to start. False: it must not, and it is finished. has_started:
 * its child has started it already, so it cannot be refused. */
bool qn_execute_begin(struct quern_worker *worker, struct quern_run *run, bool has_started);
/* Its child died before the handler was called: it is given back, and nothing is counted. */
void qn_execute_return(struct quern_worker *worker, struct quern_run *run);
/* Its child died with its zygote, and so the worker: the run stays in the table as it is, and gets
 * no outcome but from the recovery of the worker. */
void qn_execute_fall(struct quern_worker *worker, struct quern_run *run);
/* Its child has returned an outcome, or died: decides the fate of its task. */
void qn_execute_end(struct quern_worker *worker, struct quern_run *run);
/* Calls the handler chain of `mux` and fills in outcome, error and the rest. An invalid outcome
 * becomes QUERN_RETRY with an error text that reports this. */
void qn_execute_handler(struct quern_run *run, const quern_mux *mux);

#endif
