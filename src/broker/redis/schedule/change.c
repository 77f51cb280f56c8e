/* SPDX-License-Identifier: MIT */
/* change.c - removes, pauses and resumes an entry (change.lua). */
#include <string.h>

#include "base/error.h"
#include "broker/redis/schedule/change_lua.h"
#include "broker/redis/schedule/schedule_queues.h"
#include "broker/redis/schema/keys.h"

static quern_status result_of(const char *word, const struct qn_entry_key *key, const char *what,
                              quern_error *err)
{
    if (strcmp(word, "done") == 0) {
        return QUERN_OK;
    }
    if (strcmp(word, "gone") == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "queue \"%s\" has no entry \"%s\"", key->queue,
                            key->name);
    }
    if (strcmp(word, "changed") == 0) {
        return qn_error_set(err, QUERN_E_CONFLICT, "entry \"%s\" was changed meanwhile", key->name);
    }
    if (strcmp(word, "same") == 0) {
        return qn_error_set(err, QUERN_E_STATE, "entry \"%s\" is %s", key->name,
                            strcmp(what, "pause") == 0 ? "already paused" : "not paused");
    }
    return qn_error_set(err, QUERN_E_CORRUPT,
                        "entry \"%s\" of queue \"%s\" is damaged: add it again, or run doctor",
                        key->name, key->queue);
}

static quern_status change(struct qn_redis *self, const struct qn_entry_key *key, const char *what,
                           int64_t *ret_left, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_change, 1);
    qn_keys_add_prefix(&pipeline, key->queue);
    qn_pipeline_text(&pipeline, key->name);
    if (key->revision == QN_REVISION_ANY) {
        qn_pipeline_text(&pipeline, "any");
    } else {
        qn_pipeline_uint(&pipeline, key->revision);
    }
    qn_pipeline_text(&pipeline, what);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        status = result_of(qn_reply_text(qn_reply_at(reply, 0)), key, what, err);
        *ret_left = qn_reply_int(qn_reply_at(reply, 1), 1);
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK || status == QUERN_E_UNKNOWN) {
        qn_schedule_changed(self);
    }
    return status;
}

quern_status qn_redis_schedule_remove(struct qn_broker *broker, const struct qn_entry_key *key,
                                      quern_error *err)
{
    int64_t left = 1;
    quern_status status = change(qn_redis_of(broker), key, "remove", &left, err);
    if (status == QUERN_OK && left == 0) {
        /* The entry is gone in any case; a queue too many in the set costs the leader a command. */
        quern_status dropped = qn_schedule_queue_drop(qn_redis_of(broker), key->queue, NULL);
        (void)dropped;
    }
    return status;
}

quern_status qn_redis_schedule_pause(struct qn_broker *broker, const struct qn_entry_key *key,
                                     enum qn_entry_pause what, quern_error *err)
{
    static const char *const words[] = {[QN_ENTRY_PAUSE] = "pause",
                                        [QN_ENTRY_RESUME] = "resume",
                                        [QN_ENTRY_CATCH_UP] = "catch_up",
                                        [QN_ENTRY_RESET] = "reset"};
    int64_t left = 1;
    return change(qn_redis_of(broker), key, words[what], &left, err);
}
