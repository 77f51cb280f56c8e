/* SPDX-License-Identifier: MIT */
/* fuzz_trace.c - any text as traceparent and tracestate: what is valid is written as version 0, and
 * that is read as the same context; a state that may be passed on keeps the rules of headers. */
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "lib_fuzz.h"
#include "trace/context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    struct qn_trace_context context;
    struct qn_trace_context again;
    char written[QN_TRACEPARENT_SIZE];
    if (qn_trace_context_parse(text, &context)) {
        fuzz_require(context.span != 0 && (context.trace_high | context.trace_low) != 0);
        qn_trace_context_format(&context, written);
        fuzz_require(strlen(written) == QN_TRACEPARENT_SIZE - 1);
        fuzz_require(qn_trace_context_parse(written, &again));
        fuzz_require(again.trace_high == context.trace_high &&
                     again.trace_low == context.trace_low && again.span == context.span &&
                     again.sampled == context.sampled);
        fuzz_require(strncmp(written + 2, text + 2, QN_TRACEPARENT_SIZE - 5) == 0);
    }
    if (qn_trace_context_check_state(text)) {
        fuzz_require(strlen(text) <= QN_TRACESTATE_SIZE_MAX && strchr(text, '=') != NULL);
        fuzz_require(qn_utf8_valid(text, strlen(text)));
    }
    free(text);
    return 0;
}
