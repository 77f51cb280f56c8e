/* SPDX-License-Identifier: MIT */
/* exchange.c - the parts of an exchange that all brokers share. */
#include "base/bug.h"
#include "broker/ops.h"

static bool is_over(int64_t at_ms, int64_t now_ms)
{
    return at_ms > 0 && at_ms <= now_ms;
}

const char *qn_leased_why_late(const struct qn_leased *leased, int64_t now_ms)
{
    if (is_over(leased->task.deadline_at_ms, now_ms) && !QN_BUG(DEADLINE_IGNORED)) {
        return "deadline exceeded";
    }
    if (is_over(leased->task.start_by_at_ms, now_ms) && !QN_BUG(EXPIRED_RUNS)) {
        return "expired: not started in time";
    }
    return NULL;
}

void qn_exchange_clear(struct qn_exchange *exchange, struct qn_exchange_reply *reply)
{
    reply->run_count = 0;
    reply->late_count = 0;
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
