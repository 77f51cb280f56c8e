/* SPDX-License-Identifier: MIT */
/* span.h - one span: what was done for a task, when, and how it ended. */
#ifndef QN_TRACE_SPAN_H
#define QN_TRACE_SPAN_H

#include "trace/context.h"

enum qn_span_kind { QN_SPAN_ENQUEUE, QN_SPAN_WAIT, QN_SPAN_RUN };

/* Texts may be NULL: the attribute is left out then. */
struct qn_span {
    enum qn_span_kind kind;
    struct qn_trace_context context; /* its own: context.span is its id */
    uint64_t parent;                 /* 0: it is the root of its trace */
    int64_t started_at_ns;           /* wall clock */
    int64_t ended_at_ns;
    const char *state; /* tracestate */
    const char *queue;
    const char *type;
    const char *id;
    size_t payload_size;
    int64_t retry_count;     /* of these two a run */
    const char *worker;      /* "host:pid:id" */
    const char *outcome;     /* how it ended, a word */
    const char *cause;       /* why the task ran again */
    const char *error;       /* NULL: it has not failed */
    const char *error_class; /* NULL: "_OTHER", as OpenTelemetry wants it */
};

#endif
