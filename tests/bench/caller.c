/* SPDX-License-Identifier: MIT */
#include "caller.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void die(const char *what)
{
    (void)fprintf(stderr, "ceiling: %s\n", what);
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void caller_open(struct caller *caller, const char *socket)
{
    caller->redis = redisConnectUnix(socket);
    if (caller->redis == NULL || caller->redis->err != 0) {
        die("cannot connect");
    }
}

void caller_close(struct caller *caller)
{
    redisFree(caller->redis);
}

void caller_load(struct caller *caller, const char *text, size_t size, char *ret_sha1)
{
    redisReply *reply = redisCommand(caller->redis, "SCRIPT LOAD %b", text, size);
    if (reply == NULL || reply->type != REDIS_REPLY_STRING || reply->len != SHA1_DIGITS) {
        die("cannot load a script");
    }
    memcpy(ret_sha1, reply->str, SHA1_DIGITS + 1);
    freeReplyObject(reply);
}

redisReply *caller_request(struct caller *caller, const char *command)
{
    redisReply *reply = redisCommand(caller->redis, command);
    if (reply == NULL) {
        die(caller->redis->errstr);
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        die(reply->str);
    }
    return reply;
}

void caller_put_bytes(struct caller *caller, const char *data, size_t size)
{
    caller->args[caller->count] = data;
    caller->sizes[caller->count++] = size;
}

void caller_put(struct caller *caller, const char *text)
{
    caller_put_bytes(caller, text, strlen(text));
}

void caller_begin(struct caller *caller, const char *sha1)
{
    caller->count = 0;
    caller_put(caller, "EVALSHA");
    caller_put(caller, sha1);
    caller_put(caller, "1");
    caller_put(caller, PREFIX);
}

void caller_send(struct caller *caller)
{
    if (redisAppendCommandArgv(caller->redis, caller->count, caller->args, caller->sizes) !=
        REDIS_OK) {
        die("out of memory");
    }
}

redisReply *caller_receive(struct caller *caller)
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

double server_cpu(const char *socket)
{
    static struct caller caller;
    double sum = 0;
    caller_open(&caller, socket);
    redisReply *info = caller_request(&caller, "INFO cpu");
    static const char *const names[] = {"used_cpu_sys_main_thread:", "used_cpu_user_main_thread:",
                                        "used_cpu_sys:", "used_cpu_user:"};
    bool told = strstr(info->str, names[0]) != NULL;
    for (size_t i = 0; i < 2; i++) {
        const char *name = names[told ? i : i + 2];
        const char *found = strstr(info->str, name);
        sum += found == NULL ? 0 : strtod(found + strlen(name), NULL);
    }
    freeReplyObject(info);
    caller_close(&caller);
    return sum;
}
