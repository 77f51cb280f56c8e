/* SPDX-License-Identifier: MIT */
/* reload.c - reads the files of TLS again, of all servers and sentinels. */
#include "broker/redis/redis.h"
#include "redis/failover/certificates.h"

quern_status qn_redis_reload(struct qn_broker *broker, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    return qn_certificates_reload(&self->failover, self->sentinels, err);
}
