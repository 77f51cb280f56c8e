/* SPDX-License-Identifier: MIT */
/* limit.c - what the implementations of limits share. */
#include "broker/limit/limit.h"

#include <string.h>

#include "base/error.h"

quern_status qn_limit_not_found(const struct qn_limit_owner *owner, quern_error *err)
{
    return strcmp(owner->queue, QUERN_ALL_QUEUES) == 0
               ? qn_error_set(err, QUERN_E_NOT_FOUND, "there is no such limit of all queues")
               : qn_error_set(err, QUERN_E_NOT_FOUND, "queue \"%s\" has no such limit",
                              owner->queue);
}

quern_status qn_limit_check_key(const struct qn_broker *broker, quern_error *err)
{
    return qn_broker_has_limits(broker)
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_UNSUPPORTED,
                              "limit_key: this broker has no limits by key");
}
