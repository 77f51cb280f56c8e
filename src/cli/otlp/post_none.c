/* SPDX-License-Identifier: MIT */
/* post_none.c - built without libcurl, quern sends no spans, and says so. */
#include "cli/otlp/post.h"

#include "base/error.h"

quern_status qn_post_open(const struct qn_otlp_settings *settings, struct qn_post **ret_post,
                          quern_error *err)
{
    (void)settings;
    (void)ret_post;
    return qn_error_set(err, QUERN_E_UNSUPPORTED,
                        "quern was built without libcurl, so it cannot send spans");
}

quern_status qn_post_send(struct qn_post *post, const quern_trace_document *document,
                          quern_error *err)
{
    (void)post;
    (void)document;
    return qn_error_set(err, QUERN_E_UNSUPPORTED, "no libcurl");
}

uint64_t qn_post_take_rejected(struct qn_post *post)
{
    (void)post;
    return 0;
}

void qn_post_close(struct qn_post *post)
{
    (void)post;
}
