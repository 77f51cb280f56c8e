/* SPDX-License-Identifier: MIT */
/* ceiling.c - how fast our scripts could be called: a bare loop on one connection, with nothing of
 * the library around it. What quern itself reaches is to be seen as a share of this.
 *
 *     bench_ceiling SOCKET drain|e2e TASKS     prints tasks a second, us of Redis CPU per task
 *
 * Batches of 128 as quern's; a message of the same size; one request in flight; ids and tokens are
 * taken from replies as they are, messages are not decoded. */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "broker/redis/enqueue_lua.h"
#include "broker/redis/lease_lua.h"
#include "broker/redis/outcome_lua.h"
#include "message/asynq.h"
#include "message/id.h"

enum { BATCH = 128, ID_SIZE = 36, ARGS_MAX = 16 + 4 * BATCH, TOKEN_SIZE = 32 };
#define ID_PACKED (2 + ID_SIZE) /* in the reply of lease: a mark, the size, the id */
#define TOKEN_DIGITS 19
#define TOKEN_PACKED (0xa0 + TOKEN_DIGITS) /* the mark of a text of that size */
#define PREFIX "asynq:{ceiling}:"
#define BENCH_WALL_MS INT64_C(1800000000000) /* any moment will do */

struct caller {
    redisContext *redis;
    const char *args[ARGS_MAX];
    size_t sizes[ARGS_MAX];
    int count;
    uint64_t sequence;
    char sequence_text[24];
};

static void die(const char *what)
{
    (void)fprintf(stderr, "ceiling: %s\n", what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void put_bytes(struct caller *caller, const char *data, size_t size)
{
    caller->args[caller->count] = data;
    caller->sizes[caller->count++] = size;
}

static void put(struct caller *caller, const char *text)
{
    put_bytes(caller, text, strlen(text));
}

/* Loads the script, so that EVALSHA finds it. */
static void load(struct caller *caller, const struct qn_script *script)
{
    redisReply *reply = redisCommand(caller->redis, "SCRIPT LOAD %b", script->text, script->size);
    if (reply == NULL || reply->type != REDIS_REPLY_STRING) {
        die("cannot load a script");
    }
    freeReplyObject(reply);
}

static void begin(struct caller *caller, const struct qn_script *script, const char *session)
{
    caller->count = 0;
    put(caller, "EVALSHA");
    put(caller, script->sha1);
    put(caller, "1");
    put(caller, PREFIX);
    put(caller, session);
    put(caller, caller->sequence_text);
}

static void send(struct caller *caller)
{
    if (redisAppendCommandArgv(caller->redis, caller->count, caller->args, caller->sizes) !=
        REDIS_OK) {
        die("out of memory");
    }
}

static redisReply *receive(struct caller *caller)
{
    void *reply = NULL;
    if (redisGetReply(caller->redis, &reply) != REDIS_OK) {
        die(caller->redis->errstr);
    }
    if (((redisReply *)reply)->type == REDIS_REPLY_ERROR) {
        die(((redisReply *)reply)->str);
    }
    return reply;
}

static void next_request(struct caller *caller)
{
    (void)snprintf(caller->sequence_text, sizeof caller->sequence_text, "%" PRIu64,
                   ++caller->sequence);
}

static void open_caller(struct caller *caller, const char *socket)
{
    caller->redis = redisConnectUnix(socket);
    if (caller->redis == NULL || caller->redis->err != 0) {
        die("cannot connect");
    }
    load(caller, &qn_lua_enqueue);
    load(caller, &qn_lua_lease);
    load(caller, &qn_lua_outcome);
}

/* CPU time of the server's main thread so far, seconds; of all its threads before Redis 7.0. */
static double server_cpu(const char *socket)
{
    static struct caller caller;
    double sum = 0;
    caller.redis = redisConnectUnix(socket);
    redisReply *info = redisCommand(caller.redis, "INFO cpu");
    static const char *const names[] = {"used_cpu_sys_main_thread:", "used_cpu_user_main_thread:",
                                        "used_cpu_sys:", "used_cpu_user:"};
    bool told = info != NULL && strstr(info->str, names[0]) != NULL;
    for (size_t i = 0; info != NULL && i < 2; i++) {
        const char *name = names[told ? i : i + 2];
        const char *found = strstr(info->str, name);
        sum += found == NULL ? 0 : strtod(found + strlen(name), NULL);
    }
    freeReplyObject(info);
    redisFree(caller.redis);
    return sum;
}

/* --- Enqueue ------------------------------------------------------------------------- */

/* A message as quern's bench makes it, and where its id stands. */
static struct qn_asynq_bytes make_message(struct qn_arena *arena, const char *id, size_t *ret_at)
{
    char payload[100];
    struct qn_asynq_bytes bytes;
    quern_error error;
    memset(payload, 'x', sizeof payload);
    const struct qn_asynq_task task = {.type = "bench",
                                       .payload = payload,
                                       .payload_size = sizeof payload,
                                       .id = id,
                                       .queue = "ceiling",
                                       .retry_max = 25,
                                       .timeout_ms = 1800000};
    if (qn_asynq_task_encode(arena, &task, &bytes, &error) != QUERN_OK) {
        die(error.text);
    }
    const char *found = memmem(bytes.data, bytes.size, id, ID_SIZE);
    *ret_at = (size_t)(found - (const char *)bytes.data);
    return bytes;
}

static void enqueue(const char *socket, size_t count)
{
    static struct caller caller;
    static char ids[BATCH][QN_ID_TEXT_SIZE];
    static char messages[BATCH][512];
    struct qn_arena arena = {0};
    struct qn_id_source source;
    size_t at = 0;
    open_caller(&caller, socket);
    qn_id_source_init(&source);
    qn_id_next(&source, BENCH_WALL_MS, ids[0]);
    struct qn_asynq_bytes message = make_message(&arena, ids[0], &at);
    for (size_t left = count; left > 0;) {
        size_t batch = left < BATCH ? left : BATCH;
        next_request(&caller);
        begin(&caller, &qn_lua_enqueue, "ceiling-client");
        put(&caller, "");
        for (size_t i = 0; i < batch; i++) {
            qn_id_next(&source, BENCH_WALL_MS, ids[i]);
            put_bytes(&caller, ids[i], ID_SIZE);
        }
        for (size_t i = 0; i < batch; i++) {
            memcpy(messages[i], message.data, message.size);
            memcpy(messages[i] + at, ids[i], ID_SIZE);
            put_bytes(&caller, messages[i], message.size);
        }
        send(&caller);
        freeReplyObject(receive(&caller));
        left -= batch;
    }
    redisFree(caller.redis);
    qn_arena_finish(&arena);
}

/* --- Drain --------------------------------------------------------------------------- */

static void put_lease(struct caller *caller, const char *session)
{
    begin(caller, &qn_lua_lease, session);
    static const char *const words[] = {"0", "128", "30000", "128", "1", "123", "ceiling-worker"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        put(caller, words[i]);
    }
    send(caller);
}

/* The ids in the reply of lease, ID_PACKED bytes each, and the first token; how many there are. */
static size_t runs_of(const redisReply *reply, const char **ret_ids, uint64_t *ret_token)
{
    if (reply->type != REDIS_REPLY_ARRAY) {
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

static void drain(const char *socket, size_t count)
{
    static struct caller caller;
    static char tokens[BATCH][TOKEN_SIZE];
    char held_text[24];
    redisReply *leased = NULL;
    size_t held = 0;
    open_caller(&caller, socket);
    for (size_t done = 0; done < count;) {
        next_request(&caller);
        if (held > 0) {
            const char *ids = NULL;
            uint64_t token = 0;
            held = runs_of(leased, &ids, &token);
            begin(&caller, &qn_lua_outcome, "ceiling-worker");
            (void)snprintf(held_text, sizeof held_text, "%zu", held);
            put(&caller, held_text);
            put(&caller, "0");
            for (size_t i = 0; i < held; i++) {
                (void)snprintf(tokens[i], TOKEN_SIZE, "%" PRIu64, token + 1000 * i);
                put_bytes(&caller, ids + i * ID_PACKED + 2, ID_SIZE);
                put(&caller, tokens[i]);
            }
            send(&caller);
        }
        put_lease(&caller, "ceiling-worker");
        if (held > 0) {
            freeReplyObject(receive(&caller));
            done += held;
        }
        freeReplyObject(leased);
        leased = receive(&caller);
        const char *ids = NULL;
        uint64_t token = 0;
        held = runs_of(leased, &ids, &token);
    }
    freeReplyObject(leased);
    redisFree(caller.redis);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        die("usage: bench_ceiling SOCKET drain|e2e TASKS");
    }
    const char *socket = argv[1];
    size_t count = strtoul(argv[3], NULL, 10);
    bool together = strcmp(argv[2], "e2e") == 0;
    if (!together) {
        enqueue(socket, count);
    }
    double cpu = server_cpu(socket);
    int64_t start_ns = now_ns();
    pid_t client = together ? fork() : -1;
    if (client == 0) {
        enqueue(socket, count);
        _exit(0);
    }
    drain(socket, count);
    double seconds = (double)(now_ns() - start_ns) / 1e9;
    cpu = server_cpu(socket) - cpu;
    if (together) {
        (void)waitpid(client, NULL, 0);
    }
    printf("%.0f %.2f\n", (double)count / seconds, cpu * 1e6 / (double)count);
    return 0;
}
