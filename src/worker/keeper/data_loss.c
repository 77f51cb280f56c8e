/* SPDX-License-Identifier: MIT */
/* data_loss.c - ends a worker whose data is gone for good, or that has tried often enough to reach
 * its broker, so that its supervisor starts it again.
 *
 * A file that was removed or replaced never comes back, and everything written to it is lost. A
 * database whose exchange fails again and again as damaged is of no use either. The first has to be
 * seen twice in a row (files may be moved just now), the second for two seconds. On a server
 * damaged keys can be repaired while the worker runs, so there none of this is done. With
 * max_retries a worker ends when its requests for tasks have failed so often in a row. */
#include "worker/keeper/data_loss.h"

#include "worker/internal.h"

enum { GONE_MAX = 2, CORRUPT_MS = 2000 };

static void end_worker(struct quern_worker *worker, bool is_lost, const quern_error *error)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool first = worker->lost.code == QUERN_OK;
    if (first) {
        worker->lost = *error;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (first) {
        QN_LOG(&worker->log, QUERN_LOG_ERROR,
               is_lost ? "worker ends, its data is lost"
                       : "worker ends, the broker was tried max_retries times",
               QN_LOG_TEXT("status", quern_status_name(error->code)),
               QN_LOG_TEXT("error", error->text));
        quern_worker_stop(worker);
    }
}

bool qn_data_loss_found(struct quern_worker *worker, quern_error *err)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool lost = worker->lost.code != QUERN_OK;
    if (lost && err != NULL) {
        *err = worker->lost;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return lost;
}

quern_status qn_data_loss_check(struct quern_worker *worker, quern_error *err)
{
    quern_error error = {0};
    bool gone = qn_broker_is_gone(worker->broker, &error);
    worker->keeper.gone_count = gone ? worker->keeper.gone_count + 1 : 0;
    if (worker->keeper.gone_count >= GONE_MAX ||
        (!gone && !qn_broker_is_remote(worker->broker) &&
         qn_backoff_lasts(&worker->pump.backoff, QUERN_E_CORRUPT, CORRUPT_MS, &error))) {
        end_worker(worker, true, &error);
    } else if (qn_backoff_has_tried(&worker->pump.backoff, &error)) {
        end_worker(worker, false, &error);
    }
    (void)err;
    return QUERN_OK;
}
