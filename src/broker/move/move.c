/* SPDX-License-Identifier: MIT */
/* move.c - passes moves of tasks on to the broker. */
#include "broker/move/move.h"

#include <string.h>

#include "base/assert.h"
#include "broker/ops.h"
#include "task/limits.h"

quern_status qn_broker_move(struct qn_broker *broker, const struct qn_move_list *list,
                            struct qn_move_answer *answers, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    QN_ASSERT(list->count <= QN_BULK_MAX);
    QN_ASSERT(strcmp(list->queue, list->to) != 0);
    return status != QUERN_OK ? status : broker->ops->move(broker, list, answers, err);
}
