/* SPDX-License-Identifier: MIT */
/* post.h - sends documents to a collector over HTTP or HTTPS.
 *
 * Two files implement it: post_curl.c, and post_none.c where quern is built without libcurl. */
#ifndef QN_CLI_OTLP_POST_H
#define QN_CLI_OTLP_POST_H

#include "cli/otlp/settings.h"
#include "quern/trace.h"

struct qn_post;

/* The settings must outlive it. One object of a process at a time. QUERN_E_UNSUPPORTED: there is no
 * libcurl here. */
QUERN_NODISCARD quern_status qn_post_open(const struct qn_otlp_settings *settings,
                                          struct qn_post **ret_post, quern_error *err);
/* For quern_tracer_options.send; one thread. */
quern_status qn_post_send(struct qn_post *post, const quern_trace_document *document,
                          quern_error *err);
/* How many spans the collector has refused in documents that it has taken, since the last call. */
uint64_t qn_post_take_rejected(struct qn_post *post);
void qn_post_close(struct qn_post *post);

#endif
