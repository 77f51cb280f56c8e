/* SPDX-License-Identifier: MIT */
/* leased.c - a leased run in one block of memory: the struct first, then all that its task holds;
 * and the runs of an exchange, which both brokers clear and free alike.
 *
 * A payload that lies within the stored message is copied with that, and not once more. */
#include "base/assert.h"
#include "base/lot.h"
#include "broker/block.h"
#include "broker/broker.h"

/* Where in the stored message the payload lies; false: it is not in there. */
static bool is_in_message(const struct qn_leased *leased, size_t *ret_at)
{
    uintptr_t payload = (uintptr_t)leased->task.payload;
    uintptr_t raw = (uintptr_t)leased->raw;
    size_t size = leased->task.payload_size;
    *ret_at = payload - raw;
    return size > 0 && payload >= raw && size <= leased->raw_size &&
           payload - raw <= leased->raw_size - size;
}

struct qn_leased *qn_leased_copy(struct qn_lot *lot, const struct qn_leased *leased)
{
    size_t payload_at = 0;
    bool shares = is_in_message(leased, &payload_at);
    struct qn_task task = leased->task;
    if (shares) {
        task.payload = NULL;
        task.payload_size = 0;
    }
    size_t size = sizeof *leased + qn_block_task_size(&task) + leased->raw_size;
    struct qn_leased *copy = qn_lot_alloc(lot, size + 1); /* so that empty blocks lie inside */
    if (copy == NULL) {
        return NULL;
    }
    *copy = *leased;
    char *at = (char *)(copy + 1);
    qn_block_put_task(&at, &task);
    copy->raw = qn_block_put(&at, leased->raw, leased->raw_size);
    copy->task = task;
    if (shares) {
        copy->task.payload = (const char *)copy->raw + payload_at;
        copy->task.payload_size = leased->task.payload_size;
    }
    QN_ASSERT(at == (char *)copy + size);
    return copy;
}

void qn_leased_free(struct qn_leased *leased)
{
    qn_lot_free(leased);
}

void qn_exchange_clear(struct qn_exchange *exchange, struct qn_exchange_reply *reply)
{
    reply->run_count = 0;
    reply->more = false;
    for (size_t i = 0; i < exchange->queue_count; i++) {
        exchange->queues[i].leased = 0;
        exchange->queues[i].paused = false;
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
