/* SPDX-License-Identifier: MIT */
/* second_pump.c - the second pump: under load it has an exchange under way while the first has one.
 *
 * So the broker works on one request while this process takes in the answer to the other. It takes
 * off only while the pump's own exchange is in flight, and only when there is enough for a full one
 * (QN_BATCH_WORTH); a worker with little to do never wakes it. All it does is build, send, take in.
 * Everything else stays with the pump, also what goes wrong: a request that failed is left open for
 * the pump, which sends it again on its own channel, stamp and all. Meanwhile the second pump stays
 * away, for the time of a backoff: there may be a connection for one of them only. */
#include "worker/internal.h"

void qn_second_poke(struct quern_worker *worker)
{
    if (worker->second_asleep && !worker->second_poked) {
        worker->second_poked = true;
        (void)pthread_cond_signal(&worker->second_cond);
    }
}

/* With plan_mutex held. */
static bool may_take_off(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    if (pump->second.open || pump->outage.since_mono_ns != 0) {
        return false;
    }
    (void)pthread_mutex_lock(&worker->mutex);
    bool may = pump->first.in_flight && qn_turn_is_worth_it(worker, &pump->second, now_mono_ns);
    (void)pthread_mutex_unlock(&worker->mutex);
    return may;
}

/* With plan_mutex held. True: there may be more to do. */
static bool step(struct quern_worker *worker)
{
    struct qn_pump *pump = &worker->pump;
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (!may_take_off(worker, now_mono_ns)) {
        return false;
    }
    qn_turn_build(worker, &pump->second, now_mono_ns);
    if (!pump->second.open) {
        return false;
    }
    quern_error error = {0};
    quern_status status = qn_turn_exchange(worker, &pump->second, 1, &error);
    if (status == QUERN_OK) {
        qn_outage_end(&pump->second_outage);
    } else {
        qn_outage_fail(&pump->second_outage, &error);
    }
    return status == QUERN_OK;
}

/* True when the worker has stopped. */
static bool sleep_until_poked(struct quern_worker *worker)
{
    const struct qn_outage *outage = &worker->pump.second_outage;
    (void)pthread_mutex_lock(&worker->mutex);
    while (worker->state != QN_WORKER_STOPPED &&
           qn_clock_mono_ns() < atomic_load(&outage->retry_at_mono_ns)) {
        (void)qn_cond_wait_until(&worker->second_cond, &worker->mutex,
                                 atomic_load(&outage->retry_at_mono_ns));
    }
    worker->second_asleep = true;
    while (worker->state != QN_WORKER_STOPPED && !worker->second_poked) {
        (void)pthread_cond_wait(&worker->second_cond, &worker->mutex);
    }
    worker->second_asleep = false;
    worker->second_poked = false;
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

void *qn_second_main(void *argument)
{
    struct quern_worker *worker = argument;
    while (!sleep_until_poked(worker)) {
        (void)pthread_mutex_lock(&worker->plan_mutex);
        while (step(worker)) {
        }
        (void)pthread_mutex_unlock(&worker->plan_mutex);
    }
    return NULL;
}
