/* SPDX-License-Identifier: MIT */
/* tracer.h - what clients and workers ask of a tracer. */
#ifndef QN_TRACE_TRACER_H
#define QN_TRACE_TRACER_H

#include "quern/trace.h"
#include "trace/source.h"
#include "trace/span.h"

/* Constant: where its ids come from. */
struct qn_trace_source *qn_tracer_source(quern_tracer *tracer);
/* Copies the span into the queue, if its trace is recorded; where that is full it is dropped. Any
 * thread; never waits. */
void qn_tracer_add(quern_tracer *tracer, const struct qn_span *span);

#endif
