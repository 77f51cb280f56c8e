/* SPDX-License-Identifier: MIT */
/* drain.c - says what a draining worker waits for when it has nothing to do.
 *
 * Its queues may hold what only comes due tomorrow, what another worker runs, or what nobody may
 * run because the queue is paused: so it may wait for long, but not in silence. A line per queue
 * after TELL_FIRST_MS of that, and again every TELL_AGAIN_MS. If the broker cannot say, nothing is
 * said: the worker notices an outage by itself. Tasks that no handler here serves come back for
 * ever (see unknown.c): of them it says how many it sees, and what to do. */
#include <string.h>

#include "worker/internal.h"

enum { TELL_FIRST_MS = 2000, TELL_AGAIN_MS = 60000, UNSERVED_MAX = 1000 };

struct look {
    struct quern_worker *worker;
    size_t queue_index;
    uint64_t unserved[QN_QUEUES_MAX]; /* per queue: put aside, among the first UNSERVED_MAX */
};

static bool count_unserved(const quern_task_info *info, void *user)
{
    struct look *look = user;
    bool takes = qn_mux_takes(look->worker->mux, quern_task_info_type(info));
    look->unserved[look->queue_index] += takes ? 0 : 1;
    return true;
}

static void look_for_unserved(struct look *look)
{
    struct quern_worker *worker = look->worker;
    if (worker->pump.unknown.type_count == 0) {
        return; /* none was met */
    }
    for (size_t i = 0; i < worker->queue_count; i++) {
        const quern_task_filter filter = {
            .queue = worker->queue_names[i], .state = QUERN_TASK_RETRY, .limit = UNSERVED_MAX};
        look->queue_index = i;
        quern_status status = qn_broker_tasks(worker->broker, &filter, count_unserved, look, NULL);
        (void)status; /* see above */
    }
}

static void tell_queue(const struct look *look, size_t i, const quern_queue_info *queue)
{
    uint64_t unserved = look->unserved[i];
    const struct qn_log_field unserved_field = {
        .name = "unserved", .number = (int64_t)unserved, .is_number = unserved > 0};
    QN_LOG(&look->worker->log, unserved > 0 ? QUERN_LOG_WARN : QUERN_LOG_INFO, "not drained yet",
           QN_LOG_TEXT("queue", queue->name),
           QN_LOG_NUMBER("pending", queue->counts[QUERN_TASK_PENDING]),
           QN_LOG_TEXT("paused", queue->paused_at_ms != 0 ? "yes" : NULL),
           QN_LOG_NUMBER("active", queue->counts[QUERN_TASK_ACTIVE]),
           QN_LOG_NUMBER("scheduled", queue->counts[QUERN_TASK_SCHEDULED]),
           QN_LOG_NUMBER("retry", queue->counts[QUERN_TASK_RETRY]), unserved_field,
           QN_LOG_TEXT("hint", unserved > 0 ? "no handler here for their types; --unknown archive "
                                              "(quern_mux_not_found) puts them away"
                                            : NULL));
}

static bool tell_if_served(const quern_queue_info *queue, void *user)
{
    const struct look *look = user;
    const struct quern_worker *worker = look->worker;
    uint64_t left = queue->counts[QUERN_TASK_PENDING] + queue->counts[QUERN_TASK_ACTIVE] +
                    queue->counts[QUERN_TASK_SCHEDULED] + queue->counts[QUERN_TASK_RETRY];
    for (size_t i = 0; i < worker->queue_count; i++) {
        if (strcmp(worker->queue_names[i], queue->name) == 0 && left > 0) {
            tell_queue(look, i, queue);
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
    struct look look = {.worker = worker};
    look_for_unserved(&look);
    quern_status status = qn_broker_queues(worker->broker, tell_if_served, &look, NULL);
    (void)status; /* see above */
}
