/* SPDX-License-Identifier: MIT */
/* reload.c - another zygote for the children of a worker that runs, and other certificates for its
 * broker.
 *
 * Both zygotes must have announced the same, byte by byte: the worker has chosen its tasks, their
 * limits and their timeouts by what the first one announced, and runs of both may be of one
 * pattern. */
#include "broker/reload.h"
#include "base/error.h"
#include "pool/prefork/prefork.h"
#include "worker/internal.h"
#include "worker/prefork/nursery.h"

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
