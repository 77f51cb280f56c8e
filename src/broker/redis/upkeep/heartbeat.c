/* SPDX-License-Identifier: MIT */
/* heartbeat.c - the worker's heartbeat, and its end.
 *
 * A worker reports itself in two ways. As asynq does, for Go's inspector: a ServerInfo, and a
 * WorkerInfo for each of its runs, which live for ten seconds. And by records of our own
 * (worker_record.h): one for our listing, and one in each of its queues, which shows to recovery
 * there that this worker lives. All parts are one call of heartbeat.lua; each is complete on its
 * own, and a heartbeat that was written in part is completed by the next one. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/worker_record.h"
#include "message/asynq/asynq.h"

#include "broker/redis/upkeep/deregister_lua.h"
#include "broker/redis/upkeep/heartbeat_lua.h"

/* Of a run, for display; and of all of them, so that heartbeats stay bounded. A payload may be
 * meant to be read (JSON, ...), so it is shown completely or not at all. */
#define PAYLOAD_SHOWN_MAX ((size_t)64 << 10)
#define PAYLOADS_SHOWN_MAX ((size_t)8 << 20)

/* --- The records for Go ---------------------------------------------------------------- */

/* asynq knows of servers that fetch and such that do not. */
static const char *asynq_status(const char *status)
{
    bool fetches = strcmp(status, "active") == 0 || strcmp(status, "braked") == 0;
    return fetches ? "active" : "stopped";
}

static quern_status encode_server(struct qn_arena *arena, const struct qn_heartbeat *heartbeat,
                                  struct qn_bytes *ret_bytes, quern_error *err)
{
    struct qn_asynq_queue *queues =
        qn_arena_alloc(arena, (heartbeat->queue_count + 1) * sizeof *queues);
    if (queues == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < heartbeat->queue_count; i++) {
        queues[i] = (struct qn_asynq_queue){.name = heartbeat->queue_shares[i].name,
                                            .weight = (int32_t)heartbeat->queue_shares[i].weight};
    }
    const struct qn_asynq_server server = {
        .host = heartbeat->host,
        .pid = (int32_t)heartbeat->pid,
        .id = heartbeat->worker_id,
        .concurrency = (int32_t)heartbeat->concurrency,
        .queues = queues,
        .queue_count = heartbeat->queue_count,
        .strict = heartbeat->strict,
        .status = asynq_status(heartbeat->status),
        .started_at = qn_asynq_time_of_ms(heartbeat->started_at_ms),
        .run_count = (int32_t)heartbeat->run_count,
    };
    return qn_asynq_server_encode(arena, &server, ret_bytes, err);
}

/* One of its runs, as Go shows it. */
struct shown_run {
    const char *task_id;
    struct qn_bytes info;
};

static quern_status encode_run(struct qn_arena *arena, const struct qn_heartbeat *heartbeat,
                               const struct qn_heartbeat_run *run, struct qn_bytes *ret_bytes,
                               quern_error *err)
{
    bool shows = run->payload_size <= PAYLOAD_SHOWN_MAX;
    const struct qn_asynq_run message = {
        .host = heartbeat->host,
        .pid = (int32_t)heartbeat->pid,
        .server_id = heartbeat->worker_id,
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
static quern_status encode_runs(struct qn_arena *arena, const struct qn_heartbeat *heartbeat,
                                struct shown_run **ret_runs, size_t *ret_count, quern_error *err)
{
    struct shown_run *runs = qn_arena_alloc(arena, (heartbeat->run_count + 1) * sizeof *runs);
    size_t count = 0;
    size_t left = PAYLOADS_SHOWN_MAX;
    quern_status status = runs == NULL ? qn_error_nomem(err) : QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < heartbeat->run_count; i++) {
        struct qn_heartbeat_run run = heartbeat->runs[i];
        run.payload_size = run.payload_size <= left ? run.payload_size : SIZE_MAX;
        left -= run.payload_size <= PAYLOAD_SHOWN_MAX ? run.payload_size : 0;
        status = encode_run(arena, heartbeat, &run, &runs[count].info, err);
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

/* --- All of it ------------------------------------------------------------------------ */

/* The parts of the heartbeat that are converted first; live in the arena of the pipeline. */
struct parts {
    const struct qn_heartbeat *heartbeat;
    const char *server_key;
    const char *runs_key;
    const char *record;
    const char *holder;
    struct qn_bytes server;
    struct shown_run *runs;
    size_t run_count;
};

static quern_status prepare(struct qn_arena *arena, const struct qn_heartbeat *heartbeat,
                            struct parts *ret_parts, quern_error *err)
{
    const quern_worker_info info = {
        .host = heartbeat->host, .pid = heartbeat->pid, .id = heartbeat->worker_id};
    struct parts parts = {
        .heartbeat = heartbeat,
        .server_key = qn_worker_record_go_key(arena, QN_KEY_SERVERS, &info),
        .runs_key = qn_worker_record_go_key(arena, QN_KEY_WORKERS, &info),
        .record = qn_worker_record_write(arena, heartbeat),
        .holder = qn_worker_record_write_holder(arena, heartbeat),
    };
    if (parts.server_key == NULL || parts.runs_key == NULL || parts.record == NULL ||
        parts.holder == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = encode_server(arena, heartbeat, &parts.server, err);
    if (status == QUERN_OK) {
        status = encode_runs(arena, heartbeat, &parts.runs, &parts.run_count, err);
    }
    *ret_parts = parts;
    return status;
}

/* In the order of the parts. */
static void put_keys(struct qn_pipeline *pipeline, const struct parts *parts)
{
    const struct qn_heartbeat *heartbeat = parts->heartbeat;
    for (size_t i = 0; i < heartbeat->queue_count; i++) {
        qn_keys_add(pipeline, heartbeat->queue_shares[i].name, QN_KEY_HOLDERS);
    }
    if (heartbeat->queue_count > 0) {
        qn_pipeline_text(pipeline, QN_KEY_QUEUES);
    }
    qn_pipeline_text(pipeline, QN_KEY_RECORDS);
    qn_pipeline_text(pipeline, QN_KEY_SERVERS);
    qn_pipeline_text(pipeline, QN_KEY_WORKERS);
    qn_pipeline_text(pipeline, parts->server_key);
    qn_pipeline_text(pipeline, parts->runs_key);
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

static void put_names(struct qn_pipeline *pipeline, const struct qn_heartbeat *heartbeat)
{
    begin_part(pipeline, "queues", heartbeat->queue_count);
    for (size_t i = 0; i < heartbeat->queue_count; i++) {
        qn_pipeline_text(pipeline, heartbeat->queue_shares[i].name);
    }
}

static void put_queues(struct qn_pipeline *pipeline, const struct parts *parts)
{
    const struct qn_heartbeat *heartbeat = parts->heartbeat;
    for (size_t i = 0; i < heartbeat->queue_count; i++) {
        put_record(pipeline, "holder", heartbeat->worker_id, parts->holder);
    }
    if (heartbeat->queue_count > 0) {
        put_names(pipeline, heartbeat);
    }
}

static void put_listed(struct qn_pipeline *pipeline, const char *member)
{
    begin_part(pipeline, "listed", 2);
    qn_pipeline_text(pipeline, member);
    qn_pipeline_int(pipeline, QN_SERVER_TTL_S);
}

static void put_server(struct qn_pipeline *pipeline, const struct parts *parts)
{
    begin_part(pipeline, "server", 2);
    qn_pipeline_int(pipeline, QN_SERVER_TTL_S);
    qn_pipeline_bytes(pipeline, parts->server.data, parts->server.size);
}

static void put_runs(struct qn_pipeline *pipeline, const struct parts *parts)
{
    begin_part(pipeline, "runs", 1 + 2 * parts->run_count);
    qn_pipeline_int(pipeline, QN_SERVER_TTL_S);
    for (size_t i = 0; i < parts->run_count; i++) {
        qn_pipeline_text(pipeline, parts->runs[i].task_id);
        qn_pipeline_bytes(pipeline, parts->runs[i].info.data, parts->runs[i].info.size);
    }
}

/* On a cluster the keys are at different nodes: a call for each of them. */
static void begin_call(struct qn_pipeline *pipeline, const char *key)
{
    qn_pipeline_script(pipeline, &qn_lua_heartbeat, 1);
    qn_pipeline_hasty(pipeline); /* a node that is down holds up no other part */
    qn_pipeline_text(pipeline, key);
}

static void put_spread(struct qn_pipeline *pipeline, const struct parts *parts)
{
    const struct qn_heartbeat *heartbeat = parts->heartbeat;
    for (size_t i = 0; i < heartbeat->queue_count; i++) {
        begin_call(pipeline,
                   qn_arena_printf(pipeline->arena, QN_KEY_ROOT "%s" QN_KEY_NAME QN_KEY_HOLDERS,
                                   heartbeat->queue_shares[i].name));
        put_record(pipeline, "holder", heartbeat->worker_id, parts->holder);
    }
    if (heartbeat->queue_count > 0) {
        begin_call(pipeline, QN_KEY_QUEUES);
        put_names(pipeline, heartbeat);
    }
    begin_call(pipeline, QN_KEY_RECORDS);
    put_record(pipeline, "record", heartbeat->worker_id, parts->record);
    begin_call(pipeline, QN_KEY_SERVERS);
    put_listed(pipeline, parts->server_key);
    begin_call(pipeline, QN_KEY_WORKERS);
    put_listed(pipeline, parts->runs_key);
    begin_call(pipeline, parts->server_key);
    put_server(pipeline, parts);
    begin_call(pipeline, parts->runs_key);
    put_runs(pipeline, parts);
}

static quern_status build_heartbeat(struct qn_pipeline *pipeline,
                                    const struct qn_heartbeat *heartbeat, quern_error *err)
{
    struct parts parts = {0};
    quern_status status = prepare(pipeline->arena, heartbeat, &parts, err);
    if (status == QUERN_OK && pipeline->channel->cluster != NULL) {
        put_spread(pipeline, &parts);
    } else if (status == QUERN_OK) {
        const size_t others = 5 + (heartbeat->queue_count > 0 ? 1 : 0);
        qn_pipeline_script(pipeline, &qn_lua_heartbeat, heartbeat->queue_count + others);
        put_keys(pipeline, &parts);
        put_queues(pipeline, &parts);
        put_record(pipeline, "record", heartbeat->worker_id, parts.record);
        put_listed(pipeline, parts.server_key);
        put_listed(pipeline, parts.runs_key);
        put_server(pipeline, &parts);
        put_runs(pipeline, &parts);
    }
    return status;
}

/* Sends it, and checks every reply. */
static quern_status run_and_check(struct qn_pipeline *pipeline, size_t first, quern_error *err)
{
    quern_status status = qn_pipeline_run(pipeline, err);
    for (size_t i = first; status == QUERN_OK && i < pipeline->command_count; i++) {
        const struct qn_reply *reply;
        status = qn_pipeline_reply(pipeline, i, &reply, err);
    }
    return status;
}

/* A cancellation may come before the first arm. */
static void note_served(struct qn_redis *self, const struct qn_heartbeat *heartbeat)
{
    const char *names[QN_QUEUES_MAX];
    QN_ASSERT(heartbeat->queue_count <= QN_QUEUES_MAX);
    for (size_t i = 0; i < heartbeat->queue_count; i++) {
        names[i] = heartbeat->queue_shares[i].name;
    }
    qn_redis_served_note_queues(&self->served, (struct qn_names){names, heartbeat->queue_count});
    qn_redis_served_note_host(&self->served, heartbeat->host);
}

quern_status qn_redis_heartbeat(struct qn_broker *broker, const struct qn_heartbeat *heartbeat,
                                quern_error *err)
{
    struct qn_pipeline pipeline;
    note_served(qn_redis_of(broker), heartbeat);
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_KEEPER, QN_PIPELINE_WRITES);
    quern_status status = build_heartbeat(&pipeline, heartbeat, err);
    if (status == QUERN_OK) {
        status = run_and_check(&pipeline, 0, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* --- The end -------------------------------------------------------------------------- */

/* No part waits for a node that is silent: its records end by themselves. */
static void add_removal(struct qn_pipeline *pipeline, const char *command, const char *key,
                        const char *member)
{
    qn_pipeline_command(pipeline, command);
    qn_pipeline_hasty(pipeline);
    qn_pipeline_text(pipeline, key);
    qn_pipeline_text(pipeline, member);
}

static void add_leaving(struct qn_pipeline *pipeline, const char *queue, const char *worker_id)
{
    qn_pipeline_script(pipeline, &qn_lua_deregister, 1);
    qn_pipeline_hasty(pipeline);
    qn_keys_add_prefix(pipeline, queue);
    qn_pipeline_text(pipeline, worker_id);
}

/* Removals are allowed without memory, and the script begins with one. */
static quern_status build_end(struct qn_pipeline *pipeline, const struct qn_worker_record *record,
                              quern_error *err)
{
    const quern_worker_info *info = &record->info;
    const char *server_key = qn_worker_record_go_key(pipeline->arena, QN_KEY_SERVERS, info);
    const char *runs_key = qn_worker_record_go_key(pipeline->arena, QN_KEY_WORKERS, info);
    if (server_key == NULL || runs_key == NULL) {
        return qn_error_nomem(err);
    }
    add_removal(pipeline, "ZREM", QN_KEY_SERVERS, server_key);
    add_removal(pipeline, "ZREM", QN_KEY_WORKERS, runs_key);
    add_removal(pipeline, "DEL", server_key, runs_key);
    for (size_t i = 0; i < record->queue_count; i++) {
        add_leaving(pipeline, record->queues[i], info->id);
    }
    return QUERN_OK;
}

/* Its record is at a silent node: it leaves the queues that it served last. */
static quern_status leave_served(struct qn_redis *self, struct qn_pipeline *pipeline,
                                 const char *worker_id, quern_error *err)
{
    struct qn_names queues = qn_redis_served_queues(&self->served, pipeline->arena);
    for (size_t i = 0; i < queues.count; i++) {
        add_leaving(pipeline, queues.items[i], worker_id);
    }
    return run_and_check(pipeline, 0, err);
}

static quern_status leave_all(struct qn_redis *self, struct qn_pipeline *pipeline,
                              const char *worker_id, quern_error *err)
{
    struct qn_worker_record record;
    const struct qn_reply *reply;
    add_removal(pipeline, "HGET", QN_KEY_RECORDS, worker_id);
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status != QUERN_OK) {
        bool absent = pipeline->status == QUERN_OK && pipeline->commands[0].absent;
        return absent ? leave_served(self, pipeline, worker_id, err) : status;
    }
    if (reply->type != QN_REPLY_TEXT) {
        return QUERN_OK;
    }
    status = qn_worker_record_read(pipeline->arena, worker_id, reply, &record, err);
    if (status == QUERN_OK) {
        status = build_end(pipeline, &record, err);
    }
    if (status == QUERN_OK || status == QUERN_E_CORRUPT) {
        add_removal(pipeline, "HDEL", QN_KEY_RECORDS, worker_id);
        status = run_and_check(pipeline, 1, err);
    }
    return status;
}

quern_status qn_redis_deregister(struct qn_broker *broker, const char *worker_id, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_KEEPER, QN_PIPELINE_WRITES);
    quern_status status = leave_all(self, &pipeline, worker_id, err);
    qn_pipeline_end(&pipeline);
    return status;
}
