/* SPDX-License-Identifier: MIT */
/* metrics.c - quern_metrics_inspector: the queues of a broker and its workers.
 *
 * The families of asynq_ are those of Go's collector (asynq/x/metrics): names, help texts, labels
 * and kinds, so that boards made for it work; a gauge whose name ends in _total is one of them.
 * What that collector does not know has names of ours. */
#include <string.h>

#include "base/error.h"
#include "inspect/inspector.h"
#include "metrics/document.h"

/* The states of which Go's collector has a series, in its order. */
static const quern_task_state counted[] = {QUERN_TASK_ACTIVE,    QUERN_TASK_PENDING,
                                           QUERN_TASK_SCHEDULED, QUERN_TASK_RETRY,
                                           QUERN_TASK_ARCHIVED,  QUERN_TASK_COMPLETED};

static int64_t size_of(const quern_queue_info *queue)
{
    return (int64_t)queue->size;
}

static int64_t latency_of(const quern_queue_info *queue)
{
    return queue->latency_ms * QN_NS_PER_MS;
}

static int64_t memory_of(const quern_queue_info *queue)
{
    return queue->memory_bytes;
}

static int64_t processed_of(const quern_queue_info *queue)
{
    return (int64_t)queue->processed_total;
}

static int64_t failed_of(const quern_queue_info *queue)
{
    return (int64_t)queue->failed_total;
}

static int64_t paused_of(const quern_queue_info *queue)
{
    return queue->paused_at_ms != 0 ? 1 : 0;
}

static int64_t aggregating_of(const quern_queue_info *queue)
{
    return (int64_t)queue->counts[QUERN_TASK_AGGREGATING];
}

static int64_t braked_of(const quern_queue_info *queue)
{
    return queue->braked_hosts;
}

static int64_t trimmed_of(const quern_queue_info *queue)
{
    return (int64_t)queue->trimmed_total;
}

/* A family with one series for each queue. */
static const struct {
    struct qn_metric metric;
    int64_t (*value)(const quern_queue_info *queue); /* below 0: not known */
} of_queues[] = {
    {{"asynq_queue_size", "Number of tasks in a queue", QN_METRIC_GAUGE, false}, size_of},
    {{"asynq_queue_latency_seconds",
      "Number of seconds the oldest pending task is waiting in pending state to be processed.",
      QN_METRIC_GAUGE, true},
     latency_of},
    {{"asynq_queue_memory_usage_approx_bytes",
      "Number of memory used by a given queue (approximated number by sampling).", QN_METRIC_GAUGE,
      false},
     memory_of},
    {{"asynq_tasks_processed_total",
      "Number of tasks processed (both succeeded and failed); broken down by queue",
      QN_METRIC_COUNTER, false},
     processed_of},
    {{"asynq_tasks_failed_total", "Number of tasks failed; broken down by queue", QN_METRIC_COUNTER,
      false},
     failed_of},
    {{"asynq_queue_paused_total", "Number of queues paused", QN_METRIC_GAUGE, false}, paused_of},
    {{"quern_queue_aggregating_tasks", "Tasks that wait in groups.", QN_METRIC_GAUGE, false},
     aggregating_of},
    {{"quern_queue_braked_hosts",
      "Hosts where the runs of the queue died in a row, so that one is tried at a time.",
      QN_METRIC_GAUGE, false},
     braked_of},
    {{"quern_queue_trimmed_total",
      "Archived tasks deleted because the archive was full or they were too old.",
      QN_METRIC_COUNTER, false},
     trimmed_of},
};

static void put_states(struct qn_exposition *exposition, const quern_queue_list *queues)
{
    static const struct qn_metric metric = {
        "asynq_tasks_enqueued_total", "Number of tasks enqueued; broken down by queue and state.",
        QN_METRIC_GAUGE, false};
    qn_exposition_family(exposition, &metric);
    for (size_t i = 0; i < quern_queue_list_size(queues); i++) {
        const quern_queue_info *queue = quern_queue_list_at(queues, i);
        for (size_t j = 0; j < sizeof counted / sizeof counted[0]; j++) {
            const struct qn_metric_label labels[] = {{"queue", queue->name},
                                                     {"state", quern_task_state_name(counted[j])}};
            qn_exposition_sample(exposition, (struct qn_metric_labels){labels, 2},
                                 (int64_t)queue->counts[counted[j]]);
        }
    }
}

/* Nothing where no queue has a value that is known. */
static void put_family(struct qn_exposition *exposition, const quern_queue_list *queues,
                       const struct qn_metric *metric,
                       int64_t (*value)(const quern_queue_info *queue))
{
    bool has_head = false;
    for (size_t i = 0; i < quern_queue_list_size(queues); i++) {
        const quern_queue_info *queue = quern_queue_list_at(queues, i);
        const struct qn_metric_label label = {"queue", queue->name};
        int64_t number = value(queue);
        if (number < 0) {
            continue;
        }
        if (!has_head) {
            qn_exposition_family(exposition, metric);
            has_head = true;
        }
        qn_exposition_sample(exposition, (struct qn_metric_labels){&label, 1}, number);
    }
}

static void put_workers(struct qn_exposition *exposition, const quern_worker_list *workers)
{
    static const struct qn_metric metric = {
        "quern_workers", "Workers whose heartbeat has not expired, those of asynq included.",
        QN_METRIC_GAUGE, false};
    qn_exposition_family(exposition, &metric);
    for (int status = QUERN_WORKER_UNKNOWN; quern_worker_status_name(status) != NULL; status++) {
        int64_t count = 0;
        for (size_t i = 0; i < quern_worker_list_size(workers); i++) {
            count += (int)quern_worker_list_at(workers, i)->status == status ? 1 : 0;
        }
        const struct qn_metric_label label = {"status", quern_worker_status_name(status)};
        qn_exposition_sample(exposition, (struct qn_metric_labels){&label, 1}, count);
    }
}

static quern_status put_broker(quern_inspector *inspector, struct qn_exposition *exposition,
                               quern_error *err)
{
    quern_queue_list *queues = NULL;
    quern_worker_list *workers = NULL;
    quern_status status = quern_inspector_queues(inspector, &queues, err);
    if (status == QUERN_OK) {
        status = quern_inspector_workers(inspector, &workers, err);
    }
    if (status == QUERN_OK) {
        put_states(exposition, queues);
        for (size_t i = 0; i < sizeof of_queues / sizeof of_queues[0]; i++) {
            put_family(exposition, queues, &of_queues[i].metric, of_queues[i].value);
        }
        put_workers(exposition, workers);
    }
    quern_worker_list_free(workers);
    quern_queue_list_free(queues);
    return status;
}

quern_status quern_metrics_inspector_sized(quern_inspector *inspector,
                                           const quern_metrics_options *options,
                                           size_t options_size, char **ret_text, size_t *ret_size,
                                           quern_error *err)
{
    const struct qn_document_call call = {options, options_size, ret_text, ret_size};
    struct qn_document document;
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK) {
        status = qn_document_begin(&document, &call, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    status = put_broker(inspector, &document.exposition, err);
    return qn_document_end(&document, &call, status, err);
}
