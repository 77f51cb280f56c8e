/* SPDX-License-Identifier: MIT */
/* caller.h - one connection to a server, and requests on it: for the bare loops, which do not use
 * the library. Any failure ends the process. */
#ifndef QN_BENCH_CALLER_H
#define QN_BENCH_CALLER_H

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

enum { BATCH = 128, ID_SIZE = 36, SHA1_DIGITS = 40, ARGS_MAX = 16 + 4 * BATCH };
#define PREFIX "asynq:{ceiling}:"

struct caller {
    redisContext *redis;
    const char *args[ARGS_MAX];
    size_t sizes[ARGS_MAX];
    int count;
    uint64_t sequence;
    char sequence_text[24];
};

_Noreturn void die(const char *what);
int64_t now_ns(void);

void caller_open(struct caller *caller, const char *socket);
void caller_close(struct caller *caller);
/* So that EVALSHA finds it; ret_sha1 has room for SHA1_DIGITS and a zero. */
void caller_load(struct caller *caller, const char *text, size_t size, char *ret_sha1);
/* One plain command, and its answer; the caller frees it. */
redisReply *caller_request(struct caller *caller, const char *command);

/* A call of a script with PREFIX for its key. What is put has to live until it is sent. */
void caller_begin(struct caller *caller, const char *sha1);
void caller_put(struct caller *caller, const char *text);
void caller_put_bytes(struct caller *caller, const char *data, size_t size);
void caller_send(struct caller *caller);
redisReply *caller_receive(struct caller *caller);

/* CPU time of the server's main thread so far, seconds; of all its threads before Redis 7.0. */
double server_cpu(const char *socket);

#endif
