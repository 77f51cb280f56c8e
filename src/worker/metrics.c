/* SPDX-License-Identifier: MIT */
/* metrics.c - quern_metrics_worker: what the worker has counted, and how it is. */
#include "base/error.h"
#include "metrics/document.h"
#include "worker/internal.h"

static void put(struct qn_exposition *exposition, const struct qn_metric *metric, int64_t value)
{
    qn_exposition_family(exposition, metric);
    qn_exposition_sample(exposition, (struct qn_metric_labels){NULL, 0}, value);
}

static void put_count(struct qn_exposition *exposition, const char *name, const char *help,
                      int64_t value, int64_t since_ms)
{
    const struct qn_metric metric = {name, help, QN_METRIC_COUNTER, false};
    put(exposition, &metric, value);
    qn_exposition_created(exposition, (struct qn_metric_labels){NULL, 0}, since_ms);
}

static void put_gauge(struct qn_exposition *exposition, const char *name, const char *help,
                      int64_t value)
{
    const struct qn_metric metric = {name, help, QN_METRIC_GAUGE, false};
    put(exposition, &metric, value);
}

static void put_counts(struct quern_worker *worker, const quern_worker_stats *stats,
                       struct qn_exposition *exposition)
{
    int64_t since_ms = worker->started_at_ms;
    put_count(exposition, "quern_leases_lost_total", "Leases lost while their runs were going on.",
              (int64_t)stats->lost_leases, since_ms);
    put_count(exposition, "quern_broker_failures_total", "Calls of the broker that failed.",
              (int64_t)atomic_load(&worker->backoffs.failed_total), since_ms);
    put_count(exposition, "quern_broker_reconnects_total",
              "Times that the broker answered again after it had failed.",
              (int64_t)atomic_load(&worker->backoffs.returned_total), since_ms);
    put_count(exposition, "quern_metrics_lost_total", "Counts lost because memory was out.",
              (int64_t)qn_measure_lost(&worker->measures), since_ms);
}

static void put_state(struct quern_worker *worker, const quern_worker_stats *stats,
                      struct qn_exposition *exposition)
{
    static const struct qn_metric fetched = {
        "quern_worker_last_fetch_timestamp_seconds",
        "When the broker last answered a request for tasks; long ago while all slots are taken.",
        QN_METRIC_GAUGE, true};
    quern_worker_health health;
    quern_worker_get_health(worker, &health);
    put_gauge(exposition, "quern_worker_live", "1 if no thread hangs and fetching goes on.",
              health.live ? 1 : 0);
    put_gauge(exposition, "quern_worker_ready", "1 if the worker can fetch tasks now.",
              health.ready ? 1 : 0);
    put_gauge(exposition, "quern_worker_slots", "How many runs it may have at a time.",
              qn_worker_slots(worker));
    put_gauge(exposition, "quern_worker_running_runs", "Runs that are going on.", stats->running);
    put_gauge(exposition, "quern_worker_quarantined_handlers",
              "Handlers that ignore their cancellation and still hold a thread.",
              stats->quarantined);
    if (stats->exchanged_at_ms > 0) {
        put(exposition, &fetched, stats->exchanged_at_ms * QN_NS_PER_MS);
    }
}

quern_status quern_metrics_worker_sized(struct quern_worker *worker,
                                        const quern_metrics_options *options, size_t options_size,
                                        char **ret_text, size_t *ret_size, quern_error *err)
{
    const struct qn_document_call call = {options, options_size, ret_text, ret_size};
    struct qn_document document;
    if (worker == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "worker: must not be NULL");
    }
    quern_status status = qn_document_begin(&document, &call, err);
    if (status != QUERN_OK) {
        return status;
    }
    quern_worker_stats stats;
    quern_worker_get_stats(worker, &stats);
    qn_measure_render(&worker->measures, &document.exposition);
    put_counts(worker, &stats, &document.exposition);
    put_state(worker, &stats, &document.exposition);
    return qn_document_end(&document, &call, QUERN_OK, err);
}
