/* SPDX-License-Identifier: MIT */
/* match_id.c - the tasks whose ids begin alike.
 *
 * Redis keeps no order of ids, so the names of all keys are walked through. The server compares
 * them, SCAN_COUNT at a time, which takes it half a millisecond, and sends only those that match.
 * With more than KEYS_MAX keys, about a second of work, nothing is begun. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/node.h"
#include "message/id.h"

#define SCAN_COUNT 512
#define KEYS_MAX 1000000

struct match {
    struct qn_redis *self;
    const char *prefix;
    bool (*on_id)(const char *queue, const char *id, void *user);
    void *user;
    bool stopped;
    int node; /* whose keys are walked through */
    char cursor[32];
};

/* Takes the key of a task apart. */
static quern_status report_key(struct match *match, struct qn_arena *arena,
                               const struct qn_reply *key, quern_error *err)
{
    static const char before_id[] = QN_KEY_NAME QN_KEY_TASK;
    size_t root_size = strlen(QN_KEY_ROOT);
    size_t tail_size = strlen(before_id) + QN_ID_TEXT_SIZE - 1;
    if (key->type != QN_REPLY_TEXT || key->size <= root_size + tail_size ||
        strlen(key->data) != key->size) {
        return QUERN_OK;
    }
    size_t queue_size = key->size - root_size - tail_size;
    const char *tail = key->data + root_size + queue_size;
    const char *id = tail + strlen(before_id);
    if (memcmp(key->data, QN_KEY_ROOT, root_size) != 0 ||
        memcmp(tail, before_id, strlen(before_id)) != 0 ||
        strncmp(id, match->prefix, strlen(match->prefix)) != 0) {
        return QUERN_OK;
    }
    char *queue = qn_arena_copy(arena, key->data + root_size, queue_size + 1);
    if (queue == NULL) {
        return qn_error_nomem(err);
    }
    queue[queue_size] = '\0';
    match->stopped = !match->on_id(queue, id, match->user);
    return QUERN_OK;
}

/* The keys are reported after the pipeline's command, within it: on_id must not use the broker. */
static quern_status scan_step(struct match *match, struct qn_page_bound *bound, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, match->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "SCAN");
    qn_pipeline_at(&pipeline, match->node);
    qn_pipeline_text(&pipeline, match->cursor);
    qn_pipeline_text(&pipeline, "MATCH");
    qn_pipeline_text(&pipeline,
                     qn_arena_printf(pipeline.arena, QN_KEY_ROOT "*" QN_KEY_NAME QN_KEY_TASK "%s*",
                                     match->prefix));
    qn_pipeline_text(&pipeline, "COUNT");
    qn_pipeline_int(&pipeline, SCAN_COUNT);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        const struct qn_reply *next = qn_reply_at(reply, 0);
        bool fits = next->type == QN_REPLY_TEXT && next->size > 0 &&
                    next->size < sizeof match->cursor &&
                    qn_reply_at(reply, 1)->type == QN_REPLY_ARRAY;
        status = qn_pipeline_expect(&pipeline, fits, "SCAN", err);
        (void)snprintf(match->cursor, sizeof match->cursor, "%s", qn_reply_text(next));
    }
    if (status == QUERN_OK) {
        const struct qn_reply *keys = qn_reply_at(reply, 1);
        qn_page_bound_add(bound, keys);
        for (size_t i = 0; status == QUERN_OK && i < keys->count && !match->stopped; i++) {
            status = report_key(match, pipeline.arena, qn_reply_at(keys, i), err);
        }
    }
    qn_pipeline_end(&pipeline);
    return status == QUERN_OK ? qn_page_bound_check(bound, err) : status;
}

static quern_status check_size(struct match *match, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    int64_t count = 0;
    qn_redis_begin(&pipeline, match->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "DBSIZE");
    qn_pipeline_at(&pipeline, match->node);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        count = qn_reply_int(reply, 0);
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK && count > KEYS_MAX) {
        status = qn_error_set(err, QUERN_E_UNSUPPORTED,
                              "no task has the id %s, and the server has too many keys to search "
                              "for ids that begin with it: give the whole id",
                              match->prefix);
    }
    return status;
}

/* All keys of one node. */
static quern_status walk_node(struct match *match, quern_error *err)
{
    struct qn_page_bound bound = {
        .self = match->self, .size_command = "DBSIZE", .node = match->node};
    (void)snprintf(match->cursor, sizeof match->cursor, "0");
    quern_status status = check_size(match, err);
    do {
        if (status == QUERN_OK) {
            status = scan_step(match, &bound, err);
        }
    } while (status == QUERN_OK && !match->stopped && strcmp(match->cursor, "0") != 0);
    return status;
}

quern_status qn_redis_match_id(struct qn_broker *broker, const char *prefix,
                               bool (*on_id)(const char *queue, const char *id, void *user),
                               void *user, quern_error *err)
{
    int nodes[QN_SLOT_NODES_MAX];
    struct match match = {
        .self = qn_redis_of(broker), .prefix = prefix, .on_id = on_id, .user = user};
    size_t count = qn_node_list(match.self->cluster, nodes);
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < count && !match.stopped; i++) {
        match.node = nodes[i];
        status = walk_node(&match, err);
    }
    return status;
}
