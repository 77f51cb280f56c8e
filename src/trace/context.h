/* SPDX-License-Identifier: MIT */
/* context.h - where in a trace something happens, as W3C Trace Context writes it.
 *
 * "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": version, trace, span, flags. Of the
 * flags only "sampled" is kept, as that standard wants it. */
#ifndef QN_TRACE_CONTEXT_H
#define QN_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qn_trace_context {
    uint64_t trace_high; /* the id of the trace in two halves, not both 0 */
    uint64_t trace_low;
    uint64_t span; /* not 0 */
    bool sampled;  /* spans of this trace are wanted */
};

enum {
    QN_TRACEPARENT_SIZE = 56, /* with the NUL, as the two next */
    QN_TRACE_ID_SIZE = 33,
    QN_TRACE_SPAN_SIZE = 17,
    QN_TRACESTATE_SIZE_MAX = 512 /* what others must pass on at least */
};

/* False: the text (NULL is one) breaks a rule. Later versions are read as far as they are version
 * 0. */
bool qn_trace_context_parse(const char *text, struct qn_trace_context *ret_context);
/* The same as version 0. */
void qn_trace_context_format(const struct qn_trace_context *context,
                             char text[QN_TRACEPARENT_SIZE]);
/* The id of its trace, and of a span. */
void qn_trace_context_format_id(const struct qn_trace_context *context,
                                char text[QN_TRACE_ID_SIZE]);
void qn_trace_context_format_span(uint64_t span, char text[QN_TRACE_SPAN_SIZE]);
/* Whether a tracestate may be passed on: up to 32 members "key=value". NULL and "" may not. */
bool qn_trace_context_check_state(const char *text);

#endif
