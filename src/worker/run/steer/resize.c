/* SPDX-License-Identifier: MIT */
/* resize.c - changes the number of slots.
 *
 * All that depends on it reads worker->slots when it needs it, so a change takes effect with the
 * next step of each thread. Of fewer slots none is taken from a run: threads and children that are
 * too many end after what they run, and nothing is leased until runs fit again. What was prefetched
 * waits, or is taken back as usual. */
#include "worker/run/steer/resize.h"

#include "base/error.h"
#include "pool/prefork/prefork.h"
#include "worker/internal.h"

/* With mutex held. A pool that is not there yet is made with these slots. */
static void resize_pools(struct quern_worker *worker, uint32_t slots)
{
    if (worker->pool != NULL) {
        qn_pool_resize(worker->pool, slots);
    }
    if (worker->prefork != NULL) {
        qn_prefork_resize(worker->prefork, slots);
    }
}

quern_status qn_resize(struct quern_worker *worker, uint32_t slots, quern_error *err)
{
    if (slots == 0 || slots > QN_CONCURRENCY_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "concurrency is %u, not 1 to %d", slots,
                            QN_CONCURRENCY_MAX);
    }
    (void)pthread_mutex_lock(&worker->mutex);
    uint32_t before = atomic_exchange(&worker->slots, slots);
    qn_run_table_resize(&worker->run_table, slots);
    resize_pools(worker, slots);
    worker->look = true;
    worker->heartbeat_due = true;
    qn_signals_wake_pump(worker);
    qn_signals_wake_keeper(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (before != slots) {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "worker has another number of slots",
               QN_LOG_TEXT("worker", worker->id), QN_LOG_NUMBER("slots", slots),
               QN_LOG_NUMBER("before", before));
    }
    return QUERN_OK;
}
