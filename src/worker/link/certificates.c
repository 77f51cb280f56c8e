/* SPDX-License-Identifier: MIT */
/* certificates.c - other certificates for a worker that runs. */
#include "worker/link/certificates.h"

#include "base/error.h"
#include "broker/reload.h"
#include "worker/internal.h"

quern_status qn_certificates_renew(quern_worker *worker, quern_error *err)
{
    (void)pthread_mutex_lock(&worker->mutex);
    /* With a pool there is a broker, and it stays. */
    struct qn_broker *broker = worker->pool != NULL ? worker->broker : NULL;
    (void)pthread_mutex_unlock(&worker->mutex);
    return broker != NULL ? qn_reload_certificates(broker, err)
                          : qn_error_set(err, QUERN_E_STATE, "the worker does not run");
}
