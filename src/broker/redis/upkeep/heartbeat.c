/* SPDX-License-Identifier: MIT */
/* heartbeat.c - the worker's heartbeat, and its end.
 *
 * A worker is told of in two ways. As asynq does, for Go's inspector: a ServerInfo and a WorkerInfo
 * for each of its runs, which live for ten seconds. And in records of our own: one in
 * asynq:quern:workers for our listing, and one in each of its queues, which says to whoever
 * recovers there that this worker lives. All parts are one call of heartbeat.lua; each is whole by
 * itself, and a heartbeat that got through in part is mended by the next one. */
#include "broker/redis/upkeep/heartbeat.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text/number.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "message/asynq.h"

#include "broker/redis/upkeep/deregister_lua.h"
#include "broker/redis/upkeep/heartbeat_lua.h"

/* Of a run, to people; and of all of them, so that heartbeats stay bounded. Who looks at a payload
 * may want to read it (JSON, ...), so it is shown whole or not at all. */
#define PAYLOAD_SHOWN_MAX ((size_t)64 << 10)
#define PAYLOADS_SHOWN_MAX ((size_t)8 << 20)
#define LINE_COUNT 9 /* of a record, before the names of queues */

const char *qn_worker_key(struct qn_arena *arena, const char *kind, const char *host, int64_t pid,
                          const char *id)
{
    return qn_arena_printf(arena, "asynq:%s:{%s:%lld:%s}", kind, host, (long long)pid, id);
}

/* --- What Go sees --------------------------------------------------------------------- */

/* asynq knows of servers that fetch and such that do not. */
static const char *asynq_status(const char *status)
{
    bool fetches = strcmp(status, "active") == 0 || strcmp(status, "braked") == 0;
    return fetches ? "active" : "stopped";
}

static quern_status encode_server(struct qn_arena *arena, const struct qn_heartbeat *announcement,
                                  struct qn_asynq_bytes *ret_bytes, quern_error *err)
{
    struct qn_asynq_queue *queues =
        qn_arena_alloc(arena, (announcement->queue_count + 1) * sizeof *queues);
    if (queues == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < announcement->queue_count; i++) {
        queues[i] =
            (struct qn_asynq_queue){.name = announcement->queue_shares[i].name,
                                    .weight = (int32_t)announcement->queue_shares[i].weight};
    }
    const struct qn_asynq_server server = {
        .host = announcement->host,
        .pid = (int32_t)announcement->pid,
        .id = announcement->worker_id,
        .concurrency = (int32_t)announcement->concurrency,
        .queues = queues,
        .queue_count = announcement->queue_count,
        .strict = announcement->strict,
        .status = asynq_status(announcement->status),
        .started_at = qn_asynq_time_of_ms(announcement->started_at_ms),
        .run_count = (int32_t)announcement->run_count,
    };
    return qn_asynq_server_encode(arena, &server, ret_bytes, err);
}

/* What one of its runs is told by. */
struct told_run {
    const char *task_id;
    struct qn_asynq_bytes info;
};

static quern_status encode_run(struct qn_arena *arena, const struct qn_heartbeat *announcement,
                               const struct qn_announced_run *run, struct qn_asynq_bytes *ret_bytes,
                               quern_error *err)
{
    bool shows = run->payload_size <= PAYLOAD_SHOWN_MAX;
    const struct qn_asynq_run message = {
        .host = announcement->host,
        .pid = (int32_t)announcement->pid,
        .server_id = announcement->worker_id,
        .task_id = run->task_id,
        .task_type = run->task_type,
        .payload = shows ? run->payload : NULL,
        .payload_size = shows ? run->payload_size : 0,
        .queue = run->queue,
        .started_at = qn_asynq_time_of_ms(run->started_at_ms),
        .deadline_at = qn_asynq_time_of_ms(run->deadline_at_ms),
    };
    return qn_asynq_run_encode(arena, &message, ret_bytes, err);
}

/* A run whose text Go could not read is rather not shown than no heartbeat. */
static quern_status encode_runs(struct qn_arena *arena, const struct qn_heartbeat *announcement,
                                struct told_run **ret_runs, size_t *ret_count, quern_error *err)
{
    struct told_run *runs = qn_arena_alloc(arena, (announcement->run_count + 1) * sizeof *runs);
    size_t count = 0;
    size_t left = PAYLOADS_SHOWN_MAX;
    quern_status status = runs == NULL ? qn_error_nomem(err) : QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < announcement->run_count; i++) {
        struct qn_announced_run run = announcement->runs[i];
        run.payload_size = run.payload_size <= left ? run.payload_size : SIZE_MAX;
        left -= run.payload_size <= PAYLOAD_SHOWN_MAX ? run.payload_size : 0;
        status = encode_run(arena, announcement, &run, &runs[count].info, err);
        if (status == QUERN_OK) {
            runs[count++].task_id = run.task_id;
        } else if (status == QUERN_E_INVALID) {
            status = QUERN_OK;
        }
    }
    *ret_runs = runs;
    *ret_count = count;
    return status;
}

/* --- What we see ---------------------------------------------------------------------- */

/* The last lines of the record; NULL when memory is out. A name that Go made may be no line: then
 * what runs in that queue is not listed. */
static const char *queue_lines(struct qn_arena *arena, const struct qn_heartbeat *announcement)
{
    size_t size = 1;
    for (size_t i = 0; i < announcement->queue_count; i++) {
        size += strlen(announcement->queue_shares[i].name) + 1;
    }
    char *lines = qn_arena_alloc(arena, size);
    char *at = lines;
    for (size_t i = 0; lines != NULL && i < announcement->queue_count; i++) {
        const char *name = announcement->queue_shares[i].name;
        if (strchr(name, '\n') == NULL) {
            *at++ = '\n';
            at = stpcpy(at, name);
        }
    }
    if (lines != NULL) {
        *at = '\0';
    }
    return lines;
}

static const char *record_text(struct qn_arena *arena, const struct qn_heartbeat *announcement)
{
    const char *queues = queue_lines(arena, announcement);
    if (queues == NULL) {
        return NULL;
    }
    return qn_arena_printf(arena, "%s\n%s\n%s\n%lld\n%lld\n%u\n%d\n%s%s", announcement->status,
                           announcement->owner, announcement->host, (long long)announcement->pid,
                           (long long)announcement->started_at_ms, announcement->concurrency,
                           announcement->strict ? 1 : 0, announcement->queues, queues);
}

/* --- All of it ------------------------------------------------------------------------ */

/* What is not in the announcement as it is sent; lives in the arena of the pipeline. */
struct heartbeat {
    const struct qn_heartbeat *announcement;
    const char *server_key;
    const char *runs_key;
    const char *record;
    const char *holder;
    struct qn_asynq_bytes server;
    struct told_run *runs;
    size_t run_count;
};

static quern_status prepare(struct qn_arena *arena, const struct qn_heartbeat *announcement,
                            struct heartbeat *ret_heartbeat, quern_error *err)
{
    struct heartbeat heartbeat = {
        .announcement = announcement,
        .server_key = qn_worker_key(arena, "servers", announcement->host, announcement->pid,
                                    announcement->worker_id),
        .runs_key = qn_worker_key(arena, "workers", announcement->host, announcement->pid,
                                  announcement->worker_id),
        .record = record_text(arena, announcement),
        .holder = qn_arena_printf(arena, "%s %s %s", announcement->status, announcement->owner,
                                  announcement->host),
    };
    if (heartbeat.server_key == NULL || heartbeat.runs_key == NULL || heartbeat.record == NULL ||
        heartbeat.holder == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = encode_server(arena, announcement, &heartbeat.server, err);
    if (status == QUERN_OK) {
        status = encode_runs(arena, announcement, &heartbeat.runs, &heartbeat.run_count, err);
    }
    *ret_heartbeat = heartbeat;
    return status;
}

/* In the order of the parts. */
static void put_keys(struct qn_pipeline *pipeline, const struct heartbeat *heartbeat)
{
    const struct qn_heartbeat *announcement = heartbeat->announcement;
    for (size_t i = 0; i < announcement->queue_count; i++) {
        qn_keys_add(pipeline, announcement->queue_shares[i].name, "quern:workers");
    }
    if (announcement->queue_count > 0) {
        qn_pipeline_text(pipeline, "asynq:queues");
    }
    qn_pipeline_text(pipeline, QN_WORKERS_KEY);
    qn_pipeline_text(pipeline, "asynq:servers");
    qn_pipeline_text(pipeline, "asynq:workers");
    qn_pipeline_text(pipeline, heartbeat->server_key);
    qn_pipeline_text(pipeline, heartbeat->runs_key);
}

static void begin_part(struct qn_pipeline *pipeline, const char *name, size_t arg_count)
{
    qn_pipeline_text(pipeline, name);
    qn_pipeline_uint(pipeline, arg_count);
}

static void put_record(struct qn_pipeline *pipeline, const char *part, const char *worker_id,
                       const char *record)
{
    begin_part(pipeline, part, 2);
    qn_pipeline_text(pipeline, worker_id);
    qn_pipeline_text(pipeline, record);
}

static void put_queues(struct qn_pipeline *pipeline, const struct heartbeat *heartbeat)
{
    const struct qn_heartbeat *announcement = heartbeat->announcement;
    for (size_t i = 0; i < announcement->queue_count; i++) {
        put_record(pipeline, "holder", announcement->worker_id, heartbeat->holder);
    }
    if (announcement->queue_count > 0) {
        begin_part(pipeline, "queues", announcement->queue_count);
    }
    for (size_t i = 0; i < announcement->queue_count; i++) {
        qn_pipeline_text(pipeline, announcement->queue_shares[i].name);
    }
}

static void put_listed(struct qn_pipeline *pipeline, const char *member)
{
    begin_part(pipeline, "listed", 2);
    qn_pipeline_text(pipeline, member);
    qn_pipeline_int(pipeline, QN_SERVER_TTL_S);
}

static void put_server(struct qn_pipeline *pipeline, const struct heartbeat *heartbeat)
{
    begin_part(pipeline, "server", 2);
    qn_pipeline_int(pipeline, QN_SERVER_TTL_S);
    qn_pipeline_bytes(pipeline, heartbeat->server.data, heartbeat->server.size);
    begin_part(pipeline, "runs", 1 + 2 * heartbeat->run_count);
    qn_pipeline_int(pipeline, QN_SERVER_TTL_S);
    for (size_t i = 0; i < heartbeat->run_count; i++) {
        qn_pipeline_text(pipeline, heartbeat->runs[i].task_id);
        qn_pipeline_bytes(pipeline, heartbeat->runs[i].info.data, heartbeat->runs[i].info.size);
    }
}

static quern_status build(struct qn_pipeline *pipeline, const struct qn_heartbeat *announcement,
                          quern_error *err)
{
    struct heartbeat heartbeat = {0};
    quern_status status = prepare(pipeline->arena, announcement, &heartbeat, err);
    if (status == QUERN_OK) {
        const size_t others = 5 + (announcement->queue_count > 0 ? 1 : 0);
        qn_pipeline_script(pipeline, &qn_lua_heartbeat, announcement->queue_count + others);
        put_keys(pipeline, &heartbeat);
        put_queues(pipeline, &heartbeat);
        put_record(pipeline, "record", announcement->worker_id, heartbeat.record);
        put_listed(pipeline, heartbeat.server_key);
        put_listed(pipeline, heartbeat.runs_key);
        put_server(pipeline, &heartbeat);
    }
    return status;
}

/* Sends it, and looks at every reply. */
static quern_status run_all(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    quern_status status = qn_pipeline_run(pipeline, err);
    for (size_t i = first; status == QUERN_OK && i < pipeline->command_count; i++) {
        const struct qn_reply *reply;
        status = qn_pipeline_reply(pipeline, i, &reply, err);
    }
    return status;
}

/* A cancellation may come before the first arm. */
static void serve(struct qn_redis *self, const struct qn_heartbeat *announcement)
{
    const char *names[QN_QUEUES_MAX];
    QN_ASSERT(announcement->queue_count <= QN_QUEUES_MAX);
    for (size_t i = 0; i < announcement->queue_count; i++) {
        names[i] = announcement->queue_shares[i].name;
    }
    qn_redis_listener_serve(&self->listener, (struct qn_names){names, announcement->queue_count});
    qn_redis_listener_note_host(&self->listener, announcement->host);
}

quern_status qn_redis_heartbeat(struct qn_broker *broker, const struct qn_heartbeat *announcement,
                                quern_error *err)
{
    struct qn_pipeline pipeline;
    serve(qn_redis_of(broker), announcement);
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_KEEPER, QN_PIPELINE_WRITES);
    quern_status status = build(&pipeline, announcement, err);
    if (status == QUERN_OK) {
        status = run_all(&pipeline, 0, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* --- The end -------------------------------------------------------------------------- */

static int64_t read_number(const char *text, int64_t max)
{
    struct qn_cursor cursor = {text, text + strlen(text)};
    uint64_t value = 0;
    (void)qn_number_take(&cursor, &value);
    return value > (uint64_t)max ? max : (int64_t)value;
}

quern_status qn_worker_record_read(struct qn_arena *arena, const char *id,
                                   const struct qn_reply *reply,
                                   struct qn_worker_record *ret_record, quern_error *err)
{
    const char *lines[LINE_COUNT];
    char *text = qn_arena_strdup(arena, qn_reply_text(reply));
    size_t line_count = 1;
    for (const char *at = qn_reply_text(reply); (at = strchr(at, '\n')) != NULL; at++) {
        line_count++;
    }
    const char **queues = qn_arena_alloc(arena, line_count * sizeof *queues);
    if (text == NULL || queues == NULL) {
        return qn_error_nomem(err);
    }
    size_t count = 0;
    size_t queue_count = 0;
    for (char *rest = text; rest != NULL; count++) {
        char *line = strsep(&rest, "\n");
        if (count < LINE_COUNT) {
            lines[count] = line;
        } else {
            queues[queue_count++] = line;
        }
    }
    if (count < LINE_COUNT) {
        return qn_error_set(err, QUERN_E_CORRUPT, "the record of worker %s is not whole", id);
    }
    *ret_record = (struct qn_worker_record){
        .owner = lines[2],
        .queues = queues,
        .queue_count = queue_count,
        .info = {.id = id,
                 .host = lines[3],
                 .status = lines[1],
                 .queues = lines[8],
                 .pid = read_number(lines[4], INT64_MAX),
                 .started_at_ms = read_number(lines[5], QN_MOMENT_MS_MAX),
                 .heartbeat_at_ms = read_number(lines[0], QN_MOMENT_MS_MAX),
                 .concurrency = (uint32_t)read_number(lines[6], UINT32_MAX),
                 .strict_priority = lines[7][0] == '1'}};
    return QUERN_OK;
}

static void add_removal(struct qn_pipeline *pipeline, const char *command, const char *key,
                        const char *member)
{
    qn_pipeline_command(pipeline, command);
    qn_pipeline_text(pipeline, key);
    qn_pipeline_text(pipeline, member);
}

/* Removals are allowed without memory, and the script begins with one. */
static quern_status build_end(struct qn_pipeline *pipeline, const struct qn_worker_record *record,
                              quern_error *err)
{
    const quern_worker_info *info = &record->info;
    const char *server_key =
        qn_worker_key(pipeline->arena, "servers", info->host, info->pid, info->id);
    const char *runs_key =
        qn_worker_key(pipeline->arena, "workers", info->host, info->pid, info->id);
    if (server_key == NULL || runs_key == NULL) {
        return qn_error_nomem(err);
    }
    add_removal(pipeline, "ZREM", "asynq:servers", server_key);
    add_removal(pipeline, "ZREM", "asynq:workers", runs_key);
    add_removal(pipeline, "DEL", server_key, runs_key);
    for (size_t i = 0; i < record->queue_count; i++) {
        qn_pipeline_script(pipeline, &qn_lua_deregister, 1);
        qn_keys_add_prefix(pipeline, record->queues[i]);
        qn_pipeline_text(pipeline, info->id);
    }
    return QUERN_OK;
}

quern_status qn_redis_deregister(struct qn_broker *broker, const char *worker_id, quern_error *err)
{
    struct qn_worker_record record;
    const struct qn_reply *reply;
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_KEEPER, QN_PIPELINE_WRITES);
    add_removal(&pipeline, "HGET", QN_WORKERS_KEY, worker_id);
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(&pipeline, 0, &reply, err);
    }
    if (status == QUERN_OK && reply->type == QN_REPLY_TEXT) {
        status = qn_worker_record_read(pipeline.arena, worker_id, reply, &record, err);
        if (status == QUERN_OK) {
            status = build_end(&pipeline, &record, err);
        }
        if (status == QUERN_OK || status == QUERN_E_CORRUPT) {
            add_removal(&pipeline, "HDEL", QN_WORKERS_KEY, worker_id);
            status = run_all(&pipeline, 1, err);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}
