/* SPDX-License-Identifier: MIT */
/* lib_redis.h - a real redis-server for tests, on a Unix socket in a directory that vanishes.
 *
 * It dies with the test. By convention there is one server per test program: starting one takes 20
 * ms, emptying it (test_redis_empty) no time. Start and restart it from the main thread: it dies
 * with the thread that started it. All helpers assert that they succeed. */
#ifndef TESTS_LIB_REDIS_H
#define TESTS_LIB_REDIS_H

#include "lib_test.h"

struct test_redis_options {
    bool turned; /* its wall clock is the one that test_redis_turn sets */
    bool tcp;    /* also listens on a port of 127.0.0.1 of its own */
    bool tls;    /* also speaks TLS, on another one, with a CA of its own (ca.pem in its dir) */
    bool append; /* appendonly yes, everysec: its data survive test_redis_kill */
    const char
        *config; /* more lines of redis.conf: requirepass, user, maxmemory, ...; NULL: none */
};

struct redisContext;
struct test_redis {
    char dir[TEST_DIR_SIZE];
    char socket_path[TEST_DIR_SIZE + 16];
    char url[TEST_DIR_SIZE + 32];     /* by the Unix socket, without user and password */
    char tcp_url[40];                 /* "" without tcp */
    char tls_url[TEST_DIR_SIZE + 80]; /* with its CA, "" without tls */
    char *options_config;             /* a copy, for restarts */
    struct test_redis_options options;
    int port;
    int tls_port;
    pid_t pid;                    /* 0: does not run */
    int64_t volatile *clock_us;   /* its fixed time, or 0; how far ahead it is then */
    struct redisContext *context; /* of test_redis_do; opened when first used */
    const char *user;             /* if not NULL, test_redis_do first sends AUTH */
    const char *password;
    char *answer; /* of the last test_redis_do */
};

/* options may be NULL. Returns when the server answers. */
void test_redis_start(struct test_redis *redis, const struct test_redis_options *options);
/* SIGKILL and reaped; its directory is removed, too. Does nothing to one that was never started. */
void test_redis_stop(struct test_redis *redis);
/* SIGKILL, and reaped: the contents of the AOF survive. With everysec these are not all
 * acknowledged writes: while the last fsync is still in progress, Redis answers before it
 * writes. */
void test_redis_kill(struct test_redis *redis);
/* SIGTERM, as in the restart of a service, and reaped: everything is in the AOF. */
void test_redis_end(struct test_redis *redis);
/* Starts it again on the same data, and returns at once; it may be loading. */
void test_redis_launch(struct test_redis *redis);
/* Waits until it answers, and is done with loading. */
void test_redis_await(struct test_redis *redis);
/* Whether it accepts connections; it may be loading. */
bool test_redis_up(struct test_redis *redis);
/* More lines for redis.conf, for the next launch. */
void test_redis_configure(struct test_redis *redis, const char *more);
/* FLUSHALL. */
void test_redis_empty(struct test_redis *redis);
/* Sets the wall clock of a turned server; 0: the real time. */
void test_redis_turn(struct test_redis *redis, int64_t wall_us);

/* Lets the wall clock of a turned server run, but this far ahead of the real time. */
void test_redis_shift(struct test_redis *redis, int64_t by_us);

/* Sends a command as words of printf's kind (%s, %lld; %b: data and size_t) and returns the reply
 * as text, valid until the next call: "(nil)", an integer as decimals, text as it is, "-ERR ..."
 * for errors, and the items of arrays, each followed by a newline. */
const char *test_redis_do(struct test_redis *redis, const char *format, ...);
/* The same, as a number. */
long long test_redis_count(struct test_redis *redis, const char *format, ...);
/* All commands that the server ever carried out, also inside scripts. */
long long test_redis_calls(struct test_redis *redis);

#endif
