/* SPDX-License-Identifier: MIT */
/* options.c - checks the options of a worker and copies them with their defaults filled in.
 *
 * Under strict priority the queues are sorted here, highest rank first, because their order in the
 * exchange is their rank. No pointer to the caller's memory is kept. */
#include "worker/options.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "base/text/number.h"
#include "base/text/str.h"
#include "broker/url/url_retry.h"
#include "task/retry.h"
#include "task/task.h"
#include "worker/internal.h"
#include "worker/keeper/weights.h"

enum {
    SHUTDOWN_TIMEOUT_MS = 8000,
    QUARANTINE_AFTER_MS = 5000,
    STUCK_TIMEOUT_MS = 60000,
    STALL_TIMEOUT_MS = 30000,
    STALL_TIMEOUT_MS_MIN = 2000, /* the pump and the keeper ask once a second */
};

static const quern_queue default_queue = {.name = "default", .weight = 1};

static quern_status check_host(const char *host, quern_error *err)
{
    size_t size = strlen(host);
    bool is_plain = size > 0 && size < QN_NAME_SIZE_MAX;
    for (size_t i = 0; is_plain && i < size; i++) {
        is_plain = host[i] > ' ' && host[i] < 0x7f;
    }
    return is_plain ? QUERN_OK
                    : qn_error_set(err, QUERN_E_INVALID,
                                   "worker options: host is not 1 to %d visible ASCII characters",
                                   QN_NAME_SIZE_MAX - 1);
}

static struct qn_pace pace_of(const quern_worker_options *options)
{
    return (struct qn_pace){.start_ms = options->interval_start_ms,
                            .step_ms = options->interval_step_ms,
                            .max_ms = options->interval_max_ms,
                            .retries_max = options->max_retries};
}

static quern_status check_retries(const quern_worker_options *options, quern_error *err)
{
    const struct qn_pace pace = pace_of(options);
    quern_status status = qn_pace_check(&pace, err);
    return status == QUERN_OK ? qn_retry_policy_check(&options->retry, err) : status;
}

static quern_status check_numbers(const quern_worker_options *options, quern_error *err)
{
    if (options->concurrency > QN_CONCURRENCY_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "concurrency is %u, not 1 to %d",
                            options->concurrency, QN_CONCURRENCY_MAX);
    }
    if (options->drain && options->until_idle) {
        return qn_error_set(err, QUERN_E_INVALID, "drain and until_idle exclude each other");
    }
    if (options->shutdown_timeout_ms < -1 || options->shutdown_timeout_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "shutdown_timeout_ms is %lld",
                            (long long)options->shutdown_timeout_ms);
    }
    if (options->lease_ms != 0 &&
        (options->lease_ms < QN_LEASE_MS_MIN || options->lease_ms > QN_DURATION_MS_MAX)) {
        return qn_error_set(err, QUERN_E_INVALID, "lease_ms is %lld, not at least %d",
                            (long long)options->lease_ms, QN_LEASE_MS_MIN);
    }
    if (options->quarantine_after_ms < 0 || options->quarantine_after_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "quarantine_after_ms is %lld",
                            (long long)options->quarantine_after_ms);
    }
    if (options->host != NULL) {
        quern_status status = check_host(options->host, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
    if (options->pool != QUERN_POOL_THREADS && options->pool != QUERN_POOL_PREFORK) {
        return qn_error_set(err, QUERN_E_INVALID, "pool is %d, not threads or prefork",
                            (int)options->pool);
    }
    if (options->pool == QUERN_POOL_PREFORK && options->zygote == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "the prefork pool needs a zygote");
    }
    if (options->pool == QUERN_POOL_THREADS &&
        (options->child_runs_max != 0 || options->child_rss_max != 0)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "child_runs_max and child_rss_max are for the prefork pool");
    }
    if (options->stuck_timeout_ms < -1 || options->stuck_timeout_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "stuck_timeout_ms is %lld",
                            (long long)options->stuck_timeout_ms);
    }
    if (options->stall_timeout_ms != 0 && options->stall_timeout_ms != -1 &&
        (options->stall_timeout_ms < STALL_TIMEOUT_MS_MIN ||
         options->stall_timeout_ms > QN_DURATION_MS_MAX)) {
        return qn_error_set(err, QUERN_E_INVALID, "stall_timeout_ms is %lld, not at least %d",
                            (long long)options->stall_timeout_ms, STALL_TIMEOUT_MS_MIN);
    }
    if (options->soft_shutdown_timeout_ms < -1 ||
        options->soft_shutdown_timeout_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "soft_shutdown_timeout_ms is %lld",
                            (long long)options->soft_shutdown_timeout_ms);
    }
    if (options->prefetch_max < -1 || options->prefetch_max > QN_PREFETCH_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "prefetch_max is %d, not -1 to %d",
                            (int)options->prefetch_max, QN_PREFETCH_MAX);
    }
    if (options->ack < QUERN_ACK_DEFAULT || options->ack > QUERN_ACK_LATE) {
        return qn_error_set(err, QUERN_E_INVALID, "ack is %d, not default, early or late",
                            (int)options->ack);
    }
    if (options->reserved != 0 || options->reserved_last != 0 ||
        !qn_sized_zero(options->reserved_too, sizeof options->reserved_too)) {
        return qn_error_set(err, QUERN_E_INVALID, "worker options: reserved is not 0");
    }
    return check_retries(options, err);
}

static quern_status check_queue(const char *url, const quern_queue *queues, size_t index,
                                quern_error *err)
{
    const quern_queue *queue = &queues[index];
    if (queue->name == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "queue %zu has no name", index + 1);
    }
    quern_status status = qn_broker_check_queue(url, queue->name, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (queue->weight > QN_WEIGHT_MAX || queue->reserved != 0) {
        return qn_error_set(err, QUERN_E_INVALID, "weight of queue %.150s is %u, not 1 to %d",
                            queue->name, queue->weight, QN_WEIGHT_MAX);
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(queues[i].name, queue->name) == 0) {
            return qn_error_set(err, QUERN_E_INVALID, "queue %.200s is given twice", queue->name);
        }
    }
    return QUERN_OK;
}

static void fill_defaults(quern_worker_options *options)
{
    if (options->concurrency == 0) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        options->concurrency = cpus < 1                    ? 1
                               : cpus > QN_CONCURRENCY_MAX ? QN_CONCURRENCY_MAX
                                                           : (uint32_t)cpus;
    }
    if (options->shutdown_timeout_ms == 0) {
        options->shutdown_timeout_ms = SHUTDOWN_TIMEOUT_MS;
    }
    if (options->lease_ms == 0) {
        options->lease_ms = QN_LEASE_MS;
    }
    if (options->quarantine_after_ms == 0) {
        options->quarantine_after_ms = QUARANTINE_AFTER_MS;
    }
    if (options->stuck_timeout_ms == 0) {
        options->stuck_timeout_ms = STUCK_TIMEOUT_MS;
    }
    if (options->stall_timeout_ms == 0) {
        options->stall_timeout_ms = STALL_TIMEOUT_MS;
    }
    if (options->queues == NULL) {
        options->queues = &default_queue;
        options->queue_count = 1;
    }
}

/* Insertion sort: few queues, and equal ranks keep their order. */
static void sort_by_rank(quern_queue *queues, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        quern_queue moved = queues[i];
        size_t place = i;
        while (place > 0 && queues[place - 1].weight < moved.weight) {
            queues[place] = queues[place - 1];
            place--;
        }
        queues[place] = moved;
    }
}

/* Own copies of the queues and their names; frees nothing on failure: options_finish does. */
static quern_status copy_queues(struct quern_worker *worker, quern_error *err)
{
    quern_worker_options *options = &worker->options;
    const quern_queue *theirs = options->queues;
    quern_queue *ours = qn_alloc_zero(options->queue_count, sizeof *ours);
    options->queues = ours;
    worker->queue_names = qn_alloc_zero(options->queue_count, sizeof *worker->queue_names);
    worker->paused = qn_alloc_zero(options->queue_count, sizeof *worker->paused);
    worker->queue_braked = qn_alloc_zero(options->queue_count, sizeof *worker->queue_braked);
    worker->queue_shares = qn_alloc_zero(options->queue_count, sizeof *worker->queue_shares);
    worker->keeper.group_notes =
        qn_alloc_zero(options->queue_count, sizeof *worker->keeper.group_notes);
    if (ours == NULL || worker->queue_names == NULL || worker->paused == NULL ||
        worker->queue_braked == NULL || worker->queue_shares == NULL ||
        worker->keeper.group_notes == NULL) {
        return qn_error_nomem(err);
    }
    worker->queue_count = options->queue_count;
    for (size_t i = 0; i < worker->queue_count; i++) {
        ours[i].weight = theirs[i].weight == 0 ? 1 : theirs[i].weight;
        ours[i].name = qn_str_dup(theirs[i].name);
        if (ours[i].name == NULL) {
            return qn_error_nomem(err);
        }
    }
    if (options->strict_priority) {
        sort_by_rank(ours, worker->queue_count);
    }
    for (size_t i = 0; i < worker->queue_count; i++) {
        worker->queue_names[i] = ours[i].name;
        worker->queue_shares[i].name = ours[i].name;
        worker->queue_shares[i].weight = ours[i].weight;
    }
    return QUERN_OK;
}

quern_status qn_options_read(struct quern_worker *worker, const char *url,
                             const quern_worker_options *options, size_t options_size,
                             quern_error *err)
{
    quern_worker_options read;
    quern_status status = qn_sized_copy(QN_ROOM_OF(read), (struct qn_bytes){options, options_size},
                                        "worker options", err);
    if (status == QUERN_OK) {
        status = check_numbers(&read, err);
    }
    if (status == QUERN_OK &&
        ((read.queues == NULL) != (read.queue_count == 0) || read.queue_count > QN_QUEUES_MAX)) {
        status = qn_error_set(err, QUERN_E_INVALID, "worker options: %zu queues, not 1 to %d",
                              read.queue_count, QN_QUEUES_MAX);
    }
    for (size_t i = 0; status == QUERN_OK && i < read.queue_count; i++) {
        status = check_queue(url, read.queues, i, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    fill_defaults(&read);
    worker->options = read;
    const struct qn_pace given = pace_of(&read);
    const struct qn_pace of_url = qn_url_retry(url);
    worker->backoffs.pace = qn_pace_or(&given, &of_url);
    status = copy_queues(worker, err);
    if (status == QUERN_OK) {
        status = qn_weights_describe(worker, err);
    }
    return status;
}

void qn_options_finish(struct quern_worker *worker)
{
    for (size_t i = 0; i < worker->queue_count; i++) {
        union {
            const char *name;
            char *owned;
        } copy = {.name = worker->options.queues[i].name};
        qn_free(copy.owned);
    }
    if (worker->options.queues != NULL && worker->options.queues != &default_queue) {
        union {
            const quern_queue *queues;
            quern_queue *owned;
        } copy = {.queues = worker->options.queues};
        qn_free(copy.owned);
    }
    qn_free(worker->queue_names);
    qn_free(worker->paused);
    qn_free(worker->queue_braked);
    qn_free(worker->queue_shares);
    qn_free(worker->keeper.group_notes);
    qn_free(worker->queues_text);
}
