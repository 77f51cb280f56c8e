/* SPDX-License-Identifier: MIT */
/* lease_share.c - the shares of queues that are asked at the same time. */
#include "broker/redis/run/lease_share.h"

#include "task/choice.h"

bool qn_lease_is_alone(const struct qn_exchange *exchange)
{
    return exchange->solo == QN_SOLO_KEEP || exchange->solo == QN_SOLO_RUN;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void qn_lease_share_first(const struct qn_exchange *exchange, uint32_t solo_queue, uint32_t room,
                          uint32_t *want)
{
    bool alone = qn_lease_is_alone(exchange);
    for (uint32_t i = 0; i < exchange->queue_count; i++) {
        want[i] = exchange->queue_count == 1 ? room : exchange->queues[i].quota;
        if (alone || exchange->strict) {
            want[i] = i == (alone ? solo_queue : 0) ? room : 0;
        }
        want[i] = least(want[i], room);
        room -= want[i];
    }
}

void qn_lease_share_again(const struct qn_exchange *exchange, const uint32_t *waiting,
                          uint32_t room, uint32_t *want)
{
    uint32_t weights[QN_QUEUES_MAX];
    bool more[QN_QUEUES_MAX];
    for (size_t i = 0; i < exchange->queue_count; i++) {
        weights[i] = exchange->queues[i].weight;
        more[i] = waiting[i] > 0;
        want[i] = exchange->strict ? least(waiting[i], room) : 0;
        room -= want[i];
    }
    if (!exchange->strict && !qn_lease_is_alone(exchange)) {
        (void)qn_choice_redraw(weights, more, exchange->queue_count, room, want);
    }
}
