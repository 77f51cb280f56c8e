/* SPDX-License-Identifier: MIT */
/* fits.c - shows a task to a query. Apart from search.c, since brokers call it. */
#include "broker/search/search.h"

static int64_t ended_at_ms(const quern_task_info *info)
{
    if (info->task.state == QUERN_TASK_ARCHIVED) {
        return info->at_ms;
    }
    return info->task.state == QUERN_TASK_COMPLETED ? info->completed_at_ms : 0;
}

bool qn_search_fits(const struct qn_condition *condition, const quern_task_info *info,
                    int64_t now_ms)
{
    quern_task_state state = info->task.state;
    bool is_dated = state == QUERN_TASK_SCHEDULED || state == QUERN_TASK_RETRY;
    const struct qn_condition_task task = {.task = &info->task,
                                           .error = info->error,
                                           .worker = info->worker,
                                           .retry_count = info->retry_count,
                                           .crash_count = info->crash_count,
                                           .now_ms = now_ms,
                                           .enqueued_at_ms = info->enqueued_at_ms,
                                           .started_at_ms =
                                               state == QUERN_TASK_ACTIVE ? info->started_at_ms : 0,
                                           .failed_at_ms = info->failed_at_ms,
                                           .ended_at_ms = ended_at_ms(info),
                                           .due_at_ms = is_dated ? info->at_ms : 0};
    return qn_condition_fits(condition, &task);
}
