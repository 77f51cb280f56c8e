/* SPDX-License-Identifier: MIT */
/* test_replaced.c - the master freezes before a broker has opened, and the sentinels replace it:
 * the broker opens at the new master at once, not when it has waited in vain for the old one. Nor
 * does it fail while they are about to replace it.
 *
 * The sentinel and the new master are threads of the test. The old one accepts connections, as the
 * kernel does for a frozen server, and never answers. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "broker/broker.h"
#include "lib_node.h"
#include "lib_test.h"

#define MESSAGE "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$1\r\nm\r\n"

static _Atomic int master_port;
static _Atomic bool is_leaving; /* the sentinel is about to replace it */
static _Atomic size_t ask_count;
static pthread_mutex_t subscribed = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static int subscriber_fd = -1;

static void answer_sentinel(int fd, const char *verb)
{
    char text[128] = "*0\r\n"; /* SENTINELS: there are no others */
    char port[8];
    int size = snprintf(port, sizeof port, "%d", atomic_load(&master_port));
    if (strcmp(verb, "GET-MASTER-ADDR-BY-NAME") == 0) {
        (void)snprintf(text, sizeof text, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", size, port);
    } else if (strcmp(verb, "MASTER") == 0 && atomic_load(&is_leaving)) {
        atomic_fetch_add(&ask_count, 1);
        (void)snprintf(text, sizeof text,
                       "*6\r\n$5\r\nflags\r\n$20\r\nfailover_in_progress\r\n$2\r\nip\r\n"
                       "$9\r\n127.0.0.1\r\n$4\r\nport\r\n$%d\r\n%s\r\n",
                       size, port);
    } else if (strcmp(verb, "MASTER") == 0) {
        (void)snprintf(text, sizeof text, "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n1\r\n");
    }
    node_put(fd, text);
}

static void subscribe(int fd)
{
    (void)pthread_mutex_lock(&subscribed);
    node_put(fd, "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    subscriber_fd = fd;
    (void)pthread_mutex_unlock(&subscribed);
}

static void answer_as_sentinel(struct node *node, int fd, const redisReply *request)
{
    const char *name = request->element[0]->str;
    (void)node;
    if (strcmp(name, "HELLO") == 0) {
        node_put(fd, NODE_HELLO("$8\r\nsentinel\r\n"));
    } else if (strcmp(name, "SENTINEL") == 0) {
        answer_sentinel(fd, request->element[1]->str);
    } else if (strcmp(name, "SUBSCRIBE") == 0) {
        subscribe(fd);
    } else {
        node_put(fd, ":0\r\n");
    }
}

static void answer_as_master(struct node *node, int fd, const redisReply *request)
{
    (void)node;
    node_put(fd, strcmp(request->element[0]->str, "HELLO") == 0
                     ? NODE_HELLO("$10\r\nstandalone\r\n")
                     : ":0\r\n");
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
        node_put(subscriber_fd, MESSAGE);
    }
    (void)pthread_mutex_unlock(&subscribed);
    return NULL;
}

static void a_broker_that_opens_leaves_a_master_that_is_replaced(void **state)
{
    (void)state;
    static struct node old;
    static struct node new = {.answer = answer_as_master};
    static struct node sentinel = {.answer = answer_as_sentinel};
    char url[64];
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    pthread_t thread;
    struct replacement replacement = {.old = &old, .new = &new};
    const struct qn_broker_options options = {.connect_timeout_ms = TEST_PATIENCE_MS,
                                              .command_timeout_ms = 2 * TEST_PATIENCE_MS};
    node_bind(&old);
    node_start(&new);
    node_start(&sentinel);
    atomic_store(&master_port, old.port);
    (void)snprintf(url, sizeof url, "redis-sentinel://127.0.0.1:%d/0?master=m", sentinel.port);
    assert_int_equal(pthread_create(&thread, NULL, replace, &replacement), 0);
    int64_t begun_ms = test_now_ms();
    assert_ok(qn_broker_open(url, &options, &broker, &err), err);
    assert_in_range(test_now_ms() - begun_ms, 0, TEST_PATIENCE_MS / 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    qn_broker_close(broker);
    node_stop(&sentinel);
    node_stop(&new);
    (void)close(old.fd);
}

static bool has_been_asked(void *user)
{
    return atomic_load(&ask_count) >= *(const size_t *)user;
}

static void *end_replacement(void *user)
{
    const struct replacement *replacement = user;
    size_t several = 3;
    TEST_REQUIRE(test_until(has_been_asked, &several));
    atomic_store(&master_port, replacement->new->port);
    atomic_store(&is_leaving, false);
    return NULL;
}

/* One attempt is enough. */
static void a_broker_that_opens_waits_while_a_master_is_replaced(void **state)
{
    (void)state;
    static struct node old = {.answer = answer_as_master};
    static struct node new = {.answer = answer_as_master};
    static struct node sentinel = {.answer = answer_as_sentinel};
    char url[64];
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    pthread_t thread;
    struct replacement replacement = {.old = &old, .new = &new};
    const struct qn_broker_options options = {.command_timeout_ms = TEST_PATIENCE_MS};
    node_start(&old);
    node_start(&new);
    node_start(&sentinel);
    atomic_store(&master_port, old.port);
    atomic_store(&is_leaving, true);
    (void)snprintf(url, sizeof url, "redis-sentinel://127.0.0.1:%d/0?master=m", sentinel.port);
    assert_int_equal(pthread_create(&thread, NULL, end_replacement, &replacement), 0);
    assert_ok(qn_broker_open(url, &options, &broker, &err), err);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&old.link_count), 0);
    qn_broker_close(broker);
    node_stop(&sentinel);
    node_stop(&new);
    node_stop(&old);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broker_that_opens_leaves_a_master_that_is_replaced),
        cmocka_unit_test(a_broker_that_opens_waits_while_a_master_is_replaced),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
