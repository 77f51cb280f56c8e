/* SPDX-License-Identifier: MIT */
/* exchange.c - the parts of an exchange that all brokers share, and what one without priorities
 * answers. */
#include "base/error.h"
#include "broker/ops.h"

bool qn_broker_asks_apart(const struct qn_broker *broker)
{
    return broker->asks_apart;
}

void qn_exchange_clear(struct qn_exchange *exchange, struct qn_exchange_reply *reply)
{
    reply->run_count = 0;
    reply->late_count = 0;
    reply->more = false;
    reply->is_partial = false;
    for (size_t i = 0;
         reply->unanswered != NULL && i < exchange->outcome_count + exchange->start_count; i++) {
        reply->unanswered[i] = false;
    }
    for (size_t i = 0; i < exchange->queue_count; i++) {
        exchange->queues[i].leased = 0;
        exchange->queues[i].unanswered = false;
        exchange->queues[i].unasked = false;
        if (exchange->queues[i].skip) {
            continue;
        }
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

quern_status qn_broker_refuse_priority(quern_error *err)
{
    return qn_error_set(err, QUERN_E_UNSUPPORTED,
                        "priority: redis has none inside a queue; use a queue for each priority, "
                        "which workers serve with weights");
}
