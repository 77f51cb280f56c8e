/* SPDX-License-Identifier: MIT */
/* move.c - puts one task into another queue: finds the one it is in, and lets the broker do it. */
#include <string.h>

#include "base/error.h"
#include "broker/find.h"
#include "broker/move/move.h"
#include "inspect/inspector.h"
#include "quern/search.h"
#include "task/name.h"

static quern_status move_from(struct qn_broker *broker, const char *queue, const char *id,
                              const char *to_queue, quern_error *err)
{
    const struct qn_found item = {.id = id};
    const struct qn_move_list list = {.queue = queue, .to = to_queue, .items = &item, .count = 1};
    struct qn_move_answer answer = {.result = QN_MOVE_MISSING};
    if (strcmp(queue, to_queue) == 0) {
        return qn_error_set(err, QUERN_E_STATE, "cannot move task %s: it is in queue %s already",
                            id, to_queue);
    }
    quern_status status = qn_broker_move(broker, &list, &answer, err);
    return status == QUERN_OK ? qn_move_refuse(answer, &list, id, err) : status;
}

static quern_status move_anywhere(struct qn_broker *broker, const char *id, const char *to_queue,
                                  quern_error *err)
{
    quern_task_info *info = NULL;
    quern_status status = qn_find_task(broker, NULL, id, &info, err);
    if (status == QUERN_OK) {
        status = move_from(broker, quern_task_info_queue(info), id, to_queue, err);
    }
    quern_task_info_free(info);
    return status;
}

quern_status quern_inspector_task_move(quern_inspector *inspector, const char *queue,
                                       const char *id, const char *to_queue, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && (id == NULL || to_queue == NULL)) {
        status = qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                              id == NULL ? "id" : "to_queue");
    }
    if (status == QUERN_OK) {
        status = qn_name_check_queue(to_queue, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    return queue == NULL ? move_anywhere(inspector->broker, id, to_queue, err)
                         : move_from(inspector->broker, queue, id, to_queue, err);
}
