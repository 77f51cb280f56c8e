/* SPDX-License-Identifier: MIT */
/* page_bound.h - a bound for reading page by page for as long as the server reports that there is
 * more: SCAN, the ids of a list, a queue that is removed in steps.
 *
 *     struct qn_page_bound bound = {.self = self, .size_command = "SCARD", .key = QN_KEY_QUEUES};
 *     do {
 *         ... a pipeline that reads a page; within it: qn_page_bound_add(&bound, page);
 *         status = qn_page_bound_check(&bound, err);
 *     } while (status == QUERN_OK && there is more);
 *
 * A walk that has become long queries the size, and ends with QUERN_E_BROKER if it has read many
 * times that. Short ones cost nothing. */
#ifndef QN_BROKER_REDIS_INSPECT_PAGE_BOUND_H
#define QN_BROKER_REDIS_INSPECT_PAGE_BOUND_H

#include <stdint.h>

#include "broker/redis/redis.h"

struct qn_page_bound {
    int node; /* of a cluster, for a command without a key; one server: 0 */
    struct qn_redis *self;
    const char *size_command; /* LLEN, ZCARD, SCARD, DBSIZE */
    const char *queue;        /* NULL: the key is a whole key */
    const char *key;          /* NULL: the command has none */
    uint64_t weight;          /* of the entries read so far */
    uint64_t weight_max;      /* the count at which the size is requested */
};

/* Counts a page and its entries; NULL: a step without any. */
void qn_page_bound_add(struct qn_page_bound *bound, const struct qn_reply *page);
/* Outside of pipelines of the channel REST. */
QUERN_NODISCARD quern_status qn_page_bound_check(struct qn_page_bound *bound, quern_error *err);

#endif
