/* SPDX-License-Identifier: MIT */
/* trash_act.c - tasks come back from the trash of a queue, or leave it for good (trash.lua). */
#include <string.h>

#include "base/error.h"
#include "broker/redis/operate/operate.h"
#include "broker/redis/operate/trash_lua.h"
#include "broker/redis/schema/keys.h"
#include "broker/trash/trash.h"
#include "task/limits.h"

static enum qn_trash_result result_of(const char *word)
{
    static const struct {
        const char *word;
        enum qn_trash_result result;
    } words[] = {{"done", QN_TRASH_DONE},
                 {"exists", QN_TRASH_EXISTS},
                 {"locked", QN_TRASH_LOCKED},
                 {"full", QN_TRASH_FULL}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].word, word) == 0) {
            return words[i].result;
        }
    }
    return QN_TRASH_MISSING;
}

quern_status qn_redis_trash_act(struct qn_broker *broker, const struct qn_trash_list *list,
                                enum qn_trash_result *results, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    bool restores = list->action == QUERN_ACTION_RESTORE;
    quern_status status = QUERN_OK;
    if (restores && !list->dry) { /* a Go program may have removed its name */
        status = qn_operate_list_queue(self, list->queue, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_trash, 1);
    qn_keys_add_prefix(&pipeline, list->queue);
    qn_pipeline_text(&pipeline, restores ? "restore" : "delete");
    qn_pipeline_text(&pipeline, list->dry ? "dry" : "");
    qn_pipeline_int(&pipeline, QN_ARCHIVE_SIZE_MAX);
    for (size_t i = 0; i < list->count; i++) {
        qn_pipeline_text(&pipeline, list->items[i].id);
    }
    status = qn_pipeline_ask(&pipeline, &reply, err);
    for (size_t i = 0; status == QUERN_OK && i < list->count; i++) {
        results[i] = result_of(qn_reply_text(qn_reply_at(reply, i)));
    }
    qn_pipeline_end(&pipeline);
    return status;
}
