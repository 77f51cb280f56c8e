/* SPDX-License-Identifier: MIT */
/* reload.c - another zygote for the children of a worker that runs, other certificates for its
 * broker, other weights of its queues, and another number of slots.
 *
 * Both zygotes must have announced the same, byte by byte: the worker has chosen its tasks, their
 * limits and their timeouts by what the first one announced, and runs of both may be of one
 * pattern. */
#include "broker/reload.h"

#include <string.h>

#include "base/error.h"
#include "pool/prefork/prefork.h"
#include "worker/internal.h"
#include "worker/prefork/nursery.h"
#include "worker/run/steer/resize.h"

static quern_status check_equal(const quern_worker *worker, const quern_zygote *zygote,
                                quern_error *err)
{
    if (worker->options.zygote == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "the worker has no zygote");
    }
    if (!qn_nursery_equal(worker->options.zygote, zygote)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "its patterns or their options have changed: start the worker again");
    }
    return QUERN_OK;
}

quern_status quern_worker_reload(quern_worker *worker, quern_zygote *zygote, quern_error *err)
{
    if (worker == NULL || zygote == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            worker == NULL ? "worker" : "zygote");
    }
    const quern_mux *mux = NULL; /* equal to the one in use */
    quern_status status = check_equal(worker, zygote, err);
    if (status == QUERN_OK) {
        status = qn_nursery_claim(zygote, NULL, &mux, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&worker->mutex);
    if (worker->prefork != NULL) {
        qn_prefork_reload(worker->prefork, qn_nursery_take(zygote));
    } else {
        status = qn_error_set(err, QUERN_E_STATE, "the worker does not run");
        qn_nursery_unclaim(zygote);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return status;
}

quern_status quern_worker_reload_certificates(quern_worker *worker, quern_error *err)
{
    if (worker == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "worker: must not be NULL");
    }
    (void)pthread_mutex_lock(&worker->mutex);
    /* With a pool there is a broker, and it stays. */
    struct qn_broker *broker = worker->pool != NULL ? worker->broker : NULL;
    (void)pthread_mutex_unlock(&worker->mutex);
    return broker != NULL ? qn_broker_reload(broker, err)
                          : qn_error_set(err, QUERN_E_STATE, "the worker does not run");
}

/* --- Weights -------------------------------------------------------------------------------- */

/* The index among the served queues; queue_count: it is none. */
static size_t find_queue(const quern_worker *worker, const char *name)
{
    size_t i = 0;
    while (i < worker->queue_count && strcmp(worker->queue_names[i], name) != 0) {
        i++;
    }
    return i;
}

static quern_status check_weight(const quern_worker *worker, const quern_queue *queues,
                                 size_t index, quern_error *err)
{
    const quern_queue *queue = &queues[index];
    if (queue->name == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "queue %zu has no name", index + 1);
    }
    if (find_queue(worker, queue->name) == worker->queue_count) {
        return qn_error_set(err, QUERN_E_INVALID, "the worker does not serve queue %.200s",
                            queue->name);
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

/* With mutex held. */
static void set_weight(quern_worker *worker, const quern_queue *queue)
{
    /* The names and their number are constant, and it is our copy. */
    quern_queue *ours = (quern_queue *)(uintptr_t)worker->options.queues;
    uint32_t weight = queue->weight == 0 ? 1 : queue->weight;
    size_t i = find_queue(worker, queue->name);
    bool is_new = ours[i].weight != weight;
    ours[i].weight = weight;
    worker->weights_are_new = worker->weights_are_new || is_new;
    worker->shares_are_new = worker->shares_are_new || is_new;
    worker->heartbeat_due = worker->heartbeat_due || is_new;
}

quern_status quern_worker_set_weights(quern_worker *worker, const quern_queue *queues,
                                      size_t queue_count, quern_error *err)
{
    if (worker == NULL || (queues == NULL && queue_count > 0)) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            worker == NULL ? "worker" : "queues");
    }
    if (worker->options.strict_priority) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "under strict_priority the order of the queues is fixed");
    }
    for (size_t i = 0; i < queue_count; i++) {
        quern_status status = check_weight(worker, queues, i, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < queue_count; i++) {
        set_weight(worker, &queues[i]);
    }
    qn_signals_wake_keeper(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    return QUERN_OK;
}

quern_status quern_worker_resize(quern_worker *worker, uint32_t concurrency, quern_error *err)
{
    return worker == NULL ? qn_error_set(err, QUERN_E_INVALID, "worker: must not be NULL")
                          : qn_resize(worker, concurrency, err);
}
