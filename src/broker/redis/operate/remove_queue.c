/* SPDX-License-Identifier: MIT */
/* remove_queue.c - removes a queue with all its tasks, in bounded steps (remove_queue.lua).
 *
 * The name is removed last: a removal that failed half-way leaves a paused queue that can be seen
 * and removed again. A client may enqueue between the last step and the moment the name goes; then
 * the name is put back. Keys that no list names any more stay: hashes that lost their place (the
 * doctor finds those), and locks of tasks that are gone, which expire. So does what was used of a
 * limit for each type or key (`*`) by those of which no task waits any more. */
#include <string.h>

#include "base/error.h"
#include "base/text/plural.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/operate/remove_queue_lua.h"
#include "broker/redis/schedule/schedule_queues.h"
#include "broker/redis/schema/keys.h"
#include "task/limits.h"

#define STEP_MAX 500

struct removal {
    struct qn_redis *self;
    const char *queue;
    bool force;
    int64_t now_ms;
    bool done;
    int64_t removed_entries;
};

/* Counters of a day end by themselves, but not before that. */
static void ask_days(struct qn_pipeline *pipeline, int64_t now_ms)
{
    for (int64_t i = -1; i <= QN_HISTORY_DAYS + 1; i++) {
        char date[QN_DATE_SIZE];
        qn_redis_inspect_date(now_ms - i * QN_DAY_MS, date);
        qn_pipeline_text(pipeline, qn_arena_strdup(pipeline->arena, date));
    }
}

static quern_status refuse_removal(const struct removal *removal, const char *why, int64_t count,
                                   quern_error *err)
{
    if (strcmp(why, "active") == 0) {
        return qn_error_set(err, QUERN_E_STATE, "queue \"%s\" has %lld active %s", removal->queue,
                            (long long)count,
                            qn_plural((uint64_t)count, "task: wait for it or cancel it",
                                      "tasks: wait for them or cancel them"));
    }
    if (strcmp(why, "entries") == 0) {
        return qn_error_set(err, QUERN_E_STATE,
                            "queue \"%s\" has %lld %s of the schedule: not removed without force",
                            removal->queue, (long long)count,
                            qn_plural((uint64_t)count, "entry", "entries"));
    }
    return qn_error_set(err, QUERN_E_STATE, "queue \"%s\" holds %lld %s: not removed without force",
                        removal->queue, (long long)count,
                        qn_plural((uint64_t)count, "task", "tasks"));
}

static quern_status take_step(struct removal *removal, const struct qn_reply *reply,
                              quern_error *err)
{
    const char *word = qn_reply_text(qn_reply_at(reply, 0));
    removal->done = strcmp(word, "done") == 0;
    if (removal->done || strcmp(word, "more") == 0) {
        removal->removed_entries += qn_reply_int(qn_reply_at(reply, 1), 0);
        return QUERN_OK;
    }
    return refuse_removal(removal, word, qn_reply_int(qn_reply_at(reply, 1), 0), err);
}

static quern_status remove_step(struct removal *removal, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, removal->self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_remove_queue, 1);
    qn_keys_add_prefix(&pipeline, removal->queue);
    qn_pipeline_int(&pipeline, removal->force ? 1 : 0);
    qn_pipeline_int(&pipeline, STEP_MAX);
    ask_days(&pipeline, removal->now_ms);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        status = take_step(removal, reply, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* One plain command on asynq:queues and, with keys, the question whether any of them is there. */
static quern_status change_name(const struct removal *removal, const char *command, bool *ret_used,
                                quern_error *err)
{
    static const char *const keys[] = {"pending", "scheduled", "groups"};
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, removal->self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_command(&pipeline, command);
    qn_pipeline_text(&pipeline, QN_KEY_QUEUES);
    qn_pipeline_text(&pipeline, removal->queue);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK && ret_used != NULL) {
        qn_pipeline_command(&pipeline, "EXISTS");
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            qn_keys_add(&pipeline, removal->queue, keys[i]);
        }
        status = qn_pipeline_ask(&pipeline, &reply, err);
        *ret_used = status == QUERN_OK && qn_reply_int(reply, 0) > 0;
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_remove_queue(struct qn_broker *broker, const char *queue, bool force,
                                   quern_error *err)
{
    struct removal removal = {.self = qn_redis_of(broker), .queue = queue, .force = force};
    bool used = false;
    quern_status status = qn_redis_find_queue(broker, queue, err);
    if (status == QUERN_OK) {
        status = qn_redis_inspect_now(removal.self, &removal.now_ms, err);
    }
    struct qn_page_bound bound = {.self = removal.self, .size_command = "DBSIZE"};
    while (status == QUERN_OK && !removal.done) {
        status = remove_step(&removal, err);
        qn_page_bound_add(&bound, NULL);
        if (status == QUERN_OK) {
            status = qn_page_bound_check(&bound, err);
        }
    }
    if (removal.removed_entries > 0) {
        quern_status dropped = qn_schedule_queue_drop(removal.self, queue, NULL);
        (void)dropped; /* a queue too many in that set costs the leader a command */
        qn_schedule_changed(removal.self);
    }
    if (status == QUERN_OK) {
        status = change_name(&removal, "SREM", &used, err);
    }
    return status == QUERN_OK && used ? change_name(&removal, "SADD", NULL, err) : status;
}
