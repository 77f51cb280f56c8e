/* SPDX-License-Identifier: MIT */
/* test_route.c - the replies of a cluster are those of their commands, however a command came to
 * its node. A node of the test answers a command with its first argument. */
#include "redis/cluster/silence.h"
#include "redis/pipeline.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib_test.h"

#define HELLO                                                                                      \
    "*6\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nmode\r\n$7\r\ncluster\r\n$4\r\nrole\r\n"          \
    "$6\r\nmaster\r\n"

struct node {
    int fd; /* it listens */
    int port;
    pthread_t thread;
};

static void bind_node(struct node *node)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    node->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(node->fd, (const struct sockaddr *)(const void *)&address, size), 0);
    assert_int_equal(getsockname(node->fd, (struct sockaddr *)(void *)&address, &size), 0);
    node->port = ntohs(address.sin_port);
}

static void answer(int fd, const redisReply *request)
{
    char text[128] = HELLO;
    if (strcmp(request->element[0]->str, "HELLO") != 0) {
        (void)snprintf(text, sizeof text, "+%s\r\n", request->element[1]->str);
    }
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void serve_link(int fd)
{
    char data[4096];
    redisReader *reader = redisReaderCreate(); /* a request looks like a reply */
    for (ssize_t size = recv(fd, data, sizeof data, 0); size > 0;
         size = recv(fd, data, sizeof data, 0)) {
        void *request = NULL;
        assert_int_equal(redisReaderFeed(reader, data, (size_t)size), REDIS_OK);
        while (redisReaderGetReply(reader, &request) == REDIS_OK && request != NULL) {
            answer(fd, request);
            freeReplyObject(request);
        }
    }
    redisReaderFree(reader);
    (void)close(fd);
}

static void *serve(void *user)
{
    const struct node *node = user;
    for (int fd = accept(node->fd, NULL, NULL); fd >= 0; fd = accept(node->fd, NULL, NULL)) {
        serve_link(fd);
    }
    return NULL;
}

static struct qn_endpoint *make_model(const struct node *nodes)
{
    char text[128];
    struct qn_url url;
    quern_error err = {0};
    struct qn_endpoint *model = NULL;
    const struct qn_endpoint_terms terms = {.timeout_ms = TEST_PATIENCE_MS};
    (void)snprintf(text, sizeof text, "redis-cluster://127.0.0.1:%d,127.0.0.1:%d", nodes[0].port,
                   nodes[1].port);
    assert_ok(qn_url_parse(text, &url, &err), err);
    assert_ok(qn_endpoint_new(&url, &terms, &model, &err), err);
    qn_url_finish(&url);
    return model;
}

/* A newer map, as a thread that asks for one gets it. */
static void move(struct qn_cluster *cluster, const char *key, int16_t node)
{
    cluster->owners[qn_slots_of(key, strlen(key))] = node;
    (void)atomic_fetch_add(&cluster->epoch, 1);
}

static void ask(struct qn_pipeline *pipeline, const char *key)
{
    qn_pipeline_command(pipeline, "GET");
    qn_pipeline_text(pipeline, key);
}

/* The first one could not be sent, and has another node when the second one is in progress there.
 */
static void a_command_that_follows_later_ones_gets_its_own_reply(void **state)
{
    (void)state;
    struct node nodes[2]; /* the second one refuses connections */
    struct qn_cluster cluster;
    struct qn_channel channel;
    struct qn_pipeline pipeline;
    quern_error err = {0};
    bind_node(&nodes[0]);
    bind_node(&nodes[1]);
    assert_int_equal(listen(nodes[0].fd, 8), 0);
    assert_int_equal(pthread_create(&nodes[0].thread, NULL, serve, &nodes[0]), 0);
    struct qn_endpoint *model = make_model(nodes);
    struct qn_failover failover;
    assert_ok(qn_cluster_init(&cluster, model, &err), err);
    qn_failover_init(&failover, &model, 1);
    qn_channel_init(&channel, &failover, "");
    qn_channel_route(&channel, &cluster);
    move(&cluster, "a", 1);
    move(&cluster, "b", 0);

    qn_pipeline_begin(&pipeline, &channel, QN_PIPELINE_WRITES);
    ask(&pipeline, "a");
    ask(&pipeline, "b");
    assert_ok(qn_pipeline_send(&pipeline, &err), err);
    move(&cluster, "a", 0);
    assert_ok(qn_pipeline_run(&pipeline, &err), err);
    for (size_t i = 0; i < 2; i++) {
        const struct qn_reply *reply = NULL;
        assert_ok(qn_pipeline_reply(&pipeline, i, &reply, &err), err);
        assert_string_equal(qn_reply_text(reply), i == 0 ? "a" : "b");
    }
    qn_pipeline_end(&pipeline);

    qn_channel_finish(&channel);
    qn_silence_stop(&cluster);
    qn_cluster_finish(&cluster);
    qn_failover_finish(&failover);
    (void)shutdown(nodes[0].fd, SHUT_RDWR);
    assert_int_equal(pthread_join(nodes[0].thread, NULL), 0);
    (void)close(nodes[0].fd);
    (void)close(nodes[1].fd);
}

/* Also when the node is known to be silent, and nothing is sent to it. */
static void a_node_without_a_connection_is_named_with_the_reason(void **state)
{
    (void)state;
    struct node nodes[2]; /* both refuse connections */
    struct qn_cluster cluster;
    struct qn_channel channel;
    quern_error err = {0};
    bind_node(&nodes[0]);
    bind_node(&nodes[1]);
    struct qn_endpoint *model = make_model(nodes);
    struct qn_failover failover;
    assert_ok(qn_cluster_init(&cluster, model, &err), err);
    qn_failover_init(&failover, &model, 1);
    qn_channel_init(&channel, &failover, "");
    qn_channel_route(&channel, &cluster);
    move(&cluster, "a", 1);
    for (int i = 0; i < 4; i++) { /* from the second one on it is known to be silent */
        struct qn_pipeline pipeline;
        const struct qn_reply *reply = NULL;
        qn_pipeline_begin(&pipeline, &channel, QN_PIPELINE_WRITES);
        pipeline.timeout_ms = 100;
        ask(&pipeline, "a");
        if (i % 2 == 0) {
            qn_pipeline_hasty(&pipeline);
        }
        err = (quern_error){0};
        assert_int_equal(qn_pipeline_ask(&pipeline, &reply, &err),
                         i % 2 == 0 ? QUERN_E_BUSY : QUERN_E_CONNECT);
        qn_pipeline_end(&pipeline);
        assert_true(qn_silence_is(&cluster, 1));
        assert_non_null(strstr(err.text, "refused"));
    }

    qn_channel_finish(&channel);
    qn_silence_stop(&cluster);
    qn_cluster_finish(&cluster);
    qn_failover_finish(&failover);
    (void)close(nodes[0].fd);
    (void)close(nodes[1].fd);
}

/* Pods whose addresses change: each step of the cluster has another node, and it is used. */
static void nodes_that_are_in_no_map_any_more_are_forgotten(void **state)
{
    (void)state;
    struct node nodes[2];
    struct qn_cluster cluster;
    struct qn_channel channel;
    struct qn_pipeline pipeline;
    quern_error err = {0};
    bind_node(&nodes[0]);
    bind_node(&nodes[1]);
    struct qn_endpoint *model = make_model(nodes);
    struct qn_failover failover;
    assert_ok(qn_cluster_init(&cluster, model, &err), err);
    qn_failover_init(&failover, &model, 1);
    qn_channel_init(&channel, &failover, "");
    qn_channel_route(&channel, &cluster);
    struct qn_slot_place place = {.port = "7000"};
    (void)snprintf(place.host, sizeof place.host, "kept.example");
    int kept = qn_cluster_node_at(&cluster, &place, -1);
    move(&cluster, "kept", (int16_t)kept);
    (void)snprintf(place.host, sizeof place.host, "held.example");
    int held = qn_cluster_node_at(&cluster, &place, -1);
    struct qn_endpoint *endpoint = qn_cluster_hold(&cluster, held);

    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(place.host, sizeof place.host, "pod-%u.example", i);
        int node = qn_cluster_node_at(&cluster, &place, -1);
        assert_in_range(node, 2, 63);
        (void)atomic_fetch_add(&cluster.read_count, 1); /* another map was read */
        move(&cluster, "a", (int16_t)node);
        qn_pipeline_begin(&pipeline, &channel, QN_PIPELINE_WRITES);
        const struct qn_connection *connection = qn_channel_connection(&channel, node);
        assert_string_equal(connection->endpoint->peer.host, place.host);
        assert_ptr_equal(qn_channel_connection(&channel, node), connection);
        qn_pipeline_end(&pipeline);
    }
    assert_true(cluster.node_count < 64);
    assert_string_equal(cluster.nodes[kept]->place.host, "kept.example");
    assert_ptr_equal(cluster.nodes[held]->endpoint, endpoint);
    qn_cluster_release(&cluster, held);

    qn_channel_finish(&channel);
    for (size_t i = 0; i < cluster.node_count; i++) {
        assert_int_equal(cluster.nodes[i]->holds, 0);
    }
    qn_cluster_finish(&cluster);
    qn_failover_finish(&failover);
    (void)close(nodes[0].fd);
    (void)close(nodes[1].fd);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_that_follows_later_ones_gets_its_own_reply),
        cmocka_unit_test(a_node_without_a_connection_is_named_with_the_reason),
        cmocka_unit_test(nodes_that_are_in_no_map_any_more_are_forgotten),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
