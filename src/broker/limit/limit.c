/* SPDX-License-Identifier: MIT */
/* limit.c - forwards the operations on limits, as broker.c does. */
#include "broker/limit/limit.h"

#include "base/error.h"
#include "broker/ops.h"

bool qn_broker_has_limits(const struct qn_broker *broker)
{
    return broker->ops->set_limit != NULL;
}

static quern_status check(const struct qn_broker *broker, bool offered, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    if (status == QUERN_OK && !offered) {
        status = qn_error_set(err, QUERN_E_UNSUPPORTED, "a %s broker does not offer limits yet",
                              broker->ops->scheme);
    }
    return status;
}

quern_status qn_broker_set_limit(struct qn_broker *broker, const quern_limit *limit,
                                 quern_error *err)
{
    quern_status status = check(broker, broker->ops->set_limit != NULL, err);
    return status != QUERN_OK ? status : broker->ops->set_limit(broker, limit, err);
}

quern_status qn_broker_remove_limit(struct qn_broker *broker, const struct qn_limit_owner *owner,
                                    quern_error *err)
{
    quern_status status = check(broker, broker->ops->remove_limit != NULL, err);
    return status != QUERN_OK ? status : broker->ops->remove_limit(broker, owner, err);
}

quern_status qn_broker_limits(struct qn_broker *broker, const char *queue,
                              bool (*on_limit)(const quern_limit *limit, void *user), void *user,
                              quern_error *err)
{
    quern_status status = check(broker, broker->ops->limits != NULL, err);
    return status != QUERN_OK ? status : broker->ops->limits(broker, queue, on_limit, user, err);
}
