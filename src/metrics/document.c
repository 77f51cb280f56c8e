/* SPDX-License-Identifier: MIT */
/* document.c - options, the text and its end; and the calls of quern/metrics.h that are about no
 * object. */
#include "metrics/document.h"

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "metrics/accept.h"
#include "metrics/process.h"

quern_status qn_document_begin(struct qn_document *document, const struct qn_document_call *call,
                               quern_error *err)
{
    if (call->ret_text == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "ret_text: must not be NULL");
    }
    quern_metrics_options *options = &document->options;
    quern_status status =
        qn_sized_copy((struct qn_room){options, sizeof *options},
                      (struct qn_bytes){call->options, call->options_size}, "options", err);
    if (status != QUERN_OK) {
        return status;
    }
    if (options->format != QUERN_METRICS_TEXT && options->format != QUERN_METRICS_OPENMETRICS) {
        return qn_error_set(err, QUERN_E_INVALID, "format: %d is none", (int)options->format);
    }
    if (!qn_sized_zero(options->reserved, sizeof options->reserved)) {
        return qn_error_set(err, QUERN_E_INVALID, "reserved: must be 0");
    }
    qn_buf_init(&document->text, QN_EXPOSITION_SIZE_MAX);
    qn_exposition_init(&document->exposition, &document->text,
                       (quern_metrics_format)options->format);
    return QUERN_OK;
}

quern_status qn_document_end(struct qn_document *document, const struct qn_document_call *call,
                             quern_status status, quern_error *err)
{
    struct qn_exposition *exposition = &document->exposition;
    if (document->options.process) {
        qn_process_render(exposition);
    }
    if (!document->options.is_partial) {
        qn_exposition_end(exposition);
    }
    if (status == QUERN_OK && exposition->status == QUERN_OK && document->text.data == NULL) {
        exposition->status = qn_buf_append_text(&document->text, ""); /* "", and no NULL */
    }
    if (status == QUERN_OK && exposition->status != QUERN_OK) {
        status = exposition->status == QUERN_E_NOMEM
                     ? qn_error_nomem(err)
                     : qn_error_set(err, exposition->status, "metrics: more than 64 MiB");
    }
    if (status != QUERN_OK) {
        qn_buf_finish(&document->text);
        return status;
    }
    *call->ret_text = document->text.data;
    if (call->ret_size != NULL) {
        *call->ret_size = document->text.size;
    }
    return QUERN_OK;
}

quern_status quern_metrics_process_sized(const quern_metrics_options *options, size_t options_size,
                                         char **ret_text, size_t *ret_size, quern_error *err)
{
    const struct qn_document_call call = {options, options_size, ret_text, ret_size};
    struct qn_document document;
    quern_status status = qn_document_begin(&document, &call, err);
    if (status != QUERN_OK) {
        return status;
    }
    document.options.process = true;
    return qn_document_end(&document, &call, QUERN_OK, err);
}

quern_metrics_format quern_metrics_accept(const char *accept)
{
    return accept == NULL ? QUERN_METRICS_TEXT : qn_accept_choose(accept);
}

const char *quern_metrics_content_type(quern_metrics_format format)
{
    return format == QUERN_METRICS_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

void quern_metrics_free(char *text)
{
    qn_free(text);
}
