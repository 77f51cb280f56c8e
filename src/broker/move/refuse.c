/* SPDX-License-Identifier: MIT */
/* refuse.c - which tasks may go to another queue, and why one did not. Apart from move.c, since
 * brokers call it. */
#include "base/error.h"
#include "broker/move/move.h"

bool qn_move_allows(quern_task_state state)
{
    return state != QUERN_TASK_ACTIVE && state != QUERN_TASK_COMPLETED;
}

quern_status qn_move_refuse(struct qn_move_answer answer, const struct qn_move_list *list,
                            const char *id, quern_error *err)
{
    switch (answer.result) {
    case QN_MOVE_DONE:
        return QUERN_OK;
    case QN_MOVE_MISSING:
        break;
    case QN_MOVE_CHANGED:
        return qn_error_set(err, QUERN_E_CONFLICT, "task %s has changed meanwhile", id);
    case QN_MOVE_STATE:
        return qn_error_set(err, QUERN_E_STATE, "cannot move task %s: it is %s", id,
                            quern_task_state_name(answer.state));
    case QN_MOVE_MEMBER:
        return qn_error_set(err, QUERN_E_STATE,
                            "cannot move task %s: it is being aggregated with its group", id);
    case QN_MOVE_EXISTS:
        return qn_error_set(err, QUERN_E_CONFLICT,
                            "cannot move task %s: queue %s has a task with this id", id, list->to);
    case QN_MOVE_LOCKED:
        return qn_error_set(err, QUERN_E_DUPLICATE,
                            "cannot move task %s: a task of queue %s holds its unique lock", id,
                            list->to);
    case QN_MOVE_FULL:
        return qn_error_set(err, QUERN_E_STATE,
                            "cannot move task %s: it is archived, and the archive of queue %s is "
                            "full",
                            id, list->to);
    case QN_MOVE_DAMAGED:
        return qn_error_set(err, QUERN_E_CORRUPT,
                            "cannot move task %s: its data are damaged; delete it instead", id);
    }
    return qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s in queue %s", id, list->queue);
}
