/* SPDX-License-Identifier: MIT */
/* drain.c - says what a draining worker waits for when it has nothing to do.
 *
 * Its queues may hold what only comes due tomorrow, what another worker runs, or what nobody may
 * run because the queue is paused: so it may wait for long, but not in silence. A line per queue
 * after TELL_FIRST_MS of that, and again every TELL_AGAIN_MS. If the broker cannot say, nothing is
 * said: the worker notices an outage by itself. */
#include <string.h>

#include "worker/internal.h"

enum { TELL_FIRST_MS = 2000, TELL_AGAIN_MS = 60000 };

static bool tell_queue(const quern_queue_info *queue, void *user)
{
    struct quern_worker *worker = user;
    uint64_t pending = queue->counts[QUERN_TASK_PENDING];
    uint64_t active = queue->counts[QUERN_TASK_ACTIVE];
    uint64_t scheduled = queue->counts[QUERN_TASK_SCHEDULED];
    uint64_t retry = queue->counts[QUERN_TASK_RETRY];
    for (size_t i = 0; i < worker->queue_count; i++) {
        if (strcmp(worker->queue_names[i], queue->name) == 0 &&
            pending + active + scheduled + retry > 0) {
            QN_LOG(&worker->log, QUERN_LOG_INFO, "not drained yet",
                   QN_LOG_TEXT("queue", queue->name), QN_LOG_NUMBER("pending", pending),
                   QN_LOG_TEXT("paused", queue->paused_at_ms != 0 ? "yes" : NULL),
                   QN_LOG_NUMBER("active", active), QN_LOG_NUMBER("scheduled", scheduled),
                   QN_LOG_NUMBER("retry", retry));
        }
    }
    return true;
}

void qn_drain_tell(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    if (pump->tell_at_mono_ns == 0) {
        pump->tell_at_mono_ns = now_mono_ns + TELL_FIRST_MS * QN_NS_PER_MS;
    }
    if (now_mono_ns < pump->tell_at_mono_ns) {
        return;
    }
    pump->tell_at_mono_ns = now_mono_ns + TELL_AGAIN_MS * QN_NS_PER_MS;
    quern_status status = qn_broker_queues(worker->broker, tell_queue, worker, NULL);
    (void)status; /* see above */
}
