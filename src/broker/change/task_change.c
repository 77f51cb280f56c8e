/* SPDX-License-Identifier: MIT */
/* task_change.c - what a change means, the same for every broker. */
#include "broker/change/task_change.h"

#include <string.h>

#include "base/bug.h"
#include "broker/broker.h"

const struct qn_task_change *qn_task_change_of(const struct qn_outcome *outcome)
{
    bool goes_on =
        outcome->kind == QN_RETRY || outcome->kind == QN_SNOOZE || outcome->kind == QN_GIVE_BACK;
    return goes_on ? outcome->change : NULL;
}

int64_t qn_task_change_retry_max(const struct qn_outcome *outcome)
{
    const struct qn_task_change *change = qn_task_change_of(outcome);
    int64_t least = outcome->run->retry_count;
    if (change == NULL || !change->has_retry_max) {
        return outcome->run->task.retry_max;
    }
    return change->retry_max > least ? change->retry_max : least;
}

const char *qn_task_change_queue(const struct qn_outcome *outcome)
{
    const struct qn_task_change *change = qn_task_change_of(outcome);
    bool is_spent =
        outcome->kind == QN_RETRY && outcome->run->retry_count >= qn_task_change_retry_max(outcome);
    bool drops = outcome->kind == QN_GIVE_BACK && QN_BUG(GIVEN_BACK_STAYS);
    bool stays = change == NULL || change->queue == NULL || is_spent || drops ||
                 strcmp(change->queue, outcome->run->task.queue) == 0;
    return stays ? NULL : change->queue;
}

bool qn_task_change_holds_lock(const struct qn_outcome *outcome)
{
    int32_t until = outcome->run->task.unique_until;
    return until != QUERN_UNIQUE_UNTIL_STARTED && until != QUERN_UNIQUE_UNTIL_EXPIRED;
}
