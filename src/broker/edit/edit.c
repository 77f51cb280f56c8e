/* SPDX-License-Identifier: MIT */
/* edit.c - passes edits on to the broker. */
#include "broker/edit/edit.h"

#include "base/assert.h"
#include "broker/ops.h"
#include "task/limits.h"

quern_status qn_broker_edit(struct qn_broker *broker, const struct qn_edit_list *list,
                            struct qn_edit_answer *answers, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    QN_ASSERT(list->count <= QN_BULK_MAX);
    if (status == QUERN_OK && list->edit->set_priority != 0 && list->edit->priority != 0 &&
        !broker->ops->has_priorities) {
        status = qn_broker_refuse_priority(err);
    }
    return status != QUERN_OK ? status : broker->ops->edit(broker, list, answers, err);
}
