/* SPDX-License-Identifier: MIT */
/* document.h - what all calls of quern/metrics.h begin and end with. */
#ifndef QN_METRICS_DOCUMENT_H
#define QN_METRICS_DOCUMENT_H

#include "metrics/exposition.h"

/* The options and arguments of a caller. */
struct qn_document_call {
    const quern_metrics_options *options;
    size_t options_size;
    char **ret_text;
    size_t *ret_size;
};

struct qn_document {
    struct qn_exposition exposition;
    struct qn_buf text;
    quern_metrics_options options;
};

/* Checks the arguments. QUERN_E_INVALID: nothing is to be freed. */
QUERN_NODISCARD quern_status qn_document_begin(struct qn_document *document,
                                               const struct qn_document_call *call,
                                               quern_error *err);
/* Adds what the options want of the process, and gives the text to the caller. Frees it where
 * `status`, or what was written, is a failure, which is returned. */
QUERN_NODISCARD quern_status qn_document_end(struct qn_document *document,
                                             const struct qn_document_call *call,
                                             quern_status status, quern_error *err);

#endif
