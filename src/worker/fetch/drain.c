/* SPDX-License-Identifier: MIT */
/* drain.c - logs the tasks that a draining worker waits for when it has nothing to do.
 *
 * Its queues may hold tasks that come due tomorrow, that another worker runs, or that must not run
 * because their queue is paused. So it may wait for long, but not in silence: it logs a line per
 * queue after LOG_FIRST_MS of waiting, and again every LOG_AGAIN_MS. If the broker does not answer
 * it logs nothing, because an outage has its own line. Tasks that no handler here serves come back
 * for ever (see unknown.c): the line has their number and a hint what to do. When the next delayed
 * task of the queue is due, the line has, too. */
#include "worker/fetch/drain.h"

#include <string.h>

#include "base/text/moment.h"
#include "broker/listing.h"
#include "worker/internal.h"
#include "worker/run/mux.h"

enum { LOG_FIRST_MS = 2000, LOG_AGAIN_MS = 60000, UNSERVED_MAX = 1000 };

struct survey {
    struct quern_worker *worker;
    size_t queue_index;
    uint64_t unserved[QN_QUEUES_MAX];      /* per queue: put aside, among the first UNSERVED_MAX */
    int64_t next_due_at_ms[QN_QUEUES_MAX]; /* INT64_MAX: no task of the queue is delayed */
};

static bool count_unserved(const quern_task_info *info, void *user)
{
    struct survey *survey = user;
    bool takes = qn_mux_takes(survey->worker->mux, quern_task_info_type(info));
    survey->unserved[survey->queue_index] += takes ? 0 : 1;
    return true;
}

static void count_all_unserved(struct survey *survey)
{
    struct quern_worker *worker = survey->worker;
    if (worker->pump.unknown.type_count == 0) {
        return; /* none was met */
    }
    for (size_t i = 0; i < worker->queue_count; i++) {
        const quern_task_filter filter = {
            .queue = worker->queue_names[i], .state = QUERN_TASK_RETRY, .limit = UNSERVED_MAX};
        survey->queue_index = i;
        quern_status status =
            qn_broker_tasks(worker->broker, &filter, count_unserved, survey, NULL);
        (void)status; /* see above */
    }
}

static bool note_due(const quern_task_info *info, void *user)
{
    int64_t *next_due_at_ms = user;
    *next_due_at_ms = qn_earlier(*next_due_at_ms, quern_task_info_due_at_ms(info));
    return true;
}

/* The one that is due first leads each list. */
static int64_t find_next_due(struct quern_worker *worker, const char *queue)
{
    static const quern_task_state states[] = {QUERN_TASK_SCHEDULED, QUERN_TASK_RETRY};
    int64_t next_due_at_ms = INT64_MAX;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        const quern_task_filter filter = {.queue = queue, .state = (int32_t)states[i], .limit = 1};
        quern_status status =
            qn_broker_tasks(worker->broker, &filter, note_due, &next_due_at_ms, NULL);
        (void)status; /* see above */
    }
    return next_due_at_ms;
}

static void log_queue(const struct survey *survey, size_t i, const quern_queue_info *queue)
{
    char next_due[64];
    int64_t next_due_at_ms = survey->next_due_at_ms[i];
    qn_moment_format(next_due_at_ms, next_due, sizeof next_due);
    uint64_t unserved = survey->unserved[i];
    bool served = survey->worker->groups.served;
    const struct qn_log_field grouped_field = {.name = "aggregating",
                                               .number =
                                                   (int64_t)queue->counts[QUERN_TASK_AGGREGATING],
                                               .is_number = served};
    const struct qn_log_field unserved_field = {
        .name = "unserved", .number = (int64_t)unserved, .is_number = unserved > 0};
    QN_LOG(&survey->worker->log, unserved > 0 ? QUERN_LOG_WARN : QUERN_LOG_INFO, "not drained yet",
           QN_LOG_TEXT("queue", queue->name),
           QN_LOG_NUMBER("pending", queue->counts[QUERN_TASK_PENDING]),
           QN_LOG_TEXT("paused", queue->paused_at_ms != 0 ? "yes" : NULL),
           QN_LOG_NUMBER("active", queue->counts[QUERN_TASK_ACTIVE]),
           QN_LOG_NUMBER("scheduled", queue->counts[QUERN_TASK_SCHEDULED]),
           QN_LOG_NUMBER("retry", queue->counts[QUERN_TASK_RETRY]), grouped_field, unserved_field,
           QN_LOG_TEXT("next_due", next_due_at_ms != INT64_MAX ? next_due : NULL),
           QN_LOG_TEXT("hint", unserved > 0 ? "no handler here for their types; --unknown archive "
                                              "(quern_mux_not_found) archives them"
                                            : NULL));
}

static bool log_if_served(const quern_queue_info *queue, void *user)
{
    const struct survey *survey = user;
    const struct quern_worker *worker = survey->worker;
    uint64_t left = queue->counts[QUERN_TASK_PENDING] + queue->counts[QUERN_TASK_ACTIVE] +
                    queue->counts[QUERN_TASK_SCHEDULED] + queue->counts[QUERN_TASK_RETRY];
    left += worker->groups.served ? queue->counts[QUERN_TASK_AGGREGATING] : 0;
    for (size_t i = 0; i < worker->queue_count; i++) {
        if (strcmp(worker->queue_names[i], queue->name) == 0 && left > 0) {
            log_queue(survey, i, queue);
        }
    }
    return true;
}

void qn_drain_log(struct quern_worker *worker, int64_t now_mono_ns)
{
    struct qn_pump *pump = &worker->pump;
    if (pump->log_at_mono_ns == 0) {
        pump->log_at_mono_ns = now_mono_ns + LOG_FIRST_MS * QN_NS_PER_MS;
    }
    if (now_mono_ns < pump->log_at_mono_ns) {
        return;
    }
    pump->log_at_mono_ns = now_mono_ns + LOG_AGAIN_MS * QN_NS_PER_MS;
    struct survey survey = {.worker = worker};
    count_all_unserved(&survey);
    for (size_t i = 0; i < worker->queue_count; i++) {
        survey.next_due_at_ms[i] = find_next_due(worker, worker->queue_names[i]);
    }
    const struct qn_names names = qn_worker_names(worker);
    quern_status status = qn_broker_queues(worker->broker, &names, log_if_served, &survey, NULL);
    (void)status; /* see above */
}
