/* SPDX-License-Identifier: MIT */
/* test_replaced.c - the master freezes before a broker has opened, and the sentinels replace it:
 * the broker opens at the new master at once, not when it has waited in vain for the old one.
 *
 * The sentinel and the new master are threads of the test. The old one accepts connections, as the
 * kernel does for a frozen server, and never answers. */
#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/broker.h"
#include "lib_test.h"

#define LINKS_MAX 64
#define HELLO "*6\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$4\r\nmode\r\n"
#define MESSAGE "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$1\r\nm\r\n"

struct node {
    int fd; /* it listens */
    int port;
    bool is_sentinel;
    pthread_t thread;
    size_t link_count;
    struct link {
        const struct node *node;
        int fd;
        pthread_t thread;
    } links[LINKS_MAX];
};

static _Atomic int master_port;
static pthread_mutex_t subscribed = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static int subscriber_fd = -1;

static void bind_node(struct node *node)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    node->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(node->fd, (const struct sockaddr *)(const void *)&address, size), 0);
    assert_int_equal(getsockname(node->fd, (struct sockaddr *)(void *)&address, &size), 0);
    assert_int_equal(listen(node->fd, LINKS_MAX), 0);
    node->port = ntohs(address.sin_port);
}

/* The other end may be gone. */
static void put(int fd, const char *text)
{
    ssize_t count = send(fd, text, strlen(text), MSG_NOSIGNAL);
    (void)count;
}

static void answer_sentinel(int fd, const char *verb)
{
    char text[128] = "*0\r\n"; /* SENTINELS: there are no others */
    char port[8];
    int size = snprintf(port, sizeof port, "%d", atomic_load(&master_port));
    if (strcmp(verb, "GET-MASTER-ADDR-BY-NAME") == 0) {
        (void)snprintf(text, sizeof text, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", size, port);
    } else if (strcmp(verb, "MASTER") == 0) {
        (void)snprintf(text, sizeof text, "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n1\r\n");
    }
    put(fd, text);
}

static void subscribe(int fd)
{
    (void)pthread_mutex_lock(&subscribed);
    put(fd, "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    subscriber_fd = fd;
    (void)pthread_mutex_unlock(&subscribed);
}

static void answer(const struct link *link, const redisReply *request)
{
    const char *name = request->element[0]->str;
    if (strcmp(name, "HELLO") == 0) {
        put(link->fd,
            link->node->is_sentinel ? HELLO "$8\r\nsentinel\r\n" : HELLO "$10\r\nstandalone\r\n");
    } else if (strcmp(name, "SENTINEL") == 0) {
        answer_sentinel(link->fd, request->element[1]->str);
    } else if (strcmp(name, "SUBSCRIBE") == 0) {
        subscribe(link->fd);
    } else {
        put(link->fd, ":0\r\n");
    }
}

static void *serve_link(void *user)
{
    const struct link *link = user;
    char data[4096];
    redisReader *reader = redisReaderCreate(); /* a request looks like a reply */
    for (ssize_t size = recv(link->fd, data, sizeof data, 0); size > 0;
         size = recv(link->fd, data, sizeof data, 0)) {
        void *request = NULL;
        (void)redisReaderFeed(reader, data, (size_t)size);
        while (redisReaderGetReply(reader, &request) == REDIS_OK && request != NULL) {
            answer(link, request);
            freeReplyObject(request);
        }
    }
    redisReaderFree(reader);
    return NULL;
}

static void *serve(void *user)
{
    struct node *node = user;
    for (int fd = accept(node->fd, NULL, NULL); fd >= 0 && node->link_count < LINKS_MAX;
         fd = accept(node->fd, NULL, NULL)) {
        struct link *link = &node->links[node->link_count++];
        *link = (struct link){.node = node, .fd = fd};
        (void)pthread_create(&link->thread, NULL, serve_link, link);
    }
    return NULL;
}

static void start(struct node *node)
{
    bind_node(node);
    assert_int_equal(pthread_create(&node->thread, NULL, serve, node), 0);
}

static void stop(struct node *node)
{
    (void)shutdown(node->fd, SHUT_RDWR);
    assert_int_equal(pthread_join(node->thread, NULL), 0);
    for (size_t i = 0; i < node->link_count; i++) {
        (void)shutdown(node->links[i].fd, SHUT_RDWR);
        assert_int_equal(pthread_join(node->links[i].thread, NULL), 0);
        (void)close(node->links[i].fd);
    }
    (void)close(node->fd);
}

struct replacement {
    const struct node *old;
    const struct node *new;
};

/* Once the broker connects to the old master. Who subscribes later asks then. */
static void *replace(void *user)
{
    const struct replacement *replacement = user;
    struct pollfd poller = {.fd = replacement->old->fd, .events = POLLIN};
    (void)poll(&poller, 1, TEST_PATIENCE_MS);
    (void)pthread_mutex_lock(&subscribed);
    atomic_store(&master_port, replacement->new->port);
    if (subscriber_fd >= 0) {
        put(subscriber_fd, MESSAGE);
    }
    (void)pthread_mutex_unlock(&subscribed);
    return NULL;
}

static void a_broker_that_opens_leaves_a_master_that_is_replaced(void **state)
{
    (void)state;
    static struct node old;
    static struct node new;
    static struct node sentinel = {.is_sentinel = true};
    char url[64];
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    pthread_t thread;
    struct replacement replacement = {.old = &old, .new = &new};
    const struct qn_broker_options options = {.connect_timeout_ms = TEST_PATIENCE_MS,
                                              .command_timeout_ms = 2 * TEST_PATIENCE_MS};
    bind_node(&old);
    start(&new);
    start(&sentinel);
    atomic_store(&master_port, old.port);
    (void)snprintf(url, sizeof url, "redis-sentinel://127.0.0.1:%d/0?master=m", sentinel.port);
    assert_int_equal(pthread_create(&thread, NULL, replace, &replacement), 0);
    int64_t begun_ms = test_now_ms();
    assert_ok(qn_broker_open(url, &options, &broker, &err), err);
    assert_in_range(test_now_ms() - begun_ms, 0, TEST_PATIENCE_MS / 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    qn_broker_close(broker);
    stop(&sentinel);
    stop(&new);
    (void)close(old.fd);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broker_that_opens_leaves_a_master_that_is_replaced),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
