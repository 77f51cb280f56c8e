/* SPDX-License-Identifier: MIT */
/* move.c - tasks go to another queue by hand, in one script (move.lua) for all or a part of them.
 *
 * The keys of both queues must be in one slot of a cluster: a copy in one slot that is deleted in
 * another one later could run twice if this program died in between. The script walks from the head
 * of `pending` to each task that it takes out, so a call takes fewer the deeper they are. */
#include "broker/move/move.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/operate/move_lua.h"
#include "broker/redis/operate/operate.h"
#include "broker/redis/schema/keys.h"
#include "redis/cluster/slots.h"
#include "task/lifecycle.h"
#include "task/limits.h"

static uint16_t slot_of(const char *queue)
{
    char key[QN_SERVED_NAME_SIZE_MAX + 3];
    int size = snprintf(key, sizeof key, "{%s}", queue);
    return qn_slots_of(key, (size_t)size < sizeof key ? (size_t)size : sizeof key - 1);
}

static quern_status check_slots(const struct qn_redis *self, const struct qn_move_list *list,
                                quern_error *err)
{
    if (self->cluster == NULL || slot_of(list->queue) == slot_of(list->to)) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_UNSUPPORTED,
                        "queues %s and %s are in two slots of the cluster, where no task moves in "
                        "one step: export the tasks, enqueue them there, delete them here",
                        list->queue, list->to);
}

static struct qn_move_answer answer_of(const char *word)
{
    static const struct {
        const char *word;
        enum qn_move_result result;
    } words[] = {{"done", QN_MOVE_DONE},       {"missing", QN_MOVE_MISSING},
                 {"damaged", QN_MOVE_DAMAGED}, {"set", QN_MOVE_MEMBER},
                 {"exists", QN_MOVE_EXISTS},   {"locked", QN_MOVE_LOCKED},
                 {"full", QN_MOVE_FULL}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].word, word) == 0) {
            return (struct qn_move_answer){.result = words[i].result};
        }
    }
    quern_task_state state = qn_lifecycle_parse(word);
    return (struct qn_move_answer){state != 0 ? QN_MOVE_STATE : QN_MOVE_CHANGED, state};
}

/* How many one script takes. */
static size_t count_at_once(const struct qn_move_list *list)
{
    uint64_t count = list->state == QUERN_TASK_PENDING
                         ? QN_OPERATE_WALK_MAX / (list->rank_max + 1) + 1
                         : QN_BULK_MAX;
    return count < QN_BULK_MAX ? (size_t)count : QN_BULK_MAX;
}

static quern_status move_part(struct qn_redis *self, const struct qn_move_list *list,
                              struct qn_move_answer *answers, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_move, 2);
    qn_keys_add_prefix(&pipeline, list->queue);
    qn_keys_add_prefix(&pipeline, list->to);
    qn_pipeline_text(&pipeline, list->to);
    qn_pipeline_text(&pipeline, list->state == 0 ? "" : quern_task_state_name(list->state));
    qn_pipeline_int(&pipeline, QN_ARCHIVE_SIZE_MAX);
    for (size_t i = 0; i < list->count; i++) {
        qn_pipeline_text(&pipeline, list->items[i].id);
    }
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    for (size_t i = 0; status == QUERN_OK && i < list->count; i++) {
        answers[i] = answer_of(qn_reply_text(qn_reply_at(reply, i)));
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_move(struct qn_broker *broker, const struct qn_move_list *list,
                           struct qn_move_answer *answers, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    size_t most = count_at_once(list);
    quern_status status = check_slots(self, list, err);
    if (status == QUERN_OK) {
        status = qn_operate_list_queue(self, list->to, err);
    }
    for (size_t first = 0; status == QUERN_OK && first < list->count; first += most) {
        struct qn_move_list part = *list;
        part.items += first;
        part.count = list->count - first < most ? list->count - first : most;
        status = move_part(self, &part, answers + first, err);
    }
    return status;
}
