/* SPDX-License-Identifier: MIT */
/* execute.h - runs on pool threads. */
#ifndef QN_WORKER_RUN_EXECUTE_H
#define QN_WORKER_RUN_EXECUTE_H

#include "worker/run/mux.h"
#include "worker/run/run.h"

struct quern_worker;

/* Sends results and progress of a worker's runs to its broker. */
extern const struct qn_run_sink qn_execute_sink;
/* quern_run.item.execute: starts the run, calls its handler, finishes it. */
void qn_execute_item(struct qn_pool_item *item);
/* With mutex held: gives the pool the runs that have got a place of their pattern. True: then call
 * qn_pool_wake without it. */
QUERN_NODISCARD bool qn_execute_submit_ready(struct quern_worker *worker);
/* Calls the handler chain of `mux` and fills in outcome, error and the rest. An invalid outcome
 * becomes QUERN_RETRY with an error text that reports this. */
void qn_execute_handler(struct quern_run *run, const quern_mux *mux);

#endif
