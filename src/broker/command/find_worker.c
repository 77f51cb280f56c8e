/* SPDX-License-Identifier: MIT */
/* find_worker.c - asks the broker for the record of one worker. */
#include "broker/command/command.h"

#include "broker/ops.h"

quern_status qn_broker_find_worker(struct qn_broker *broker, const char *id,
                                   struct qn_found_worker *ret_worker, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    *ret_worker = (struct qn_found_worker){.is_there = false};
    return status != QUERN_OK ? status : broker->ops->find_worker(broker, id, ret_worker, err);
}
