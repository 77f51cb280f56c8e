/* SPDX-License-Identifier: MIT */
/* lease_solo.c - what an exchange asks of the solo locks of its queues (enum qn_solo). */
#include "broker/sqlite/run/lease_batch.h"
#include "broker/sqlite/run/solo.h"

/* The first queue whose solo lock the worker may have and needs. */
static quern_status ask_solo(struct qn_taking *taking, uint32_t *ret_turn, quern_error *err)
{
    struct qn_exchange *exchange = taking->exchange;
    for (uint32_t i = 0; i < exchange->queue_count; i++) {
        struct qn_ledger_queue *queue = NULL;
        bool waits = false;
        quern_status status =
            qn_ledger_queue(taking->ledger, exchange->queues[i].name, &queue, err);
        if (status != QUERN_OK) {
            return status;
        }
        if (queue->no == 0 || queue->paused ||
            qn_solo_wait_ms(&queue->solo, taking->ledger->now_ms) > 0) {
            continue;
        }
        status = qn_pick_solo_waits(taking, i, queue, &waits, err);
        if (status != QUERN_OK || waits) {
            *ret_turn = i;
            return status == QUERN_OK ? qn_solo_take(taking->ledger, queue, err) : status;
        }
    }
    return QUERN_OK;
}

/* Keep and run: *ret_turn is left as it is where the lock is no longer held. */
static quern_status keep_solo(struct qn_taking *taking, uint32_t turn, uint32_t *ret_turn,
                              quern_error *err)
{
    struct qn_exchange *exchange = taking->exchange;
    struct qn_ledger_queue *queue = NULL;
    bool held = false;
    size_t kept = 0;
    quern_status status = qn_ledger_queue(taking->ledger, exchange->queues[turn].name, &queue, err);
    if (status == QUERN_OK) {
        status = qn_solo_keep(taking->ledger, queue, &held, err);
    }
    if (status != QUERN_OK || !held) {
        return status;
    }
    *ret_turn = turn;
    if (exchange->solo == QN_SOLO_RUN && exchange->room > 0 && !queue->paused) {
        status = qn_pick_solo(taking, turn, queue, &kept, err);
        exchange->queues[turn].leased += (uint32_t)kept;
    }
    return status;
}

static quern_status end_solo(struct qn_taking *taking, uint32_t turn, quern_error *err)
{
    struct qn_ledger_queue *queue = NULL;
    quern_status status =
        qn_ledger_queue(taking->ledger, taking->exchange->queues[turn].name, &queue, err);
    return status == QUERN_OK ? qn_solo_end(taking->ledger, queue, err) : status;
}

quern_status qn_lease_solo(struct qn_taking *taking, uint32_t *ret_turn, bool *ret_usual,
                           quern_error *err)
{
    const struct qn_exchange *exchange = taking->exchange;
    uint32_t turn = exchange->solo_queue;
    uint32_t none = (uint32_t)exchange->queue_count;
    quern_status status = QUERN_OK;
    *ret_turn = none;
    switch (exchange->solo) {
    case QN_SOLO_NONE:
        break;
    case QN_SOLO_ASK:
        status = ask_solo(taking, ret_turn, err);
        break;
    case QN_SOLO_KEEP:
    case QN_SOLO_RUN:
        *ret_usual = false;
        return turn < none ? keep_solo(taking, turn, ret_turn, err) : QUERN_OK;
    case QN_SOLO_END:
        status = turn < none ? end_solo(taking, turn, err) : QUERN_OK;
        break;
    }
    *ret_usual = *ret_turn == none;
    return status;
}
