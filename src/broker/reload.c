/* SPDX-License-Identifier: MIT */
/* reload.c - reads the files again that the URL of a broker names.
 *
 * No operation of ops.h: only a server is reached by TLS. */
#include "broker/reload.h"

#include "base/error.h"
#include "broker/redis/redis.h"
#include "redis/failover/certificates.h"

quern_status qn_reload_certificates(struct qn_broker *broker, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (broker->ops->close != qn_redis_close) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED, "the broker is a file");
    }
    struct qn_redis *self = qn_redis_of(broker);
    return qn_certificates_reload(&self->failover, self->sentinels, err);
}
