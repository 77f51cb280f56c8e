/* SPDX-License-Identifier: MIT */
/* source.h - ids of traces and spans, and which traces are recorded. */
#ifndef QN_TRACE_SOURCE_H
#define QN_TRACE_SOURCE_H

#include <pthread.h>

#include "base/random.h"
#include "trace/context.h"

#define QN_SAMPLE_PPM_MAX 1000000

struct qn_trace_source {
    pthread_mutex_t mutex;
    struct qn_random random; /* guarded by mutex */
    int32_t sample_ppm;      /* of traces that begin here */
};

void qn_trace_source_init(struct qn_trace_source *source, int32_t sample_ppm);
void qn_trace_source_finish(struct qn_trace_source *source);
/* The context of a new span: below `parent`, whose flag it has; NULL: it begins a trace. Any
 * thread. */
void qn_trace_source_next(struct qn_trace_source *source, const struct qn_trace_context *parent,
                          struct qn_trace_context *ret_context);
/* The same for what must have the same ids each time: of a trace that begins with `seed`. */
void qn_trace_source_derive(const struct qn_trace_source *source, const uint64_t seed[2],
                            struct qn_trace_context *ret_context);
/* A number with the bits of both well mixed, never 0. */
uint64_t qn_trace_source_mix(uint64_t a, uint64_t b);

#endif
