/* SPDX-License-Identifier: MIT */
/* test_map.c - which nodes of a cluster are asked for its map, and in which order. The nodes are
 * threads of the test; each names the first one as the owner of all slots. */
#include "redis/cluster/cluster.h"

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

/* The first one is the master of all slots, and the first seed: else it would be asked first. */
static void a_node_that_is_likely_to_be_down_is_asked_after_the_seeds(void **state)
{
    (void)state;
    char text[96];
    struct qn_url url;
    quern_error err = {0};
    struct qn_endpoint *model = NULL;
    static struct qn_cluster cluster;
    const struct qn_endpoint_terms terms = {.timeout_ms = TEST_PATIENCE_MS};
    struct qn_cluster_fault fault = {.better = -1, .worse = -1};
    for (size_t i = 0; i < TEST_COUNT(nodes); i++) {
        nodes[i].answer = answer;
        node_start(&nodes[i]);
    }
    (void)snprintf(text, sizeof text, "redis-cluster://127.0.0.1:%d,127.0.0.1:%d", nodes[0].port,
                   nodes[1].port);
    assert_ok(qn_url_parse(text, &url, &err), err);
    assert_ok(qn_endpoint_new(&url, &terms, &model, &err), err);
    qn_url_finish(&url);
    assert_ok(qn_cluster_init(&cluster, model, &err), err);
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

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_is_likely_to_be_down_is_asked_after_the_seeds),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
