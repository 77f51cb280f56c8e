/* SPDX-License-Identifier: MIT */
/* search.c - passes a search on to the broker. */
#include "broker/search/search.h"

#include "base/assert.h"
#include "broker/ops.h"
#include "task/limits.h"

quern_status qn_broker_search(struct qn_broker *broker, const struct qn_search *search,
                              struct qn_search_end *ret_end, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    QN_ASSERT(search->limit > 0);
    QN_ASSERT(search->scan_max > 0);
    return status != QUERN_OK ? status : broker->ops->search(broker, search, ret_end, err);
}

quern_status qn_broker_search_act(struct qn_broker *broker, const struct qn_found_list *list,
                                  size_t *ret_done, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    QN_ASSERT(list->count <= QN_BULK_MAX);
    *ret_done = 0;
    return status != QUERN_OK ? status : broker->ops->search_act(broker, list, ret_done, err);
}
