/* SPDX-License-Identifier: MIT */
/* lib_peer.c - one thread that parses requests, and forwards them one by one or answers them
 * itself. The answer of the real server is awaited before the next request is handled, so that
 * answers keep their order; unsolicited messages (a listener's notices) are forwarded as they
 * come. */
#include "lib_peer.h"

#include "lib_resp.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64
#define PAIRS_MAX 32
#define RULES_MAX 64
#define ANSWER_MS 10000 /* how long the real server may take */

static const char greeting[] = "*4\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n"
                               "$4\r\nmode\r\n$10\r\nstandalone\r\n";

struct listener {
    int listen_fd;
    int stop_fds[2]; /* the first one is readable when the thread must end */
    pthread_t thread;
};

struct pair {
    int client_fd; /* -1: unused */
    int server_fd; /* -1: there is none */
    struct resp_bytes in;
    struct peer_rule talking; /* reply NULL: nothing is being sent */
    size_t said;
    const char *late; /* an answer that is still owed; NULL: none */
};

struct peer {
    char dir[TEST_DIR_SIZE];
    char url[TEST_DIR_SIZE + 64];
    char server_path[TEST_DIR_SIZE + 16]; /* "": none */
    struct listener listener;
    pthread_mutex_t mutex; /* guards the rules */
    struct peer_rule rules[RULES_MAX];
    size_t rule_count;
    struct pair pairs[PAIRS_MAX];
    _Atomic size_t answered;
};

/* --- Sockets ------------------------------------------------------------------------ */

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

/* Listens at the path, and calls serve(user) on a thread of its own. */
static void start_listening(struct listener *listener, const char *path, void *(*serve)(void *),
                            void *user)
{
    struct sockaddr_un address = address_of(path);
    (void)unlink(path);
    listener->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener->listen_fd, (struct sockaddr *)(void *)&address, sizeof address),
                     0);
    assert_int_equal(listen(listener->listen_fd, BACKLOG), 0);
    assert_int_equal(pipe(listener->stop_fds), 0);
    assert_int_equal(pthread_create(&listener->thread, NULL, serve, user), 0);
}

static void stop_listening(struct listener *listener)
{
    assert_int_equal(write(listener->stop_fds[1], "", 1), 1);
    assert_int_equal(pthread_join(listener->thread, NULL), 0);
    (void)close(listener->stop_fds[0]);
    (void)close(listener->stop_fds[1]);
    (void)close(listener->listen_fd);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)(void *)&address, sizeof address) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static bool send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* --- Requests ----------------------------------------------------------------------- */

static bool is_whole(const struct resp_bytes *bytes)
{
    struct resp_scan scan = {0};
    return resp_end(&scan, bytes) > 0;
}

static bool find_rule(struct peer *peer, const struct resp_bytes *in, struct peer_rule *ret_rule)
{
    bool found = false;
    pthread_mutex_lock(&peer->mutex);
    for (size_t i = 0; !found && i < peer->rule_count; i++) {
        const struct peer_rule *rule = &peer->rules[i];
        found = resp_word_is(in, 0, rule->to) || resp_word_is(in, 1, rule->to);
        *ret_rule = *rule;
    }
    pthread_mutex_unlock(&peer->mutex);
    return found;
}

/* Sends the request to the server and its answer back. */
static bool pass_on(struct pair *pair, size_t size)
{
    if (pair->server_fd < 0) {
        bool greets = resp_word_is(&pair->in, 0, "HELLO");
        const char *reply = greets ? greeting : "$-1\r\n";
        return send_all(pair->client_fd, reply, strlen(reply));
    }
    struct resp_bytes answer = {0};
    bool good = send_all(pair->server_fd, pair->in.data, size);
    while (good && !is_whole(&answer)) {
        struct pollfd end = {.fd = pair->server_fd, .events = POLLIN};
        good = poll(&end, 1, ANSWER_MS) > 0 && resp_receive(&answer, pair->server_fd, 0) > 0;
    }
    good = good && send_all(pair->client_fd, answer.data, answer.size);
    resp_free(&answer);
    return good;
}

static void hang_up(struct pair *pair)
{
    (void)close(pair->client_fd);
    if (pair->server_fd >= 0) {
        (void)close(pair->server_fd);
    }
    resp_free(&pair->in);
    *pair = (struct pair){.client_fd = -1, .server_fd = -1};
}

/* Sends the rest of an answer to an earlier request. False: the client is gone. */
static bool send_late_reply(struct pair *pair)
{
    const char *late = pair->late;
    pair->late = NULL;
    return late == NULL || send_all(pair->client_fd, late, strlen(late));
}

/* Sends the next part of the present reply. False: the client is gone. */
static bool send_more(struct pair *pair)
{
    struct peer_rule *rule = &pair->talking;
    bool slowly = rule->manner == PEER_TRICKLE || rule->manner == PEER_DRIP;
    bool ends = rule->manner == PEER_WHOLE || rule->manner == PEER_TRICKLE;
    while (rule->manner != PEER_SILENT && rule->reply != NULL) {
        size_t size = slowly ? 1 : rule->reply_size - pair->said;
        ssize_t sent =
            send(pair->client_fd, rule->reply + pair->said, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        pair->said += (size_t)sent;
        if (pair->said == rule->reply_size && ends) {
            rule->reply = NULL;
        } else if (pair->said == rule->reply_size) {
            pair->said -= rule->repeat;
        }
        if (slowly) {
            break;
        }
    }
    return true;
}

static bool serve(struct peer *peer, struct pair *pair)
{
    bool good = pair->talking.reply == NULL || send_more(pair);
    while (good && pair->talking.reply == NULL) {
        struct resp_scan scan = {0};
        size_t size = resp_end(&scan, &pair->in);
        struct peer_rule rule;
        if (size == 0) {
            break;
        }
        good = send_late_reply(pair);
        if (good && find_rule(peer, &pair->in, &rule)) {
            rule.reply_size = rule.reply_size == 0 ? strlen(rule.reply) : rule.reply_size;
            rule.repeat = rule.repeat == 0 ? 1 : rule.repeat;
            bool is_late = rule.manner == PEER_LATE;
            pair->late = is_late ? rule.reply : NULL;
            pair->talking = is_late ? (struct peer_rule){0} : rule;
            pair->said = 0;
            atomic_fetch_add(&peer->answered, 1);
            good = send_more(pair);
        } else if (good) {
            good = pass_on(pair, size);
        }
        resp_drop(&pair->in, size);
    }
    return good;
}

/* --- The thread --------------------------------------------------------------------- */

static void accept_client(struct peer *peer)
{
    int client_fd = accept4(peer->listener.listen_fd, NULL, NULL, SOCK_CLOEXEC);
    int server_fd = -1;
    bool connected = client_fd >= 0;
    if (connected && peer->server_path[0] != '\0') {
        server_fd = connect_to(peer->server_path);
        connected = server_fd >= 0;
    }
    struct pair pair = {.client_fd = client_fd, .server_fd = server_fd};
    for (size_t i = 0; connected && i < PAIRS_MAX; i++) {
        if (peer->pairs[i].client_fd < 0) {
            peer->pairs[i] = pair;
            return;
        }
    }
    hang_up(&pair);
}

/* Hangs up on a client that does not read, as Redis does: the others wait for this thread. */
static bool push(const struct pair *pair, const struct resp_bytes *bytes)
{
    ssize_t sent = send(pair->client_fd, bytes->data, bytes->size, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent == (ssize_t)bytes->size;
}

static void serve_events(struct peer *peer, struct pair *pair, const struct pollfd fds[2])
{
    bool good = true;
    if (fds[0].revents != 0) {
        good = resp_receive(&pair->in, pair->client_fd, 0) > 0;
    }
    if (good && fds[1].revents != 0) { /* sent without a request */
        struct resp_bytes pushed = {0};
        good = resp_receive(&pushed, pair->server_fd, 0) > 0 && push(pair, &pushed);
        resp_free(&pushed);
    }
    if (!good || !serve(peer, pair)) {
        hang_up(pair);
    }
}

static void *serve_all(void *argument)
{
    struct peer *peer = argument;
    for (;;) {
        struct pollfd fds[2 + 2 * PAIRS_MAX] = {
            {.fd = peer->listener.stop_fds[0], .events = POLLIN},
            {.fd = peer->listener.listen_fd, .events = POLLIN}};
        bool talking = false;
        for (size_t i = 0; i < PAIRS_MAX; i++) {
            struct pair *pair = &peer->pairs[i];
            talking =
                talking || (pair->talking.reply != NULL && pair->talking.manner != PEER_SILENT);
            fds[2 + 2 * i] = (struct pollfd){.fd = pair->client_fd, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = pair->server_fd, .events = POLLIN};
        }
        (void)poll(fds, TEST_COUNT(fds), talking ? 1 : -1);
        if (fds[0].revents != 0) {
            return NULL;
        }
        for (size_t i = 0; i < PAIRS_MAX; i++) {
            if (peer->pairs[i].client_fd >= 0) {
                serve_events(peer, &peer->pairs[i], &fds[2 + 2 * i]);
            }
        }
        if (fds[1].revents != 0) {
            accept_client(peer);
        }
    }
}

struct peer *peer_start(const struct test_redis *redis, const char *user)
{
    struct peer *peer = calloc(1, sizeof *peer);
    assert_non_null(peer);
    test_dir_make(peer->dir);
    (void)snprintf(peer->server_path, sizeof peer->server_path, "%s",
                   redis == NULL ? "" : redis->socket_path);
    (void)snprintf(peer->url, sizeof peer->url, "redis-socket://%s%s/peer", user, peer->dir);
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        peer->pairs[i] = (struct pair){.client_fd = -1, .server_fd = -1};
    }
    char path[TEST_DIR_SIZE + 8];
    (void)snprintf(path, sizeof path, "%s/peer", peer->dir);
    (void)pthread_mutex_init(&peer->mutex, NULL);
    start_listening(&peer->listener, path, serve_all, peer);
    return peer;
}

void peer_stop(struct peer *peer)
{
    stop_listening(&peer->listener);
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        if (peer->pairs[i].client_fd >= 0) {
            hang_up(&peer->pairs[i]);
        }
    }
    (void)pthread_mutex_destroy(&peer->mutex);
    test_dir_remove(peer->dir);
    free(peer);
}

const char *peer_url(const struct peer *peer)
{
    return peer->url;
}

void peer_rules(struct peer *peer, const struct peer_rule *rules, size_t count)
{
    TEST_REQUIRE(count <= RULES_MAX);
    pthread_mutex_lock(&peer->mutex);
    for (size_t i = 0; i < count; i++) {
        peer->rules[i] = rules[i];
    }
    peer->rule_count = count;
    pthread_mutex_unlock(&peer->mutex);
}

size_t peer_answered(const struct peer *peer)
{
    return atomic_load(&peer->answered);
}
