/* SPDX-License-Identifier: MIT */
/* find.c - finds a task by its id: its hash is read, and every zset that may hold it, so that an id
 * whose hash is lost or damaged is found, too. Several queues are queried at a time. */
#include <string.h>

#include "base/error.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "task/lifecycle.h"

#define QUEUES_AT_ONCE 64

/* One command each, in this order. */
enum { HASH, LEASE, SCHEDULED, RETRY, ARCHIVED, COMPLETED, DUE, COMMAND_COUNT };
static const struct {
    const char *key;
    quern_task_state state;
} zsets[COMMAND_COUNT] = {[LEASE] = {"lease", QUERN_TASK_ACTIVE},
                          [SCHEDULED] = {"scheduled", QUERN_TASK_SCHEDULED},
                          [RETRY] = {"retry", QUERN_TASK_RETRY},
                          [ARCHIVED] = {"archived", QUERN_TASK_ARCHIVED},
                          [COMPLETED] = {"completed", QUERN_TASK_COMPLETED},
                          [DUE] = {QN_KEY_DUE, (quern_task_state)0}};

struct found {
    bool found;
    bool hash; /* it has one with its state */
    quern_task_state state;
    int64_t score;
    int64_t due_at_ms;
    const char *group; /* in the pipeline's arena */
};

static void ask_queue(struct qn_pipeline *pipeline, const char *queue,
                      const struct qn_task_entry *entry)
{
    qn_pipeline_command(pipeline, "HMGET");
    qn_keys_add_task(pipeline, queue, entry->id, entry->id_size);
    qn_pipeline_text(pipeline, "state");
    qn_pipeline_text(pipeline, "group");
    for (int i = LEASE; i < COMMAND_COUNT; i++) {
        qn_pipeline_command(pipeline, "ZSCORE");
        qn_keys_add(pipeline, queue, zsets[i].key);
        qn_pipeline_bytes(pipeline, entry->id, entry->id_size);
    }
}

/* The reply, or nil where the key is of a wrong type. */
static const struct qn_reply *reply_at(const struct qn_pipeline *pipeline, size_t index)
{
    static const struct qn_reply nil = {.type = QN_REPLY_NIL, .data = ""};
    const struct qn_reply *reply = NULL;
    return qn_pipeline_reply(pipeline, index, &reply, NULL) == QUERN_OK ? reply : &nil;
}

static struct found take_queue(const struct qn_pipeline *pipeline, size_t first)
{
    const struct qn_reply *hash = reply_at(pipeline, first + HASH);
    struct found found = {.state = qn_lifecycle_parse(qn_reply_text(qn_reply_at(hash, 0))),
                          .group = qn_reply_text(qn_reply_at(hash, 1))};
    found.hash = found.state != (quern_task_state)0;
    found.found = found.hash;
    found.due_at_ms = qn_reply_moment_ms(reply_at(pipeline, first + DUE));
    for (size_t i = LEASE; i <= COMPLETED; i++) {
        const struct qn_reply *score = reply_at(pipeline, first + i);
        bool wanted = found.hash ? zsets[i].state == found.state : !found.found;
        if (wanted && score->type != QN_REPLY_NIL) {
            found.state = zsets[i].state;
            found.score = qn_reply_seconds(score);
            found.found = true;
        }
    }
    return found;
}

/* When it was added to its group; 0 in an aggregation set. */
static quern_status read_group_score(struct qn_pipeline *pipeline, const char *queue,
                                     const struct qn_task_entry *entry, struct found *found,
                                     quern_error *err)
{
    const char *key = qn_arena_printf(pipeline->arena, QN_KEY_GROUP "%s", found->group);
    if (key == NULL) {
        return qn_error_nomem(err);
    }
    qn_pipeline_command(pipeline, "ZSCORE");
    qn_keys_add(pipeline, queue, key);
    qn_pipeline_bytes(pipeline, entry->id, entry->id_size);
    quern_status status = qn_pipeline_run(pipeline, err);
    if (status == QUERN_OK) {
        found->score = qn_reply_seconds(reply_at(pipeline, pipeline->command_count - 1));
    }
    return status;
}

struct search {
    struct qn_redis *self;
    struct qn_task_entry entry;
    const struct qn_place_sink *sink;
    int64_t now_ms;
    bool stopped;
};

/* Queries some queues; results are reported after the pipeline, since the callback may begin its
 * own. */
static quern_status ask_queues(const struct search *search, struct qn_names queues,
                               struct found *found, quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, search->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (size_t i = 0; i < queues.count; i++) {
        ask_queue(&pipeline, queues.items[i], &search->entry);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        found[i] = take_queue(&pipeline, i * COMMAND_COUNT);
    }
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        if (found[i].found && found[i].state == QUERN_TASK_AGGREGATING) {
            status = read_group_score(&pipeline, queues.items[i], &search->entry, &found[i], err);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static void report_place(struct search *search, const char *queue, const struct found *found)
{
    struct qn_place place = {
        .queue = queue, .state = found->state, .now_ms = search->now_ms, .alone = true};
    struct qn_task_entry entry = search->entry;
    entry.score = found->score;
    entry.at_ms =
        (found->due_at_ms + 999) / 1000 == found->score ? found->due_at_ms : found->score * 1000;
    search->stopped = !search->sink->on_place(&place, &entry, search->sink->user);
}

quern_status qn_find_id(struct qn_redis *self, struct qn_names queues, const char *id,
                        const struct qn_place_sink *sink, quern_error *err)
{
    struct search search = {.self = self, .entry = {.id = id, .id_size = strlen(id)}, .sink = sink};
    struct found found[QUEUES_AT_ONCE];
    quern_status status = qn_redis_inspect_now(self, &search.now_ms, err);
    for (size_t i = 0; status == QUERN_OK && i < queues.count && !search.stopped;
         i += QUEUES_AT_ONCE) {
        size_t left = queues.count - i;
        const struct qn_names some = {.items = queues.items + i,
                                      .count = left < QUEUES_AT_ONCE ? left : QUEUES_AT_ONCE};
        status = ask_queues(&search, some, found, err);
        for (size_t j = 0; status == QUERN_OK && j < some.count && !search.stopped; j++) {
            if (found[j].found) {
                report_place(&search, some.items[j], &found[j]);
            }
        }
    }
    return status;
}
