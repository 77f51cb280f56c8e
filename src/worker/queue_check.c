/* SPDX-License-Identifier: MIT */
/* queue_check.c - detects likely mistakes in the queues of a worker.
 *
 * Any text is the name of a queue, and a worker that serves a queue without tasks looks idle.
 * So a name that reads like a list ("a,b") or a pattern ("*") is refused, unless a queue of exactly
 * that name exists. When the worker starts, the log names the queues that do not exist yet. */
#include "worker/queue_check.h"

#include <string.h>

#include "base/error.h"
#include "task/name.h"
#include "worker/internal.h"

static quern_status note_queue(struct quern_worker *worker, size_t i, quern_error *err)
{
    quern_status status = qn_broker_find_queue(worker->broker, worker->queue_names[i], err);
    worker->queue_found[i] = status == QUERN_OK;
    return status == QUERN_E_NOT_FOUND ? QUERN_OK : status;
}

quern_status qn_queue_check_names(struct quern_worker *worker, quern_error *err)
{
    quern_status looked = QUERN_OK;
    for (size_t i = 0; looked == QUERN_OK && i < worker->queue_count; i++) {
        looked = note_queue(worker, i, err);
    }
    worker->queues_known = looked == QUERN_OK;
    for (size_t i = 0; i < worker->queue_count; i++) {
        const char *name = worker->queue_names[i];
        if (!qn_name_is_odd(name) || worker->queue_found[i]) {
            continue;
        }
        if (looked != QUERN_OK) {
            return looked;
        }
        return qn_error_set(err, QUERN_E_INVALID,
                            "there is no queue \"%.60s\": each queue is named by itself, without "
                            "commas and patterns",
                            name);
    }
    return QUERN_OK; /* nothing else needs to know it: damaged data stops no worker */
}

void qn_queue_check_log(struct quern_worker *worker)
{
    for (size_t i = 0; worker->queues_known && i < worker->queue_count; i++) {
        if (!worker->queue_found[i]) {
            QN_LOG(&worker->log, QUERN_LOG_INFO,
                   "queue does not exist yet, its first task creates it",
                   QN_LOG_TEXT("queue", worker->queue_names[i]));
        }
    }
}
