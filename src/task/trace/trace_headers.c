/* SPDX-License-Identifier: MIT */
/* trace_headers.c - reads and replaces the headers that name the trace of a task. */
#include "task/trace/trace_headers.h"

#include <strings.h>

#include "task/limits.h"

#define PARENT_NAME "traceparent"
#define STATE_NAME "tracestate"

static const char *find(struct qn_trace_headers headers, const char *name)
{
    for (size_t i = 0; i < headers.count; i++) {
        if (strcasecmp(headers.headers[i].name, name) == 0) {
            return headers.headers[i].value;
        }
    }
    return NULL;
}

bool qn_trace_headers_find(struct qn_trace_headers headers, struct qn_trace_context *ret_context)
{
    return qn_trace_context_parse(find(headers, PARENT_NAME), ret_context);
}

const char *qn_trace_headers_parent(struct qn_trace_headers headers)
{
    struct qn_trace_context context;
    const char *parent = find(headers, PARENT_NAME);
    return qn_trace_context_parse(parent, &context) ? parent : NULL;
}

const char *qn_trace_headers_state(struct qn_trace_headers headers)
{
    const char *state = find(headers, STATE_NAME);
    return qn_trace_headers_parent(headers) != NULL && qn_trace_context_check_state(state) ? state
                                                                                           : NULL;
}

const char *qn_trace_headers_id(struct qn_trace_headers headers, char text[QN_TRACE_ID_SIZE])
{
    struct qn_trace_context context;
    if (!qn_trace_headers_find(headers, &context)) {
        return NULL;
    }
    qn_trace_context_format_id(&context, text);
    return text;
}

static bool is_trace(const char *name)
{
    return strcasecmp(name, PARENT_NAME) == 0 || strcasecmp(name, STATE_NAME) == 0;
}

size_t qn_trace_headers_fill(struct qn_trace_headers headers, const char *parent, const char *state,
                             quern_header *out)
{
    size_t count = 0;
    for (size_t i = 0; i < headers.count; i++) {
        if (!is_trace(headers.headers[i].name)) {
            out[count++] = headers.headers[i];
        }
    }
    if (count < QN_HEADER_COUNT_MAX) {
        out[count++] = (quern_header){PARENT_NAME, parent};
    }
    if (count < QN_HEADER_COUNT_MAX && state != NULL) {
        out[count++] = (quern_header){STATE_NAME, state};
    }
    return count;
}

bool qn_trace_headers_put(struct qn_trace_headers *headers, const char *parent, const char *state,
                          struct qn_arena *arena)
{
    quern_header *copy = qn_arena_alloc(arena, (headers->count + 2) * sizeof *copy);
    if (copy == NULL) {
        return false;
    }
    headers->count = qn_trace_headers_fill(*headers, parent, state, copy);
    headers->headers = copy;
    return true;
}
