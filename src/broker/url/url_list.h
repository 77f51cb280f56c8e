/* SPDX-License-Identifier: MIT */
/* url_list.h - the URLs of servers that stand in for each other: "redis://a;redis://b". */
#ifndef QN_BROKER_URL_URL_LIST_H
#define QN_BROKER_URL_URL_LIST_H

#include <stdbool.h>

#include "base/text/url.h"
#include "quern/status.h"

#define QN_URL_LIST_MAX 32 /* a cycle through more takes too long */

struct qn_url_list {
    struct qn_url urls[QN_URL_LIST_MAX];
    size_t count;
};

/* Whether the scheme is one of Redis. */
bool qn_url_list_is_redis(const struct qn_url *url);
/* QUERN_E_INVALID: one of them is wrong, or not of Redis. */
QUERN_NODISCARD quern_status qn_url_list_init(struct qn_url_list *list, const char *text,
                                              quern_error *err);
void qn_url_list_finish(struct qn_url_list *list);

#endif
