/* SPDX-License-Identifier: MIT */
/* test_map.c - which nodes of a cluster are asked for its map, in which order, and how many it may
 * name. The nodes are threads of the test; each names the first one as the owner of all slots. */
#include "redis/cluster/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib_node.h"
#include "lib_test.h"

static struct node nodes[2];

static void answer(struct node *node, int fd, const redisReply *request)
{
    char text[128];
    char port[8];
    (void)node;
    int size = snprintf(port, sizeof port, "%d", nodes[0].port);
    (void)snprintf(text, sizeof text,
                   "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%.*s\r\n", size, port);
    node_put(fd, strcmp(request->element[0]->str, "HELLO") == 0 ? NODE_HELLO("$7\r\ncluster\r\n")
                                                                : text);
}

/* With the first nodes as its seeds. Returns the model, for the caller. */
static struct qn_endpoint *open_cluster(struct qn_cluster *cluster, size_t seeds)
{
    char text[96] = "redis-cluster://";
    struct qn_url url;
    quern_error err = {0};
    struct qn_endpoint *model = NULL;
    const struct qn_endpoint_terms terms = {.timeout_ms = TEST_PATIENCE_MS};
    for (size_t i = 0; i < seeds; i++) {
        size_t at = strlen(text);
        (void)snprintf(text + at, sizeof text - at, "%s127.0.0.1:%d", i == 0 ? "" : ",",
                       nodes[i].port);
    }
    assert_ok(qn_url_parse(text, &url, &err), err);
    assert_ok(qn_endpoint_new(&url, &terms, &model, &err), err);
    qn_url_finish(&url);
    assert_ok(qn_cluster_init(cluster, model, &err), err);
    return model;
}

/* The first one is the master of all slots, and the first seed: else it would be asked first. */
static void a_node_that_is_likely_to_be_down_is_asked_after_the_seeds(void **state)
{
    (void)state;
    quern_error err = {0};
    static struct qn_cluster cluster;
    struct qn_cluster_fault fault = {.better = -1, .worse = -1};
    for (size_t i = 0; i < TEST_COUNT(nodes); i++) {
        nodes[i].answer = answer;
        node_start(&nodes[i]);
    }
    struct qn_endpoint *model = open_cluster(&cluster, TEST_COUNT(nodes));
    int64_t deadline_mono_ns = qn_clock_mono_ns() + TEST_PATIENCE_MS * QN_NS_PER_MS;
    assert_ok(qn_cluster_refresh(&cluster, &fault, deadline_mono_ns, &err), err);
    assert_int_equal(atomic_load(&nodes[0].link_count), 1);
    assert_int_equal(atomic_load(&nodes[1].link_count), 0);
    fault =
        (struct qn_cluster_fault){.epoch = qn_cluster_epoch(&cluster), .better = -1, .worse = 0};
    assert_ok(qn_cluster_refresh(&cluster, &fault, deadline_mono_ns, &err), err);
    assert_int_equal(atomic_load(&nodes[0].link_count), 1);
    assert_int_equal(atomic_load(&nodes[1].link_count), 1);
    qn_cluster_finish(&cluster);
    qn_endpoint_unref(model);
    for (size_t i = 0; i < TEST_COUNT(nodes); i++) {
        node_stop(&nodes[i]);
    }
}

/* --- A large cluster ------------------------------------------------------------------ */

enum { LARGE = QN_SLOT_NODES_MAX - 24, RANGE_SIZE = 64 };
static atomic_int generation; /* of its nodes */

static void answer_large(struct node *node, int fd, const redisReply *request)
{
    char *text = malloc(LARGE * RANGE_SIZE);
    size_t size = (size_t)snprintf(text, RANGE_SIZE, "*%d\r\n", LARGE);
    (void)node;
    for (int i = 0; i < LARGE; i++) {
        size += (size_t)snprintf(text + size, RANGE_SIZE,
                                 "*3\r\n:%d\r\n:%d\r\n*2\r\n$8\r\n10.0.0.%d\r\n:%d\r\n", i, i,
                                 atomic_load(&generation), 1000 + i);
    }
    node_put(fd, strcmp(request->element[0]->str, "HELLO") == 0 ? NODE_HELLO("$7\r\ncluster\r\n")
                                                                : text);
    free(text);
}

/* As where all machines, or containers, got other addresses. */
static void all_nodes_of_a_large_cluster_may_be_replaced_at_once(void **state)
{
    (void)state;
    static struct qn_cluster cluster;
    struct qn_endpoint *model = NULL;
    quern_error err = {0};
    struct qn_cluster_fault fault = {.better = 0, .worse = -1};
    nodes[0] = (struct node){.answer = answer_large};
    node_start(&nodes[0]);
    model = open_cluster(&cluster, 1);
    int64_t deadline_mono_ns = qn_clock_mono_ns() + TEST_PATIENCE_MS * QN_NS_PER_MS;
    for (int i = 1; i <= 3; i++) {
        int masters[QN_SLOT_NODES_MAX];
        atomic_store(&generation, i);
        fault.epoch = qn_cluster_epoch(&cluster);
        assert_ok(qn_cluster_refresh(&cluster, &fault, deadline_mono_ns, &err), err);
        assert_int_equal(qn_cluster_masters(&cluster, masters, QN_SLOT_NODES_MAX), LARGE);
        struct qn_endpoint *last = qn_cluster_endpoint_ref(&cluster, masters[LARGE - 1]);
        assert_int_equal(last->peer.host[strlen(last->peer.host) - 1], '0' + i);
        qn_endpoint_unref(last);
    }
    qn_cluster_finish(&cluster);
    qn_endpoint_unref(model);
    node_stop(&nodes[0]);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_is_likely_to_be_down_is_asked_after_the_seeds),
        cmocka_unit_test(all_nodes_of_a_large_cluster_may_be_replaced_at_once),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
