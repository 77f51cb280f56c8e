/* SPDX-License-Identifier: MIT */
/* source.c - makes ids. The choice of the traces that are recorded is made with bits of their ids,
 * as OpenTelemetry does it, so that all who see a trace would choose the same. */
#include "trace/source.h"

#define RANDOM_BITS 56 /* the low ones of a trace's id: what level 2 of W3C promises as random */

void qn_trace_source_init(struct qn_trace_source *source, int32_t sample_ppm)
{
    (void)pthread_mutex_init(&source->mutex, NULL); /* cannot fail on Linux */
    qn_random_init(&source->random);
    source->sample_ppm = sample_ppm;
}

void qn_trace_source_finish(struct qn_trace_source *source)
{
    (void)pthread_mutex_destroy(&source->mutex);
}

static bool is_sampled(const struct qn_trace_source *source, uint64_t trace_low)
{
    const uint64_t range = UINT64_C(1) << RANDOM_BITS;
    if (source->sample_ppm <= 0) {
        return false;
    }
    return source->sample_ppm >= QN_SAMPLE_PPM_MAX ||
           (trace_low & (range - 1)) < range / QN_SAMPLE_PPM_MAX * (uint64_t)source->sample_ppm;
}

static uint64_t next_id(struct qn_random *random)
{
    uint64_t id = qn_random_next(random);
    return id != 0 ? id : 1;
}

void qn_trace_source_next(struct qn_trace_source *source, const struct qn_trace_context *parent,
                          struct qn_trace_context *ret_context)
{
    struct qn_trace_context context = {0};
    (void)pthread_mutex_lock(&source->mutex);
    if (parent != NULL) {
        context = *parent;
    } else {
        context.trace_high = qn_random_next(&source->random);
        context.trace_low = next_id(&source->random);
        context.sampled = is_sampled(source, context.trace_low);
    }
    context.span = next_id(&source->random);
    (void)pthread_mutex_unlock(&source->mutex);
    *ret_context = context;
}

void qn_trace_source_derive(const struct qn_trace_source *source, const uint64_t seed[2],
                            struct qn_trace_context *ret_context)
{
    *ret_context = (struct qn_trace_context){.trace_high = seed[0],
                                             .trace_low = seed[1] != 0 ? seed[1] : 1,
                                             .span = qn_trace_source_mix(seed[0], seed[1]),
                                             .sampled = is_sampled(source, seed[1])};
}

/* The finalizer of splitmix64, by Steele, Lea and Flood. */
uint64_t qn_trace_source_mix(uint64_t a, uint64_t b)
{
    uint64_t mixed = a + b * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    mixed ^= mixed >> 31;
    return mixed != 0 ? mixed : 1;
}
