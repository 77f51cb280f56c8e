/* SPDX-License-Identifier: MIT */
/* search_act.c - an operation by hand on tasks that a search has found.
 *
 * The script (operate.lua) checks of each that it is still in its state. It walks from the head of
 * `pending` to each task that it takes out, so a call takes fewer the deeper they are. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "broker/redis/operate/operate.h"
#include "broker/search/search.h"
#include "task/limits.h"

/* How many one script takes. */
static size_t count_at_once(const struct qn_found_list *list)
{
    uint64_t count = list->state == QUERN_TASK_PENDING
                         ? QN_OPERATE_WALK_MAX / (list->rank_max + 1) + 1
                         : QN_BULK_MAX;
    return count < QN_BULK_MAX ? (size_t)count : QN_BULK_MAX;
}

/* A part of the list, in one script; adds what was done. */
static quern_status act_on_part(struct qn_redis *self, const struct qn_found_list *list,
                                size_t *done, quern_error *err)
{
    struct qn_operate_task tasks[QN_BULK_MAX];
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct qn_found *found = &list->items[i];
        tasks[i] = (struct qn_operate_task){
            .id = found->id, .id_size = strlen(found->id), .unique_key = found->unique_key};
    }
    const struct qn_operate_tasks all = {.queue = list->queue,
                                         .state = quern_task_state_name(list->state),
                                         .items = tasks,
                                         .count = list->count};
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_operate_add(&pipeline, list->action, &all);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK && qn_operate_is_full(reply)) {
        status = qn_operate_refuse_full(list->queue, reply, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < list->count; i++) {
        *done += strcmp(qn_reply_text(qn_reply_at(reply, i)), "done") == 0;
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_search_act(struct qn_broker *broker, const struct qn_found_list *list,
                                 size_t *ret_done, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    quern_status status = QUERN_OK;
    size_t most = count_at_once(list);
    QN_ASSERT(list->count <= QN_BULK_MAX);
    for (size_t first = 0; status == QUERN_OK && first < list->count; first += most) {
        struct qn_found_list part = *list;
        part.items += first;
        part.count = list->count - first < most ? list->count - first : most;
        status = act_on_part(self, &part, ret_done, err);
    }
    return status;
}
