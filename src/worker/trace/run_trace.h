/* SPDX-License-Identifier: MIT */
/* run_trace.h - the spans of a run: its wait, and itself. */
#ifndef QN_WORKER_TRACE_RUN_TRACE_H
#define QN_WORKER_TRACE_RUN_TRACE_H

#include "broker/broker.h"

struct quern_run;
struct quern_worker;

/* Before its handler, or its child, can see it: the headers that they are shown name the span of
 * the run. Out of memory it has no spans. Does nothing without a tracer. */
void qn_run_trace_begin(struct quern_worker *worker, struct quern_run *run);
/* Once the broker has answered. */
void qn_run_trace_end(struct quern_worker *worker, const struct quern_run *run,
                      enum qn_applied applied);

#endif
