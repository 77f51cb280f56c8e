/* SPDX-License-Identifier: MIT */
/* page_bound.h - the bound of what is read page by page for as long as the server says that there
 * is more: SCAN, the ids of a list, a queue that is removed in steps.
 *
 *     struct qn_page_bound bound = {.self = self, .size_command = "SCARD", .key = QN_KEY_QUEUES};
 *     do {
 *         ... a pipeline that reads a page; within it: qn_page_bound_add(&bound, page);
 *         status = qn_page_bound_check(&bound, err);
 *     } while (status == QUERN_OK && there is more);
 *
 * A walk that has become long asks how much there is, and ends with QUERN_E_BROKER where it has
 * read many times that. Short ones cost nothing. */
#ifndef QN_BROKER_REDIS_INSPECT_PAGE_BOUND_H
#define QN_BROKER_REDIS_INSPECT_PAGE_BOUND_H

#include <stdint.h>

#include "broker/redis/redis.h"

struct qn_page_bound {
    struct qn_redis *self;
    const char *size_command; /* LLEN, ZCARD, SCARD, DBSIZE */
    const char *queue;        /* NULL: the key is a whole key */
    const char *key;          /* NULL: the command has none */
    uint64_t weight;          /* of what was read so far */
    uint64_t weight_max;      /* where the size is asked for */
};

/* Counts a page and what is in it; NULL: a step without any. */
void qn_page_bound_add(struct qn_page_bound *bound, const struct qn_reply *page);
/* Outside of pipelines of the channel REST. */
QUERN_NODISCARD quern_status qn_page_bound_check(struct qn_page_bound *bound, quern_error *err);

#endif
