/* SPDX-License-Identifier: MIT */
#include "bare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/redis/run/enqueue_lua.h"
#include "broker/redis/run/lease_lua.h"
#include "broker/redis/run/outcome_lua.h"

enum { TOKEN_SIZE = 32, TOKEN_DIGITS = 19 };
#define ID_PACKED (2 + ID_SIZE)              /* in the reply of lease: a mark, the size, the id */
#define TOKEN_PACKED (0xa0 + TOKEN_DIGITS)   /* the mark of a text of that size */
#define BENCH_WALL_MS INT64_C(1800000000000) /* any moment will do */

void bare_tasks_init(struct bare_tasks *tasks)
{
    char payload[100];
    quern_error error;
    memset(tasks, 0, sizeof *tasks);
    memset(payload, 'x', sizeof payload);
    qn_id_source_init(&tasks->source);
    qn_id_next(&tasks->source, BENCH_WALL_MS, tasks->ids[0]);
    const struct qn_asynq_task task = {.type = "bench",
                                       .payload = payload,
                                       .payload_size = sizeof payload,
                                       .id = tasks->ids[0],
                                       .queue = "ceiling",
                                       .retry_max = 25,
                                       .timeout_ms = 1800000};
    if (qn_asynq_task_encode(&tasks->arena, &task, &tasks->message, &error) != QUERN_OK) {
        die(error.text);
    }
    const char *found = memmem(tasks->message.data, tasks->message.size, tasks->ids[0], ID_SIZE);
    tasks->id_at = (size_t)(found - (const char *)tasks->message.data);
}

void bare_tasks_finish(struct bare_tasks *tasks)
{
    qn_arena_finish(&tasks->arena);
}

void bare_tasks_next(struct bare_tasks *tasks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_id_next(&tasks->source, BENCH_WALL_MS, tasks->ids[i]);
        memcpy(tasks->messages[i], tasks->message.data, tasks->message.size);
        memcpy(tasks->messages[i] + tasks->id_at, tasks->ids[i], ID_SIZE);
    }
}

void bare_tasks_put(const struct bare_tasks *tasks, struct caller *caller, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        caller_put_bytes(caller, tasks->ids[i], ID_SIZE);
    }
    for (size_t i = 0; i < count; i++) {
        caller_put_bytes(caller, tasks->messages[i], tasks->message.size);
    }
}

void bare_open(struct caller *caller, const char *socket)
{
    static const struct qn_script *const scripts[] = {&qn_lua_enqueue, &qn_lua_lease,
                                                      &qn_lua_outcome};
    char sha1[SHA1_DIGITS + 1];
    caller_open(caller, socket);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        caller_load(caller, scripts[i]->text, scripts[i]->size, sha1);
    }
}

/* Each request has a number of its own, as in a session of quern. */
static void begin(struct caller *caller, const struct qn_script *script, const char *session)
{
    (void)snprintf(caller->sequence_text, sizeof caller->sequence_text, "%" PRIu64,
                   ++caller->sequence);
    caller_begin(caller, script->sha1);
    caller_put(caller, session);
    caller_put(caller, caller->sequence_text);
}

void bare_enqueue(struct caller *caller, const struct bare_tasks *tasks, size_t count)
{
    begin(caller, &qn_lua_enqueue, "ceiling-client");
    caller_put(caller, "");
    bare_tasks_put(tasks, caller, count);
    caller_send(caller);
}

void bare_lease(struct caller *caller, const char *room)
{
    const char *const words[] = {"0", room, "30000", room, "1", "123", "ceiling-worker"};
    begin(caller, &qn_lua_lease, "ceiling-worker");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        caller_put(caller, words[i]);
    }
    caller_send(caller);
}

/* The ids in the reply of lease, ID_PACKED bytes each, and the first token; how many there are. */
static size_t runs_of(const redisReply *reply, const char **ret_ids, uint64_t *ret_token)
{
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY) {
        return 0;
    }
    const redisReply *packed = reply->element[1];
    size_t count = reply->elements - 3;
    char token[TOKEN_SIZE] = "";
    const char *mark = memchr(packed->str, TOKEN_PACKED, (size_t)packed->len);
    memcpy(token, mark + 1, TOKEN_DIGITS);
    *ret_token = strtoull(token, NULL, 10);
    *ret_ids = packed->str + packed->len - count * ID_PACKED;
    return count;
}

size_t bare_done(struct caller *caller, const redisReply *leased)
{
    char tokens[BATCH][TOKEN_SIZE];
    char count_text[24];
    const char *ids = NULL;
    uint64_t token = 0;
    size_t count = runs_of(leased, &ids, &token);
    if (count == 0) {
        return 0;
    }
    begin(caller, &qn_lua_outcome, "ceiling-worker");
    (void)snprintf(count_text, sizeof count_text, "%zu", count);
    caller_put(caller, "h:");
    caller_put(caller, count_text);
    caller_put(caller, "0");
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(tokens[i], TOKEN_SIZE, "%" PRIu64, token + 1000 * i);
        caller_put_bytes(caller, ids + i * ID_PACKED + 2, ID_SIZE);
        caller_put(caller, tokens[i]);
    }
    caller_put(caller, "");
    caller_send(caller);
    return count;
}
