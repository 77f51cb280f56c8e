/* SPDX-License-Identifier: MIT */
/* leased.c - a leased run in one block of memory: the struct first, then all that its task holds;
 * and the runs of an exchange, which both brokers clear and free alike.
 */
#include "base/assert.h"
#include "base/memory/slab.h"
#include "broker/block.h"
#include "broker/ops.h"

struct qn_leased *qn_leased_copy(struct qn_slab *slab, const struct qn_leased *leased)
{
    size_t size = sizeof *leased + qn_block_task_size(&leased->task);
    struct qn_leased *copy = qn_slab_alloc(slab, size + 1); /* so that empty blocks lie inside */
    if (copy == NULL) {
        return NULL;
    }
    *copy = *leased;
    char *at = (char *)(copy + 1);
    qn_block_put_task(&at, &copy->task);
    QN_ASSERT(at == (char *)copy + size);
    return copy;
}

void qn_leased_free(struct qn_leased *leased)
{
    qn_slab_free(leased);
}

void qn_exchange_clear(struct qn_exchange *exchange, struct qn_exchange_reply *reply)
{
    reply->run_count = 0;
    reply->more = false;
    for (size_t i = 0; i < exchange->queue_count; i++) {
        exchange->queues[i].leased = 0;
        exchange->queues[i].paused = false;
        exchange->queues[i].braked = false;
        exchange->queues[i].deaths = 0;
        exchange->queues[i].wait_ms = 0;
    }
}

void qn_exchange_free_runs(struct qn_exchange_reply *reply)
{
    for (size_t i = 0; i < reply->run_count; i++) {
        qn_leased_free(reply->runs[i]);
        reply->runs[i] = NULL;
    }
    reply->run_count = 0;
}
