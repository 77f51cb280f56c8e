/* SPDX-License-Identifier: MIT */
/* limit.c - a check that several callers share. */
#include "broker/limit/limit.h"

#include "base/error.h"

quern_status qn_limit_check_key(const struct qn_broker *broker, quern_error *err)
{
    return qn_broker_has_limits(broker)
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_UNSUPPORTED,
                              "limit_key: this broker has no limits by key");
}
