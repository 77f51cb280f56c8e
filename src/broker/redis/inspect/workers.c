/* SPDX-License-Identifier: MIT */
/* workers.c - the workers with recent heartbeats, and their runs.
 *
 * Ours are in asynq:quern:workers. A record stays behind when its worker is killed; it is not shown
 * once its process is known to be gone, and if that is unknown (another kernel or pid namespace),
 * its heartbeat decides. Their runs are read from the tasks themselves, so they are not as old as
 * the heartbeat. Go's servers are in asynq:servers, with the runs that they reported.
 *
 * All is read at slightly different moments; unreadable records are not shown. One of the three
 * keys that is damaged hides nothing of the others, and is reported at the end. Workers and runs
 * are sorted once and found by binary search, since both may be thousands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/owner.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"
#include "broker/redis/schema/worker_record.h"
#include "broker/worker_status.h"
#include "message/asynq/asynq.h"
#include "task/task.h"

#include "base/memory/vec.h"
#include "broker/redis/inspect/runs_lua.h"

#define SERVERS_MAX 4096
#define PAGE_SIZE 256
#define RUNS_MAX 100000 /* of one queue: more than any fleet runs at a time */
#define ITEMS_PER_RUN 5

struct run {
    const char *worker_id;
    quern_worker_run_info info;
};

struct listing {
    struct qn_redis *self;
    struct qn_pipeline pipeline;
    int64_t now_ms;
    const struct qn_reply *records; /* of asynq:quern:workers */
    const struct qn_reply *servers; /* of asynq:servers, with scores */
    const struct qn_reply *queues;
    struct run *runs;             /* of our workers, in order of worker and start */
    quern_worker_run_info *infos; /* of the runs, in the same order */
    size_t run_count;
    size_t run_capacity;
    size_t run_bytes; /* of the pages that they came in */
    const char **ids; /* of the records, in order */
    size_t id_count;
    bool (*on_worker)(const quern_worker_info *worker, void *user);
    void *user;
    bool stopped;        /* on_worker has enough */
    quern_status damage; /* of the first key that cannot be read */
    quern_error damage_error;
};

static quern_status note_damage(struct listing *listing, const quern_error *error)
{
    if (listing->damage == QUERN_OK) {
        listing->damage = QUERN_E_CORRUPT;
        listing->damage_error = *error;
    }
    return QUERN_OK;
}

static quern_status ask_lists(struct listing *listing, quern_error *err)
{
    struct qn_pipeline *pipeline = &listing->pipeline;
    static const struct qn_reply none = {.type = QN_REPLY_ARRAY, .data = ""};
    const struct qn_reply *replies[4];
    qn_pipeline_command(pipeline, "TIME");
    qn_pipeline_command(pipeline, "HGETALL");
    qn_pipeline_text(pipeline, QN_KEY_RECORDS);
    qn_pipeline_command(pipeline, "ZRANGE");
    qn_pipeline_text(pipeline, QN_KEY_SERVERS);
    qn_pipeline_int(pipeline, 0);
    qn_pipeline_int(pipeline, SERVERS_MAX - 1);
    qn_pipeline_text(pipeline, "REV");
    qn_pipeline_text(pipeline, "WITHSCORES");
    qn_pipeline_command(pipeline, "SMEMBERS");
    qn_pipeline_text(pipeline, QN_KEY_QUEUES);
    quern_status status = qn_pipeline_run(pipeline, err);
    for (size_t i = 1; status == QUERN_OK && i < 4; i++) {
        quern_error error = {0};
        status = qn_pipeline_reply(pipeline, i, &replies[i], &error);
        if (status == QUERN_E_CORRUPT) {
            replies[i] = &none;
            status = note_damage(listing, &error);
        } else if (status != QUERN_OK && err != NULL) {
            *err = error;
        }
    }
    if (status == QUERN_OK) {
        listing->now_ms = qn_redis_inspect_time_ms(listing->self, pipeline, 0);
        listing->records = replies[1];
        listing->servers = replies[2];
        listing->queues = replies[3];
    }
    return status;
}

/* --- The runs of our workers ----------------------------------------------------------- */

static quern_status grow_runs(struct listing *listing, quern_error *err)
{
    struct run *runs = qn_vec_grow_in(listing->pipeline.arena, listing->runs, listing->run_count,
                                      &listing->run_capacity, sizeof *runs);
    if (runs == NULL) {
        return qn_error_nomem(err);
    }
    listing->runs = runs;
    return QUERN_OK;
}

/* reply: runs.lua's; first: of the run's items. */
static quern_status keep_run(struct listing *listing, const char *queue,
                             const struct qn_reply *reply, size_t first, quern_error *err)
{
    struct qn_asynq_task message;
    struct qn_task task;
    struct qn_task_fields_opts opts;
    const char *id = qn_reply_text(qn_reply_at(reply, first));
    const char *given = qn_reply_text(qn_reply_at(reply, first + 3));
    const struct qn_reply *bytes = qn_reply_at(reply, first + 4);
    qn_task_fields_opts_read(given, strlen(given), &opts);
    const struct qn_stored_task stored = {.queue = queue,
                                          .id = id,
                                          .message = {bytes->data, bytes->size},
                                          .opts = given[0] != '\0' ? &opts : NULL};
    quern_status status =
        qn_task_fields_decode(listing->pipeline.arena, &stored, &message, &task, NULL);
    if (status != QUERN_OK) {
        return status == QUERN_E_NOMEM ? qn_error_nomem(err) : QUERN_OK;
    }
    status = grow_runs(listing, err);
    if (status == QUERN_OK) {
        int64_t started_at_ms = qn_reply_moment_ms(qn_reply_at(reply, first + 2));
        listing->runs[listing->run_count++] =
            (struct run){.worker_id = qn_reply_text(qn_reply_at(reply, first + 1)),
                         .info = {.id = id,
                                  .type = task.type,
                                  .queue = queue,
                                  .started_at_ms = started_at_ms,
                                  .deadline_at_ms = qn_task_run_deadline_ms(&task, started_at_ms)}};
    }
    return status;
}

static quern_status read_page(struct listing *listing, const char *queue, size_t first,
                              size_t *ret_count, quern_error *err)
{
    struct qn_pipeline *pipeline = &listing->pipeline;
    const struct qn_reply *reply;
    size_t command = pipeline->command_count;
    qn_pipeline_script(pipeline, &qn_lua_runs, 1);
    qn_pipeline_limit(pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(pipeline, queue);
    qn_pipeline_uint(pipeline, first);
    qn_pipeline_uint(pipeline, PAGE_SIZE);
    quern_status status = qn_pipeline_run(pipeline, err);
    if (status == QUERN_OK && qn_redis_inspect_forbidden(pipeline, command)) {
        *ret_count = 0; /* a user that may read but run no script sees workers without their runs */
        return QUERN_OK;
    }
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(pipeline, command, &reply, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    *ret_count = (size_t)qn_reply_uint(qn_reply_at(reply, 0));
    for (size_t i = 0; i < reply->count; i++) {
        listing->run_bytes += qn_reply_at(reply, i)->size;
    }
    bool fits = reply->count <= 1 + ITEMS_PER_RUN * PAGE_SIZE &&
                listing->run_bytes <= QN_REPLY_TASKS_MAX; /* all pages live until the end */
    status = qn_pipeline_expect(pipeline, fits, "runs", err);
    for (size_t i = 1; status == QUERN_OK && i + ITEMS_PER_RUN <= reply->count;
         i += ITEMS_PER_RUN) {
        status = keep_run(listing, queue, reply, i, err);
    }
    return status;
}

static int compare_runs(const void *left, const void *right)
{
    const struct run *a = left;
    const struct run *b = right;
    int order = strcmp(a->worker_id, b->worker_id);
    if (order == 0) {
        order = (a->info.started_at_ms > b->info.started_at_ms) -
                (a->info.started_at_ms < b->info.started_at_ms);
    }
    if (order == 0) {
        order = strcmp(a->info.id, b->info.id);
    }
    return order != 0 ? order : strcmp(a->info.queue, b->info.queue);
}

/* A run that moved to the next page while we looked was read twice. */
static quern_status sort_runs(struct listing *listing, quern_error *err)
{
    size_t count = 0;
    struct run *runs = listing->runs;
    if (listing->run_count == 0) {
        return QUERN_OK;
    }
    listing->infos =
        qn_arena_alloc(listing->pipeline.arena, listing->run_count * sizeof listing->infos[0]);
    if (listing->infos == NULL) {
        return qn_error_nomem(err);
    }
    qsort(runs, listing->run_count, sizeof runs[0], compare_runs);
    for (size_t i = 0; i < listing->run_count; i++) {
        if (count == 0 || compare_runs(&runs[count - 1], &runs[i]) != 0) {
            runs[count] = runs[i];
            listing->infos[count++] = runs[i].info;
        }
    }
    listing->run_count = count;
    return QUERN_OK;
}

static quern_status read_runs(struct listing *listing, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < listing->queues->count; i++) {
        const char *queue = qn_reply_text(qn_reply_at(listing->queues, i));
        size_t count = PAGE_SIZE;
        for (size_t first = 0; status == QUERN_OK && count == PAGE_SIZE && first < RUNS_MAX;
             first += PAGE_SIZE) {
            status = read_page(listing, queue, first, &count, err);
        }
        if (status == QUERN_E_CORRUPT) {
            status = QUERN_OK; /* a damaged queue hides no other */
        }
    }
    return status == QUERN_OK ? sort_runs(listing, err) : status;
}

/* --- Our workers ---------------------------------------------------------------------- */

/* Where the runs of this worker begin. */
static size_t first_run(const struct listing *listing, const char *worker_id)
{
    size_t low = 0;
    size_t high = listing->run_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(listing->runs[middle].worker_id, worker_id) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void report_worker(struct listing *listing, quern_worker_info *info)
{
    size_t first = first_run(listing, info->id);
    size_t end = first;
    while (end < listing->run_count && strcmp(listing->runs[end].worker_id, info->id) == 0) {
        end++;
    }
    info->runs = end > first ? &listing->infos[first] : NULL;
    info->run_count = end - first;
    listing->stopped = !listing->on_worker(info, listing->user);
}

static quern_status report_ours(struct listing *listing, quern_error *err)
{
    quern_status status = QUERN_OK;
    const struct qn_reply *records = listing->records;
    for (size_t i = 0; status == QUERN_OK && !listing->stopped && i + 1 < records->count; i += 2) {
        struct qn_worker_record record;
        status =
            qn_worker_record_read(listing->pipeline.arena, qn_reply_text(qn_reply_at(records, i)),
                                  qn_reply_at(records, i + 1), &record, err);
        if (status == QUERN_E_CORRUPT) {
            status = QUERN_OK;
        } else if (status == QUERN_OK &&
                   qn_owner_lives(record.owner, record.info.heartbeat_at_ms, listing->now_ms)) {
            report_worker(listing, &record.info);
        }
    }
    return status;
}

/* --- Go's servers --------------------------------------------------------------------- */

static int compare_ids(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static quern_status sort_ids(struct listing *listing, quern_error *err)
{
    size_t count = listing->records->count / 2;
    listing->ids = qn_arena_alloc(listing->pipeline.arena, (count + 1) * sizeof listing->ids[0]);
    if (listing->ids == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < count; i++) {
        listing->ids[i] = qn_reply_text(qn_reply_at(listing->records, 2 * i));
    }
    listing->id_count = count;
    qsort(listing->ids, count, sizeof listing->ids[0], compare_ids);
    return QUERN_OK;
}

static bool is_ours(const struct listing *listing, const char *id)
{
    return bsearch(&id, listing->ids, listing->id_count, sizeof id, compare_ids) != NULL;
}

static int compare_queues(const void *left, const void *right)
{
    const struct qn_asynq_queue *a = left;
    const struct qn_asynq_queue *b = right;
    int order = (a->weight < b->weight) - (a->weight > b->weight);
    return order != 0 ? order : strcmp(a->name, b->name);
}

/* "critical=6 default=3"; NULL when memory is out. */
static const char *write_queues(struct qn_arena *arena, const struct qn_asynq_server *server)
{
    size_t size = 1;
    for (size_t i = 0; i < server->queue_count; i++) {
        size += strlen(server->queues[i].name) + sizeof " =-2147483648";
    }
    struct qn_asynq_queue *queues =
        qn_arena_copy(arena, server->queues, server->queue_count * sizeof *queues);
    char *text = qn_arena_alloc(arena, size);
    if (text == NULL || (queues == NULL && server->queue_count > 0)) {
        return NULL;
    }
    if (server->queue_count > 0) {
        qsort(queues, server->queue_count, sizeof *queues, compare_queues);
    }
    char *at = text;
    *at = '\0';
    for (size_t i = 0; i < server->queue_count; i++) {
        at += snprintf(at, size - (size_t)(at - text), "%s%s=%d", i == 0 ? "" : " ", queues[i].name,
                       (int)queues[i].weight);
    }
    return text;
}

static quern_status read_go_runs(struct qn_arena *arena, const struct qn_reply *values,
                                 quern_worker_info *info, quern_error *err)
{
    quern_worker_run_info *runs = qn_arena_alloc(arena, (values->count + 1) * sizeof *runs);
    if (runs == NULL) {
        return qn_error_nomem(err);
    }
    info->runs = runs;
    quern_status status = QUERN_OK;
    for (size_t i = 0; status != QUERN_E_NOMEM && i < values->count; i++) {
        struct qn_asynq_run run;
        const struct qn_reply *value = qn_reply_at(values, i);
        status = qn_asynq_run_decode(arena, value->data, value->size, &run, err);
        if (status == QUERN_OK) {
            runs[info->run_count++] = (quern_worker_run_info){
                .id = run.task_id,
                .type = run.task_type,
                .queue = run.queue,
                .started_at_ms = qn_moment_ms_of(qn_asynq_time_ms(run.started_at)),
                .deadline_at_ms = qn_moment_ms_of(qn_asynq_time_ms(run.deadline_at))};
        }
    }
    return status == QUERN_E_NOMEM ? status : QUERN_OK;
}

static quern_status report_server(struct listing *listing, const struct qn_reply *text,
                                  const struct qn_reply *runs, int64_t expires_s, quern_error *err)
{
    struct qn_arena *arena = listing->pipeline.arena;
    struct qn_asynq_server server;
    if (text->type != QN_REPLY_TEXT) {
        return QUERN_OK;
    }
    quern_status status = qn_asynq_server_decode(arena, text->data, text->size, &server, err);
    if (status != QUERN_OK || is_ours(listing, server.id)) {
        return status == QUERN_E_NOMEM ? status : QUERN_OK;
    }
    quern_worker_info info = {
        .id = server.id,
        .host = server.host,
        .status = strcmp(server.status, "stopped") == 0 ? QUERN_WORKER_QUIET
                                                        : qn_worker_status_read(server.status),
        .queues = write_queues(arena, &server),
        .pid = server.pid,
        .started_at_ms = qn_moment_ms_of(qn_asynq_time_ms(server.started_at)),
        .heartbeat_at_ms = qn_moment_ms_of((expires_s - QN_SERVER_TTL_S) * 1000),
        .concurrency = server.concurrency > 0 ? (uint32_t)server.concurrency : 0,
        .strict_priority = server.strict,
    };
    status = info.queues == NULL ? qn_error_nomem(err) : read_go_runs(arena, runs, &info, err);
    if (status == QUERN_OK) {
        listing->stopped = !listing->on_worker(&info, listing->user);
    }
    return status;
}

/* A server's key and that of its runs differ in one word. */
static const char *runs_key(struct qn_arena *arena, const char *server_key)
{
    const char *tag = strchr(server_key, '{');
    return tag == NULL ? "" : qn_arena_printf(arena, QN_KEY_WORKERS ":%s", tag);
}

static quern_status report_servers(struct listing *listing, quern_error *err)
{
    struct qn_pipeline *pipeline = &listing->pipeline;
    const struct qn_reply *servers = listing->servers;
    size_t first = pipeline->command_count;
    for (size_t i = 0; i + 1 < servers->count; i += 2) {
        const char *key = qn_reply_text(qn_reply_at(servers, i));
        const char *runs = runs_key(pipeline->arena, key);
        qn_pipeline_command(pipeline, "GET");
        qn_pipeline_text(pipeline, key);
        qn_pipeline_command(pipeline, "HVALS");
        qn_pipeline_limit(pipeline, QN_REPLY_TASKS_MAX); /* Go keeps payloads there */
        qn_pipeline_text(pipeline, runs == NULL ? "" : runs);
    }
    quern_status status = servers->count > 1 ? qn_pipeline_run(pipeline, err) : QUERN_OK;
    if (status == QUERN_OK) {
        status = sort_ids(listing, err);
    }
    for (size_t i = 0; status == QUERN_OK && !listing->stopped && i + 1 < servers->count; i += 2) {
        const struct qn_reply *text;
        const struct qn_reply *runs;
        int64_t expires_s = qn_reply_seconds(qn_reply_at(servers, i + 1));
        if (expires_s * 1000 >= listing->now_ms / 1000 * 1000 &&
            qn_pipeline_reply(pipeline, first + i, &text, NULL) == QUERN_OK &&
            qn_pipeline_reply(pipeline, first + i + 1, &runs, NULL) == QUERN_OK) {
            status = report_server(listing, text, runs, expires_s, err);
        }
    }
    return status;
}

quern_status qn_redis_workers(struct qn_broker *broker,
                              bool (*on_worker)(const quern_worker_info *worker, void *user),
                              void *user, quern_error *err)
{
    struct listing listing = {.self = qn_redis_of(broker), .on_worker = on_worker, .user = user};
    qn_redis_begin(&listing.pipeline, listing.self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    quern_status status = ask_lists(&listing, err);
    if (status == QUERN_OK) {
        status = read_runs(&listing, err);
    }
    if (status == QUERN_OK) {
        status = report_ours(&listing, err);
    }
    if (status == QUERN_OK && !listing.stopped) {
        status = report_servers(&listing, err);
    }
    qn_pipeline_end(&listing.pipeline);
    if (status == QUERN_OK && listing.damage != QUERN_OK) {
        status = listing.damage;
        if (err != NULL) {
            *err = listing.damage_error;
        }
    }
    return status;
}
