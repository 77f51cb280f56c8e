/* SPDX-License-Identifier: MIT */
/* second_pump.c - under load, an exchange while that of the pump is in flight.
 *
 * So the broker works on one request while this process takes the answer to the other in. The
 * second pump sends only while the pump's own exchange is in flight, and only when there is enough
 * for a full one (QN_BATCH_WORTH); a worker with little to do never wakes it. All else stays with
 * the pump, errors included: a request that failed is left open, and the pump sends it again on its
 * own channel with the same stamp. Meanwhile the second pump stays away for the time of a backoff,
 * because there may be a connection for only one of them. */
#include "worker/fetch/second_pump.h"

#include "base/cond.h"
#include "worker/fetch/response.h"
#include "worker/internal.h"

/* With plan_mutex held. */
static bool may_send(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    if (pump->second.open || pump->backoff.since_mono_ns != 0) {
        return false;
    }
    (void)pthread_mutex_lock(&worker->mutex);
    bool may = pump->first.in_flight && qn_request_is_worth_it(worker, &pump->second, now_mono_ns);
    (void)pthread_mutex_unlock(&worker->mutex);
    return may;
}

/* With plan_mutex held. Builds the second request if it may be sent now; false: there is none. */
static bool build_request(struct quern_worker *worker)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (may_send(worker, now_mono_ns)) {
        qn_request_build(worker, &worker->pump.second, now_mono_ns);
        return worker->pump.second.open;
    }
    return false;
}

/* With plan_mutex held. False: it failed, and the second pump stays away for a while. */
static bool send_request(struct quern_worker *worker)
{
    struct qn_pump *pump = &worker->pump;
    quern_error error = {0};
    if (qn_response_exchange(worker, &pump->second, 1, &error) != QUERN_OK) {
        qn_backoff_fail(&pump->second_backoff, &error);
        return false;
    }
    qn_backoff_end(&pump->second_backoff);
    qn_beats_answered(worker);
    return true;
}

/* First for the time of its backoff, then until it is woken. True when the worker has stopped. */
static bool sleep_until_woken(struct quern_worker *worker)
{
    struct qn_signals *signals = &worker->signals;
    const _Atomic int64_t *retry_at_mono_ns = &worker->pump.second_backoff.retry_at_mono_ns;
    (void)pthread_mutex_lock(&worker->mutex);
    while (worker->state != QN_WORKER_STOPPED &&
           qn_clock_mono_ns() < atomic_load(retry_at_mono_ns)) {
        (void)qn_cond_wait_until(&signals->second_cond, &worker->mutex,
                                 atomic_load(retry_at_mono_ns));
    }
    qn_beats_sleep(worker, QN_BEAT_SECOND, INT64_MAX);
    signals->second_asleep = true;
    while (worker->state != QN_WORKER_STOPPED && !signals->second_signalled) {
        (void)pthread_cond_wait(&signals->second_cond, &worker->mutex);
    }
    signals->second_asleep = false;
    signals->second_signalled = false;
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

void *qn_second_pump_main(void *argument)
{
    struct quern_worker *worker = argument;
    while (!sleep_until_woken(worker)) {
        qn_beats_step(worker, QN_BEAT_SECOND);
        (void)pthread_mutex_lock(&worker->pump.plan_mutex);
        while (build_request(worker) && send_request(worker)) {
            qn_beats_step(worker, QN_BEAT_SECOND);
        }
        (void)pthread_mutex_unlock(&worker->pump.plan_mutex);
    }
    qn_beats_end(worker, QN_BEAT_SECOND);
    return NULL;
}
