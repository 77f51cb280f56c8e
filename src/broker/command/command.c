/* SPDX-License-Identifier: MIT */
/* command.c - passes a command on to the broker. */
#include "broker/command/command.h"

#include "broker/ops.h"

quern_status qn_broker_command(struct qn_broker *broker, const char *text, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    return status != QUERN_OK ? status : broker->ops->command(broker, text, err);
}
