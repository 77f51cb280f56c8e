/* SPDX-License-Identifier: MIT */
/* trace_headers.h - the trace of a task: its headers "traceparent" and "tracestate".
 *
 * Their names are found in any case, as in HTTP, and written in lower case. */
#ifndef QN_TASK_TRACE_TRACE_HEADERS_H
#define QN_TASK_TRACE_TRACE_HEADERS_H

#include "base/memory/arena.h"
#include "quern/header.h"
#include "trace/context.h"

struct qn_trace_headers {
    const quern_header *headers;
    size_t count;
};

/* False: there is no valid parent. Of several the first counts. */
bool qn_trace_headers_find(struct qn_trace_headers headers, struct qn_trace_context *ret_context);
/* Their values; NULL: not there, or not valid. A state without a valid parent is none. */
const char *qn_trace_headers_parent(struct qn_trace_headers headers);
const char *qn_trace_headers_state(struct qn_trace_headers headers);
/* The id of its trace, in `text`, for a log; NULL: there is no valid parent. */
const char *qn_trace_headers_id(struct qn_trace_headers headers, char text[QN_TRACE_ID_SIZE]);
/* Writes headers without those of a trace, and behind them these, to `out`, which has room for two
 * more than there are; state NULL: none. Returns how many: where the limit of a task leaves no room
 * they are left out. */
size_t qn_trace_headers_fill(struct qn_trace_headers headers, const char *parent, const char *state,
                             quern_header *out);
/* Other headers in place of these: with `parent`, and with `state` unless it is NULL, and without
 * those that were there. They live in `arena`; names and values are borrowed. Where there is no
 * room for another header the result is without them. False: out of memory. */
QUERN_NODISCARD bool qn_trace_headers_put(struct qn_trace_headers *headers, const char *parent,
                                          const char *state, struct qn_arena *arena);

#endif
