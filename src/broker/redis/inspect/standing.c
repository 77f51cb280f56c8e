/* SPDX-License-Identifier: MIT */
/* standing.c - where a task stands: its rank in pending or in its lane, its charges, the solo lock
 * of its queue, the record of its worker, its group.
 *
 * Plain commands that only read. LPOS walks along pending, so it looks at a limited number of the
 * tasks at its head. A key of a wrong type counts as missing. */
#include "broker/standing/standing.h"

#include <stdio.h>
#include <string.h>

#include "broker/owner.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"
#include "broker/redis/schema/worker_record.h"

#define STRINGIFY(value) #value
#define TEXT_OF(value) STRINGIFY(value)
#define NOT_ASKED SIZE_MAX

/* The commands, by their index. */
struct asked {
    size_t hash;
    size_t solo;
    size_t rank;
    size_t size;
    size_t worker;
    size_t group_size;
    size_t group_score;
    size_t lane;
};

static const struct qn_reply *reply_of(const struct qn_pipeline *pipeline, size_t index)
{
    static const struct qn_reply nothing = {.type = QN_REPLY_NIL, .data = ""};
    const struct qn_reply *reply = NULL;
    bool is_there = index != NOT_ASKED && index < pipeline->command_count &&
                    qn_pipeline_reply(pipeline, index, &reply, NULL) == QUERN_OK;
    return is_there ? reply : &nothing;
}

static size_t ask(struct qn_pipeline *pipeline, const char *command, const char *queue,
                  const char *key)
{
    qn_pipeline_command(pipeline, command);
    qn_keys_add(pipeline, queue, key);
    return pipeline->command_count - 1;
}

static void ask_group(struct qn_pipeline *pipeline, const struct quern_task_info *info,
                      struct asked *asked)
{
    const char *queue = info->task.queue;
    const char *group = info->task.group == NULL ? "" : info->task.group;
    const char *key = qn_arena_printf(pipeline->arena, QN_KEY_GROUP "%s", group);
    asked->group_size = ask(pipeline, "ZCARD", queue, key);
    asked->group_score = ask(pipeline, "ZSCORE", queue, key);
    qn_pipeline_text(pipeline, info->task.id);
}

static struct asked ask_all(struct qn_pipeline *pipeline, const struct quern_task_info *info)
{
    struct asked asked = {.rank = NOT_ASKED,
                          .size = NOT_ASKED,
                          .worker = NOT_ASKED,
                          .group_size = NOT_ASKED,
                          .group_score = NOT_ASKED,
                          .lane = NOT_ASKED};
    const char *queue = info->task.queue;
    qn_pipeline_command(pipeline, "HMGET");
    qn_keys_add_task(pipeline, queue, info->task.id, strlen(info->task.id));
    qn_pipeline_text(pipeline, "quern_past");
    qn_pipeline_text(pipeline, "quern_aside");
    qn_pipeline_text(pipeline, "state");
    asked.hash = pipeline->command_count - 1;
    asked.solo = ask(pipeline, "HGET", queue, QN_KEY_META);
    qn_pipeline_text(pipeline, "solo");
    if (info->task.state == QUERN_TASK_PENDING) {
        asked.rank = ask(pipeline, "LPOS", queue, "pending");
        qn_pipeline_text(pipeline, info->task.id);
        qn_pipeline_text(pipeline, "RANK");
        qn_pipeline_text(pipeline, "-1");
        qn_pipeline_text(pipeline, "MAXLEN");
        qn_pipeline_text(pipeline, TEXT_OF(QN_STANDING_AHEAD_MAX));
        asked.size = ask(pipeline, "LLEN", queue, "pending");
    } else if (info->task.state == QUERN_TASK_AGGREGATING) {
        ask_group(pipeline, info, &asked);
    }
    if (info->worker != NULL && info->worker[0] != '\0') {
        qn_pipeline_command(pipeline, "HGET");
        qn_pipeline_text(pipeline, QN_KEY_RECORDS);
        qn_pipeline_text(pipeline, info->worker);
        asked.worker = pipeline->command_count - 1;
    }
    return asked;
}

/* "since until rest owner", as lib_deaths.lua writes it. */
static void take_solo(const struct qn_reply *reply, struct qn_standing *standing)
{
    const char *text = qn_reply_text(reply);
    struct qn_cursor cursor = {text, text + strlen(text)};
    uint64_t numbers[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        if (!qn_number_take(&cursor, &numbers[i]) || !qn_number_take_char(&cursor, ' ')) {
            return;
        }
    }
    for (size_t i = 0; i < 3; i++) {
        numbers[i] =
            numbers[i] > (uint64_t)QN_MOMENT_MS_MAX ? (uint64_t)QN_MOMENT_MS_MAX : numbers[i];
    }
    standing->solo_until_ms = (int64_t)numbers[1];
    standing->solo_rest_ms = (int64_t)numbers[2];
    (void)snprintf(standing->solo_owner, sizeof standing->solo_owner, "%s", cursor.at);
}

static void take_worker(struct qn_pipeline *pipeline, const struct quern_task_info *info,
                        const struct qn_reply *reply, struct qn_standing *standing)
{
    struct qn_worker_record record;
    if (reply->type == QN_REPLY_TEXT &&
        qn_worker_record_read(pipeline->arena, info->worker, reply, &record, NULL) == QUERN_OK) {
        (void)snprintf(standing->host, sizeof standing->host, "%s", record.info.host);
        standing->pid = record.info.pid;
        standing->seen_at_ms = record.info.heartbeat_at_ms;
    }
}

static void take_rank(const struct qn_pipeline *pipeline, const struct asked *asked,
                      struct qn_standing *standing)
{
    const struct qn_reply *rank = reply_of(pipeline, asked->rank);
    uint64_t size = qn_reply_uint(reply_of(pipeline, asked->size));
    if (rank->type == QN_REPLY_NIL) {
        standing->ahead = size >= QN_STANDING_AHEAD_MAX ? QN_STANDING_AHEAD_MAX : -1;
        return;
    }
    uint64_t from_tail = qn_reply_uint(rank);
    uint64_t ahead = size > from_tail ? size - from_tail - 1 : 0;
    standing->ahead = ahead > QN_STANDING_AHEAD_MAX ? QN_STANDING_AHEAD_MAX : (int64_t)ahead;
}

/* quern_aside is "place lane", and counts while the task is `scheduled`. */
static const char *lane_of(const struct qn_reply *hash)
{
    const char *text = qn_reply_text(qn_reply_at(hash, 1));
    const char *blank = strchr(text, ' ');
    bool counts = strcmp(qn_reply_text(qn_reply_at(hash, 2)), "scheduled") == 0;
    return counts && blank != NULL ? blank + 1 : NULL;
}

static quern_status take_lane(struct qn_pipeline *pipeline, const struct quern_task_info *info,
                              struct asked *asked, struct qn_standing *standing, quern_error *err)
{
    const char *lane = lane_of(reply_of(pipeline, asked->hash));
    if (info->task.state != QUERN_TASK_PENDING || lane == NULL) {
        return QUERN_OK;
    }
    const char *key = qn_arena_printf(pipeline->arena, "quern:lane:%s", lane);
    asked->lane = ask(pipeline, "ZRANK", info->task.queue, key);
    qn_pipeline_text(pipeline, info->task.id);
    quern_status status = qn_pipeline_run(pipeline, err);
    const struct qn_reply *rank = reply_of(pipeline, status == QUERN_OK ? asked->lane : NOT_ASKED);
    standing->in_lane = true;
    standing->ahead = rank->type == QN_REPLY_NIL                    ? -1
                      : qn_reply_uint(rank) > QN_STANDING_AHEAD_MAX ? QN_STANDING_AHEAD_MAX
                                                                    : (int64_t)qn_reply_uint(rank);
    return status;
}

quern_status qn_redis_standing(struct qn_broker *broker, const struct quern_task_info *info,
                               struct qn_standing *ret_standing, quern_error *err)
{
    struct qn_pipeline pipeline;
    struct qn_task_fields_past past;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_READS);
    struct asked asked = ask_all(&pipeline, info);
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        const struct qn_reply *text = qn_reply_at(reply_of(&pipeline, asked.hash), 0);
        qn_task_fields_past_read(qn_reply_text(text), strlen(qn_reply_text(text)), &past);
        ret_standing->level = past.crash_count > 0 ? past.level : -1;
        take_solo(reply_of(&pipeline, asked.solo), ret_standing);
        take_worker(&pipeline, info, reply_of(&pipeline, asked.worker), ret_standing);
        if (asked.rank != NOT_ASKED) {
            take_rank(&pipeline, &asked, ret_standing);
        }
        if (asked.group_size != NOT_ASKED) {
            ret_standing->group_size = qn_reply_uint(reply_of(&pipeline, asked.group_size));
            ret_standing->in_set = reply_of(&pipeline, asked.group_score)->type == QN_REPLY_NIL;
        }
        status = take_lane(&pipeline, info, &asked, ret_standing, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}
