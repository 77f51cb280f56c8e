/* SPDX-License-Identifier: MIT */
/* trash.c - passes operations on the trash on to the broker. */
#include "broker/trash/trash.h"

#include "base/assert.h"
#include "broker/ops.h"
#include "task/limits.h"

quern_status qn_broker_trash_search(struct qn_broker *broker, const struct qn_search *search,
                                    struct qn_search_end *ret_end, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    QN_ASSERT(search->limit > 0);
    QN_ASSERT(search->scan_max > 0);
    return status != QUERN_OK ? status : broker->ops->trash_search(broker, search, ret_end, err);
}

quern_status qn_broker_trash_act(struct qn_broker *broker, const struct qn_trash_list *list,
                                 enum qn_trash_result *results, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    QN_ASSERT(list->count <= QN_BULK_MAX);
    QN_ASSERT(list->action == QUERN_ACTION_RESTORE || list->action == QUERN_ACTION_DELETE);
    return status != QUERN_OK ? status : broker->ops->trash_act(broker, list, results, err);
}

quern_status qn_broker_trash_use(struct qn_broker *broker, const char *queue,
                                 struct qn_trash_use *ret_use, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    return status != QUERN_OK ? status : broker->ops->trash_use(broker, queue, ret_use, err);
}
