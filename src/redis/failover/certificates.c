/* SPDX-License-Identifier: MIT */
/* certificates.c - reads the files of TLS again.
 *
 * Endpoints that share their settings (net/tls.h), as a master does with the model that it was made
 * from, are read more than once, which is no harm. */
#include "redis/failover/certificates.h"

#include "base/error.h"
#include "net/tls.h"

/* A reference to the index-th endpoint; NULL: there are no more. */
static struct qn_endpoint *server_at(struct qn_failover *failover, size_t index)
{
    struct qn_endpoint *endpoint = NULL;
    (void)pthread_mutex_lock(&failover->mutex);
    if (index < failover->count) {
        endpoint = qn_endpoint_ref(failover->endpoints[index]);
    }
    (void)pthread_mutex_unlock(&failover->mutex);
    return endpoint;
}

/* Takes the reference. After a failure the others are read all the same. */
static quern_status reload_one(struct qn_endpoint *take_endpoint, quern_status before,
                               quern_error *err)
{
    quern_status status = QUERN_E_UNSUPPORTED;
    if (take_endpoint->peer.tls != NULL) {
        bool has_failed = before != QUERN_OK && before != QUERN_E_UNSUPPORTED;
        status = qn_tls_reload(take_endpoint->peer.tls, has_failed ? NULL : err);
        status = has_failed ? before : status;
    }
    qn_endpoint_unref(take_endpoint);
    return status;
}

quern_status qn_certificates_reload(struct qn_failover *failover, struct qn_sentinels *sentinels,
                                    quern_error *err)
{
    quern_status status = QUERN_E_UNSUPPORTED;
    struct qn_endpoint *endpoint = server_at(failover, 0);
    for (size_t i = 1; endpoint != NULL; i++) {
        status = reload_one(endpoint, status, err);
        endpoint = server_at(failover, i);
    }
    endpoint = sentinels == NULL ? NULL : qn_sentinel_list_at(&sentinels->list, 0);
    for (size_t i = 1; endpoint != NULL; i++) {
        status = reload_one(endpoint, status, err);
        endpoint = qn_sentinel_list_at(&sentinels->list, i);
    }
    return status == QUERN_E_UNSUPPORTED
               ? qn_error_set(err, status, "the broker's URL names no certificates")
               : status;
}
