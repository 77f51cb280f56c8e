/* SPDX-License-Identifier: MIT */
/* lib_proxy.c - one thread that moves bytes between pairs of Unix sockets, or does not.
 *
 * One write of a client arrives here as one piece or a few; each of them may be cut. A cut after
 * the request waits for the first piece of the answer, so that the server is known to have executed
 * it. */
#include "lib_proxy.h"

#include "lib_listener.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"

#define PAIRS_MAX 64
#define PIECE_SIZE 65536
#define HELD_LOOK_MS 2

struct pair {
    int client_fd; /* -1: unused */
    int server_fd;
    int64_t held_until_ms; /* replies of the server wait until then; 0: they do not */
    bool armed;            /* the next answer is cut in this way */
    enum test_cut cut;
};

struct test_proxy {
    char path[TEST_DIR_SIZE + 32];
    char url[TEST_DIR_SIZE + 64];
    char server_path[TEST_DIR_SIZE + 16];
    struct test_listener listener;
    struct qn_random random;
    struct pair pairs[PAIRS_MAX];
    char piece[PIECE_SIZE];
    _Atomic unsigned permille;
    _Atomic int64_t delay_ms_max;
    _Atomic size_t counts[TEST_CUT_COUNT];
};

static void hang_up(struct pair *pair)
{
    (void)close(pair->client_fd);
    (void)close(pair->server_fd);
    *pair = (struct pair){.client_fd = -1, .server_fd = -1};
}

static void accept_client(struct test_proxy *proxy)
{
    int client_fd = accept4(proxy->listener.listen_fd, NULL, NULL, SOCK_CLOEXEC);
    int server_fd = test_listener_connect(proxy->server_path);
    bool connected = client_fd >= 0 && server_fd >= 0;
    for (size_t i = 0; connected && i < PAIRS_MAX; i++) {
        if (proxy->pairs[i].client_fd < 0) {
            proxy->pairs[i] = (struct pair){.client_fd = client_fd, .server_fd = server_fd};
            return;
        }
    }
    (void)close(client_fd);
    (void)close(server_fd);
}

static void note(struct test_proxy *proxy, enum test_cut cut)
{
    atomic_fetch_add(&proxy->counts[cut], 1);
}

static void move_request(struct test_proxy *proxy, struct pair *pair)
{
    ssize_t size = read(pair->client_fd, proxy->piece, PIECE_SIZE);
    if (size <= 0) {
        hang_up(pair);
        return;
    }
    if (!pair->armed && qn_random_below(&proxy->random, 1000) < atomic_load(&proxy->permille)) {
        pair->armed = true;
        pair->cut = (enum test_cut)qn_random_below(&proxy->random, TEST_CUT_COUNT);
    }
    if (pair->armed && pair->cut <= TEST_CUT_REQUEST_PART) {
        note(proxy, pair->cut);
        if (pair->cut == TEST_CUT_REQUEST_PART) {
            size_t part = 1 + qn_random_below(&proxy->random, (uint64_t)size);
            (void)test_send_all(pair->server_fd, proxy->piece,
                                part < (size_t)size ? part : part - 1);
        }
        hang_up(pair);
        return;
    }
    if (!test_send_all(pair->server_fd, proxy->piece, (size_t)size)) {
        hang_up(pair);
    }
}

static void move_reply(struct test_proxy *proxy, struct pair *pair)
{
    ssize_t size = read(pair->server_fd, proxy->piece, PIECE_SIZE);
    if (size <= 0) {
        hang_up(pair);
        return;
    }
    if (pair->armed) {
        note(proxy, pair->cut);
        if (pair->cut == TEST_CUT_REPLY_PART) {
            size_t part = qn_random_below(&proxy->random, (uint64_t)size);
            (void)test_send_all(pair->client_fd, proxy->piece, part);
        }
        hang_up(pair);
        return;
    }
    if (!test_send_all(pair->client_fd, proxy->piece, (size_t)size)) {
        hang_up(pair);
    }
}

/* An answer has come, or still waits. */
static void move_reply_in_time(struct test_proxy *proxy, struct pair *pair)
{
    int64_t delay_ms_max = atomic_load(&proxy->delay_ms_max);
    if (pair->held_until_ms == 0 && delay_ms_max > 0) {
        uint64_t spread = (uint64_t)delay_ms_max / 4 + 1;
        pair->held_until_ms =
            test_now_ms() + delay_ms_max - (int64_t)qn_random_below(&proxy->random, spread);
    }
    if (delay_ms_max == 0 || test_now_ms() >= pair->held_until_ms) {
        pair->held_until_ms = 0;
        move_reply(proxy, pair);
    }
}

static void *move_all(void *argument)
{
    struct test_proxy *proxy = argument;
    for (;;) {
        int timeout_ms = -1;
        struct pollfd fds[2 + 2 * PAIRS_MAX] = {
            {.fd = proxy->listener.stop_fds[0], .events = POLLIN},
            {.fd = proxy->listener.listen_fd, .events = POLLIN}};
        for (size_t i = 0; i < PAIRS_MAX; i++) {
            fds[2 + 2 * i] = (struct pollfd){.fd = proxy->pairs[i].client_fd, .events = POLLIN};
            bool held = proxy->pairs[i].held_until_ms > test_now_ms();
            timeout_ms = held ? HELD_LOOK_MS : timeout_ms;
            fds[3 + 2 * i] =
                (struct pollfd){.fd = held ? -1 : proxy->pairs[i].server_fd, .events = POLLIN};
        }
        (void)poll(fds, TEST_COUNT(fds), timeout_ms);
        if (fds[0].revents != 0) {
            return NULL;
        }
        for (size_t i = 0; i < PAIRS_MAX; i++) {
            struct pair *pair = &proxy->pairs[i];
            if (fds[2 + 2 * i].revents != 0) {
                move_request(proxy, pair);
            }
            if (fds[3 + 2 * i].revents != 0 && pair->server_fd == fds[3 + 2 * i].fd) {
                move_reply_in_time(proxy, pair);
            }
        }
        if (fds[1].revents != 0) {
            accept_client(proxy);
        }
    }
}

struct test_proxy *test_proxy_start(const struct test_redis *redis, uint64_t seed)
{
    struct test_proxy *proxy = calloc(1, sizeof *proxy);
    assert_non_null(proxy);
    qn_random_init_seed(&proxy->random, seed);
    (void)snprintf(proxy->server_path, sizeof proxy->server_path, "%s", redis->socket_path);
    (void)snprintf(proxy->path, sizeof proxy->path, "%s/proxy.sock", redis->dir);
    (void)snprintf(proxy->url, sizeof proxy->url, "redis-socket://worker:secret@%s", proxy->path);
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        proxy->pairs[i] = (struct pair){.client_fd = -1, .server_fd = -1};
    }
    test_listener_start(&proxy->listener, proxy->path, move_all, proxy);
    return proxy;
}

void test_proxy_stop(struct test_proxy *proxy)
{
    test_listener_stop(&proxy->listener);
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        if (proxy->pairs[i].client_fd >= 0) {
            hang_up(&proxy->pairs[i]);
        }
    }
    (void)unlink(proxy->path);
    free(proxy);
}

const char *test_proxy_url(const struct test_proxy *proxy)
{
    return proxy->url;
}

void test_proxy_cut(struct test_proxy *proxy, unsigned permille)
{
    atomic_store(&proxy->permille, permille);
}

void test_proxy_delay(struct test_proxy *proxy, int64_t delay_ms_max)
{
    atomic_store(&proxy->delay_ms_max, delay_ms_max);
}

size_t test_proxy_count(const struct test_proxy *proxy, enum test_cut cut)
{
    return atomic_load(&proxy->counts[cut]);
}
