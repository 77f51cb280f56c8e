/* SPDX-License-Identifier: MIT */
/* holder.c - the thread that holds the leases.
 *
 * A third of a lease after it asked last it asks again, and that is all it does, on a channel of
 * the broker that is for this alone: so neither a slow answer to something else nor work of this
 * process can make a lease late. When the broker does not answer, it tries again after a backoff
 * that is never longer than the usual pace, and at once when it answers somebody else. With no run
 * to hold it still keeps the channel open. */
#include "base/bug.h"
#include "worker/internal.h"

/* True when the worker has stopped. */
static bool sleep_until(struct quern_worker *worker, int64_t until_mono_ns)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool in_time = true;
    while (worker->state != QN_WORKER_STOPPED && !worker->holder_poked && in_time) {
        in_time = qn_cond_wait_until(&worker->holder_cond, &worker->mutex, until_mono_ns);
    }
    worker->holder_poked = false;
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

void *qn_holder_main(void *argument)
{
    struct quern_worker *worker = argument;
    struct qn_outage outage;
    qn_outage_init(&outage, &worker->outages);
    int64_t until_mono_ns;
    do {
        quern_error error = {0};
        int64_t pace_ms =
            QN_BUG(EXTENDED_LATE) ? 2 * worker->options.lease_ms : worker->options.lease_ms / 3;
        until_mono_ns = qn_clock_mono_ns() + pace_ms * QN_NS_PER_MS;
        if (qn_leases_extend(worker, &error) == QUERN_OK) {
            qn_outage_end(&outage);
        } else {
            qn_outage_fail(&outage, &error);
            until_mono_ns = qn_earlier(until_mono_ns, atomic_load(&outage.retry_at_mono_ns));
        }
    } while (!sleep_until(worker, until_mono_ns));
    qn_outage_finish(&outage);
    return NULL;
}
