/* SPDX-License-Identifier: MIT */
/* page_bound.c - compares the number of entries that a walk reads with the number that the server
 * holds.
 *
 * Pages may be empty (a sparse hash table), items may come twice (while it grows), so the bound is
 * generous: it is for servers that never report an end. */
#include "broker/redis/inspect/page_bound.h"

#include "base/error.h"
#include "broker/redis/schema/keys.h"

#define PAGE_WEIGHT 500      /* of a page, even an empty one */
#define ITEM_BYTES 64        /* that weigh as much as an item */
#define WEIGHT_FREE 500000   /* before the size is requested */
#define WEIGHT_PER_ITEM 32   /* of the number that the server holds */
#define ITEMS_MAX UINT32_MAX /* Redis holds no more in one key */

void qn_page_bound_add(struct qn_page_bound *bound, const struct qn_reply *page)
{
    bound->weight += PAGE_WEIGHT;
    for (size_t i = 0; page != NULL && i < page->count; i++) {
        bound->weight += 1 + qn_reply_at(page, i)->size / ITEM_BYTES;
    }
}

static quern_status ask_size(const struct qn_page_bound *bound, uint64_t *ret_size,
                             quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, bound->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, bound->size_command);
    if (bound->key != NULL && bound->queue != NULL) {
        qn_keys_add(&pipeline, bound->queue, bound->key);
    } else if (bound->key != NULL) {
        qn_pipeline_text(&pipeline, bound->key);
    } else {
        qn_pipeline_at(&pipeline, bound->node);
    }
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        uint64_t size = qn_reply_uint(reply);
        *ret_size = size < ITEMS_MAX ? size : ITEMS_MAX;
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_page_bound_check(struct qn_page_bound *bound, quern_error *err)
{
    if (bound->weight <= (bound->weight_max == 0 ? WEIGHT_FREE : bound->weight_max)) {
        return QUERN_OK;
    }
    uint64_t size = 0;
    quern_status status = ask_size(bound, &size, err);
    if (status != QUERN_OK) {
        return status;
    }
    bound->weight_max = WEIGHT_FREE + WEIGHT_PER_ITEM * size;
    if (bound->weight <= bound->weight_max) {
        return QUERN_OK;
    }
    return qn_error_set(
        err, QUERN_E_BROKER, "%s: reading does not end: %s reported %llu, and far more arrived",
        qn_failover_address(&bound->self->failover), bound->size_command, (unsigned long long)size);
}
