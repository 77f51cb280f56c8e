/* SPDX-License-Identifier: MIT */
/* lib_redis.c - starts, kills, restarts and queries a redis-server.
 *
 * Its settings are in DIR/redis.conf. A turned clock is the file DIR/clock, which turned_clock.c
 * reads inside the server. The port is one that the kernel reports as free; if another process
 * takes it before the server does, the server ends and another port is tried. */
#include "lib_redis.h"

#include "lib_tls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT_TRIES 10
#define CLOCK_SIZE (2 * sizeof(int64_t))

/* --- Starting ----------------------------------------------------------------------- */

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static void write_config(struct test_redis *redis, const char *more)
{
    char path[TEST_DIR_SIZE + 16];
    (void)snprintf(path, sizeof path, "%s/redis.conf", redis->dir);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fprintf(file,
                  "dir %s\nunixsocket %s\nbind 127.0.0.1\nport %d\nlogfile %s/log\nsave \"\"\n"
                  "appendonly %s\nappendfsync everysec\nauto-aof-rewrite-percentage 0\n%s\n%s\n",
                  redis->dir, redis->socket_path, redis->port, redis->dir,
                  redis->options.append ? "yes" : "no",
                  redis->options_config == NULL ? "" : redis->options_config, more);
    if (redis->options.tls) {
        (void)fprintf(file,
                      "tls-port %d\ntls-auth-clients no\ntls-ca-cert-file %s/ca.pem\n"
                      "tls-cert-file %s/server.pem\ntls-key-file %s/server.key\n",
                      redis->tls_port, redis->dir, redis->dir, redis->dir);
    }
    assert_int_equal(fclose(file), 0);
}

static void make_clock(struct test_redis *redis)
{
    char path[TEST_DIR_SIZE + 16];
    (void)snprintf(path, sizeof path, "%s/clock", redis->dir);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, CLOCK_SIZE), 0);
    void *map = mmap(NULL, CLOCK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    (void)close(fd);
    redis->clock_us = map;
}

/* In the child that becomes the server. */
static void become_server(const struct test_redis *redis)
{
    char config[TEST_DIR_SIZE + 16];
    char clock[TEST_DIR_SIZE + 16];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpgid(0, 0);
    (void)snprintf(config, sizeof config, "%s/redis.conf", redis->dir);
    (void)snprintf(clock, sizeof clock, "%s/clock", redis->dir);
    if (redis->clock_us != NULL) {
        (void)setenv("TURNED_CLOCK", clock, 1);
        (void)setenv("LD_PRELOAD", TEST_TURNED_CLOCK, 1);
    }
    (void)execlp("redis-server", "redis-server", config, (char *)NULL);
    _exit(96);
}

void test_redis_launch(struct test_redis *redis)
{
    assert_int_equal(redis->pid, 0);
    redis->pid = fork();
    assert_true(redis->pid >= 0);
    if (redis->pid == 0) {
        become_server(redis);
    }
    (void)setpgid(redis->pid, redis->pid); /* parent or child, the first one sets it */
}

static void choose_port(struct test_redis *redis)
{
    if (redis->options.tcp) {
        redis->port = free_port();
        (void)snprintf(redis->tcp_url, sizeof redis->tcp_url, "redis://127.0.0.1:%d", redis->port);
    }
    if (redis->options.tls) {
        redis->tls_port = free_port();
        (void)snprintf(redis->tls_url, sizeof redis->tls_url, "rediss://127.0.0.1:%d?ca=%s/ca.pem",
                       redis->tls_port, redis->dir);
    }
    write_config(redis, "");
}

/* --- Asking ------------------------------------------------------------------------- */

static void hang_up(struct test_redis *redis)
{
    if (redis->context != NULL) {
        redisFree(redis->context);
        redis->context = NULL;
    }
}

/* Whether there is a connection now; opens one, and logs in, if needed. */
static bool call_up(struct test_redis *redis)
{
    if (redis->context != NULL && redis->context->err == 0) {
        return true;
    }
    hang_up(redis);
    redis->context = redisConnectUnix(redis->socket_path);
    if (redis->context == NULL || redis->context->err != 0) {
        hang_up(redis);
        return false;
    }
    if (redis->password != NULL) {
        void *reply = redisCommand(redis->context, "AUTH %s %s",
                                   redis->user == NULL ? "default" : redis->user, redis->password);
        freeReplyObject(reply);
    }
    return true;
}

static void print_reply(FILE *out, const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_NIL:
        (void)fputs("(nil)", out);
        break;
    case REDIS_REPLY_INTEGER:
        (void)fprintf(out, "%lld", reply->integer);
        break;
    case REDIS_REPLY_ERROR:
        (void)fprintf(out, "-%s", reply->str);
        break;
    case REDIS_REPLY_ARRAY:
        for (size_t i = 0; i < reply->elements; i++) {
            print_reply(out, reply->element[i]);
            (void)fputc('\n', out);
        }
        break;
    default:
        (void)fwrite(reply->str, 1, (size_t)reply->len, out);
    }
}

static const char *keep_answer(struct test_redis *redis, redisReply *reply)
{
    size_t size = 0;
    free(redis->answer);
    redis->answer = NULL;
    FILE *out = open_memstream(&redis->answer, &size);
    assert_non_null(out);
    print_reply(out, reply);
    assert_int_equal(fclose(out), 0);
    freeReplyObject(reply);
    return redis->answer;
}

static const char *run_words(struct test_redis *redis, const char *format, va_list words)
{
    assert_true(call_up(redis));
    redisReply *reply = redisvCommand(redis->context, format, words);
    if (reply == NULL) {
        fail_msg("%s: %s", format, redis->context->errstr);
    }
    return keep_answer(redis, reply);
}

const char *test_redis_do(struct test_redis *redis, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    const char *answer = run_words(redis, format, words);
    va_end(words);
    return answer;
}

long long test_redis_count(struct test_redis *redis, const char *format, ...)
{
    va_list words;
    char *end = NULL;
    va_start(words, format);
    const char *answer = run_words(redis, format, words);
    va_end(words);
    long long count = strtoll(answer, &end, 10);
    if (end == answer || *end != '\0') {
        fail_msg("%s: not a number: %s", format, answer);
    }
    return count;
}

long long test_redis_calls(struct test_redis *redis)
{
    const char *line = test_redis_do(redis, "INFO commandstats");
    long long calls = 0;
    while ((line = strstr(line, "calls=")) != NULL) {
        line += strlen("calls=");
        calls += strtoll(line, NULL, 10);
    }
    return calls;
}

/* --- Waiting, ending ---------------------------------------------------------------- */

static bool ended(struct test_redis *redis)
{
    if (redis->pid != 0 && waitpid(redis->pid, NULL, WNOHANG) == redis->pid) {
        redis->pid = 0;
    }
    return redis->pid == 0;
}

/* Any answer but "I am loading" will do: it may also require a login. */
static bool answers(struct test_redis *redis)
{
    if (!call_up(redis)) {
        return false;
    }
    redisReply *reply = redisCommand(redis->context, "PING");
    if (reply == NULL) {
        return false;
    }
    bool loading = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "LOADING", 7) == 0;
    freeReplyObject(reply);
    return !loading;
}

static bool answers_or_ended(void *user)
{
    struct test_redis *redis = user;
    return answers(redis) || ended(redis);
}

static void show_log(const struct test_redis *redis)
{
    char path[TEST_DIR_SIZE + 16];
    char line[300];
    (void)snprintf(path, sizeof path, "%s/log", redis->dir);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        print_error("redis-server: %s", line);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

void test_redis_await(struct test_redis *redis)
{
    if (!test_until(answers_or_ended, redis) || redis->pid == 0) {
        show_log(redis);
        fail_msg("redis-server does not answer (is it installed?)");
    }
}

void test_redis_start(struct test_redis *redis, const struct test_redis_options *options)
{
    *redis = (struct test_redis){0};
    if (options != NULL) {
        redis->options = *options;
        redis->options_config = options->config == NULL ? NULL : strdup(options->config);
    }
    test_dir_make(redis->dir);
    (void)snprintf(redis->socket_path, sizeof redis->socket_path, "%s/r.sock", redis->dir);
    (void)snprintf(redis->url, sizeof redis->url, "redis-socket://%s", redis->socket_path);
    if (redis->options.turned) {
        make_clock(redis);
    }
    if (redis->options.tls) {
        test_tls_make_ca(redis->dir, "ca");
        test_tls_make_cert(redis->dir, "server",
                           &(struct test_tls_terms){
                               .names = "DNS:localhost,IP:127.0.0.1", .from_days = 1, .ca = "ca"});
    }
    for (int i = 0; i < PORT_TRIES && redis->pid == 0; i++) {
        choose_port(redis);
        test_redis_launch(redis);
        (void)test_until(answers_or_ended, redis);
    }
    test_redis_await(redis);
}

bool test_redis_up(struct test_redis *redis)
{
    return call_up(redis);
}

void test_redis_configure(struct test_redis *redis, const char *more)
{
    write_config(redis, more);
}

void test_redis_kill(struct test_redis *redis)
{
    if (redis->pid != 0) {
        /* With its child that rewrites the AOF: if the clock stands still, that of 6.2 never
         * ends. */
        (void)kill(-redis->pid, SIGKILL);
        (void)waitpid(redis->pid, NULL, 0);
        redis->pid = 0;
    }
    hang_up(redis);
}

void test_redis_end(struct test_redis *redis)
{
    assert_int_equal(kill(redis->pid, SIGTERM), 0);
    assert_int_equal(waitpid(redis->pid, NULL, 0), redis->pid);
    redis->pid = 0;
    hang_up(redis);
}

void test_redis_stop(struct test_redis *redis)
{
    test_redis_kill(redis);
    if (redis->clock_us != NULL) {
        (void)munmap((void *)(uintptr_t)redis->clock_us, CLOCK_SIZE);
    }
    if (redis->dir[0] != '\0') {
        test_dir_remove(redis->dir);
    }
    free(redis->options_config);
    free(redis->answer);
    *redis = (struct test_redis){0};
}

void test_redis_empty(struct test_redis *redis)
{
    assert_string_equal(test_redis_do(redis, "FLUSHALL"), "OK");
}

void test_redis_turn(struct test_redis *redis, int64_t wall_us)
{
    assert_non_null((void *)(uintptr_t)redis->clock_us);
    *redis->clock_us = wall_us;
}

void test_redis_shift(struct test_redis *redis, int64_t by_us)
{
    assert_non_null((void *)(uintptr_t)redis->clock_us);
    redis->clock_us[1] = by_us;
}
