/* SPDX-License-Identifier: MIT */
/* otlp.h - spans as a request of OTLP/HTTP in JSON. */
#ifndef QN_TRACE_OTLP_H
#define QN_TRACE_OTLP_H

#include "base/text/buf.h"
#include "quern/header.h"
#include "trace/span.h"

/* What all spans of a tracer have in common. */
struct qn_otlp_resource {
    const quern_header *attributes;
    size_t count;
};

/* One document of `count` spans, in place of what `out` holds. QUERN_E_NOMEM; QUERN_E_FULL: it is
 * larger than `out` may be. */
QUERN_NODISCARD quern_status qn_otlp_write(struct qn_buf *out,
                                           const struct qn_otlp_resource *resource,
                                           const struct qn_span *const *spans, size_t count);

#endif
