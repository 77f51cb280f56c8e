/* SPDX-License-Identifier: MIT */
/* lease_solo.c - an exchange's requests for the solo locks of its queues (enum qn_solo). */
#include "broker/sqlite/queue/solo.h"
#include "broker/sqlite/run/lease_batch.h"

/* The first queue whose solo lock the worker may have and needs. */
static quern_status ask_solo(struct qn_lease_batch *batch, uint32_t *ret_queue_index,
                             quern_error *err)
{
    for (uint32_t i = 0; i < batch->exchange->queue_count; i++) {
        struct qn_lease_source source;
        bool waits = false;
        quern_status status = qn_lease_batch_source(batch, i, &source, err);
        if (status != QUERN_OK) {
            return status;
        }
        if (source.queue->no == 0 || source.queue->paused ||
            qn_solo_wait_ms(&source.queue->solo, batch->counters->now_ms) > 0) {
            continue;
        }
        status = qn_pick_solo_waits(batch, &source, &waits, err);
        if (status != QUERN_OK || waits) {
            *ret_queue_index = i;
            return status == QUERN_OK ? qn_solo_take(batch->counters, source.queue, err) : status;
        }
    }
    return QUERN_OK;
}

/* Keep and run: *ret_queue_index is left as it is where the lock is no longer held. */
static quern_status keep_solo(struct qn_lease_batch *batch, uint32_t queue_index,
                              uint32_t *ret_queue_index, quern_error *err)
{
    const struct qn_exchange *exchange = batch->exchange;
    struct qn_lease_source source;
    bool held = false;
    quern_status status = qn_lease_batch_source(batch, queue_index, &source, err);
    if (status == QUERN_OK) {
        status = qn_solo_keep(batch->counters, source.queue, &held, err);
    }
    if (status != QUERN_OK || !held) {
        return status;
    }
    *ret_queue_index = queue_index;
    bool runs = exchange->solo == QN_SOLO_RUN && exchange->room > 0 && !source.queue->paused;
    return runs ? qn_pick_solo(batch, &source, err) : QUERN_OK;
}

static quern_status end_solo(struct qn_lease_batch *batch, uint32_t queue_index, quern_error *err)
{
    struct qn_lease_source source;
    quern_status status = qn_lease_batch_source(batch, queue_index, &source, err);
    return status == QUERN_OK ? qn_solo_end(batch->counters, source.queue, err) : status;
}

quern_status qn_lease_solo(struct qn_lease_batch *batch, uint32_t *ret_queue_index, bool *ret_usual,
                           quern_error *err)
{
    const struct qn_exchange *exchange = batch->exchange;
    uint32_t queue_index = exchange->solo_queue;
    uint32_t none = (uint32_t)exchange->queue_count;
    quern_status status = QUERN_OK;
    *ret_queue_index = none;
    switch (exchange->solo) {
    case QN_SOLO_NONE:
        break;
    case QN_SOLO_ASK:
        status = ask_solo(batch, ret_queue_index, err);
        break;
    case QN_SOLO_KEEP:
    case QN_SOLO_RUN:
        *ret_usual = false;
        return queue_index < none ? keep_solo(batch, queue_index, ret_queue_index, err) : QUERN_OK;
    case QN_SOLO_END:
        status = queue_index < none ? end_solo(batch, queue_index, err) : QUERN_OK;
        break;
    }
    *ret_usual = *ret_queue_index == none;
    return status;
}
