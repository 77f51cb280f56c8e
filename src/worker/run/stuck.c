/* SPDX-License-Identifier: MIT */
/* stuck.c - watches whether the worker has a slot left.
 *
 * Handlers that ignore their cancellation hold threads. A worker whose threads are all held would
 * look alive for ever and run nothing. So it logs that it is stuck, each minute, and ends after a
 * grace, with an error by which a supervisor restarts the process. */
#include "worker/run/stuck.h"

#include "base/bug.h"
#include "worker/internal.h"

enum { LOG_EACH_MS = 60000 };

size_t qn_stuck_hung_count(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    size_t count = worker->run_table.stuck_count;
    count += worker->pool != NULL ? qn_pool_quarantined(worker->pool) : 0;
    (void)pthread_mutex_unlock(&worker->mutex);
    return count;
}

bool qn_stuck_has_no_slot(const struct quern_worker *worker)
{
    return worker->run_table.stuck_count >= qn_worker_slots(worker) && !QN_BUG(STUCK_UNNOTICED);
}

static void log_stuck(struct quern_worker *worker, const struct qn_stuck *stuck,
                      int64_t now_mono_ns)
{
    QN_LOG(&worker->log, QUERN_LOG_ERROR, "worker is stuck, its handlers hang and no slot is left",
           QN_LOG_TEXT("worker", worker->id), QN_LOG_NUMBER("slots", qn_worker_slots(worker)),
           QN_LOG_NUMBER("hang", qn_stuck_hung_count(worker)),
           QN_LOG_NUMBER("for_s", (now_mono_ns - stuck->since_mono_ns) / QN_NS_PER_MS / 1000));
}

static void note_change(struct quern_worker *worker, struct qn_stuck *stuck, bool is_stuck,
                        int64_t now_mono_ns)
{
    stuck->since_mono_ns = is_stuck ? now_mono_ns : 0;
    stuck->log_at_mono_ns = now_mono_ns;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->heartbeat_due = true;
    qn_signals_wake_keeper(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!is_stuck) {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "worker is no longer stuck",
               QN_LOG_TEXT("worker", worker->id));
    }
}

int64_t qn_stuck_check(struct quern_worker *worker, struct qn_stuck *stuck)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t grace_ms = worker->options.stuck_timeout_ms;
    (void)pthread_mutex_lock(&worker->mutex);
    bool is_stuck = qn_stuck_has_no_slot(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (is_stuck != (stuck->since_mono_ns != 0)) {
        note_change(worker, stuck, is_stuck, now_mono_ns);
    }
    if (!is_stuck) {
        return -1;
    }
    if (now_mono_ns >= stuck->log_at_mono_ns) {
        stuck->log_at_mono_ns = now_mono_ns + LOG_EACH_MS * QN_NS_PER_MS;
        log_stuck(worker, stuck, now_mono_ns);
    }
    int64_t until_mono_ns = stuck->log_at_mono_ns;
    if (grace_ms >= 0) {
        int64_t end_mono_ns = stuck->since_mono_ns + grace_ms * QN_NS_PER_MS;
        if (now_mono_ns >= end_mono_ns) {
            return 0;
        }
        until_mono_ns = qn_earlier(until_mono_ns, end_mono_ns);
    }
    return (until_mono_ns - now_mono_ns) / QN_NS_PER_MS + 1;
}
