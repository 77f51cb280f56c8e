/* SPDX-License-Identifier: MIT */
/* standing.c - passes the question where a task stands on to the broker. */
#include "broker/standing/standing.h"

#include "broker/ops.h"

quern_status qn_broker_standing(struct qn_broker *broker, const struct quern_task_info *info,
                                struct qn_standing *ret_standing, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    *ret_standing = (struct qn_standing){.ahead = -1, .level = -1};
    return status != QUERN_OK ? status : broker->ops->standing(broker, info, ret_standing, err);
}
