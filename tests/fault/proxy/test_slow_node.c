/* SPDX-License-Identifier: MIT */
/* test_slow_node.c - one node of a cluster has a slow link: as long as its replies arrive at a fair
 * rate it is waited for, however large they are; where they crawl, the other nodes go on. */
#include "lib_proxy.h"
#include "lib_store.h"

#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "quern/client.h"

enum {
    SEED = 0, /* the node that the URL names */
    SLOW = 1,
    LARGE = 800 * 1024,
    FAIR_RATE = 800 * 1024, /* its reply takes twice as long as a silent node is waited for */
    CRAWL_RATE = 1000,
    LATE_MS = 3 * 2000
};

struct scene {
    struct test_store store;
    struct proxy *proxy; /* before the slow node */
    struct qn_broker *broker;
    char queues[2][16]; /* of both nodes */
};

static bool is_announced(void *user)
{
    const struct scene *scene = user;
    const char *port = strrchr(proxy_address(scene->proxy), ':') + 1;
    test_pause_ms(20);
    return strstr(test_redis_do(test_store_node(SEED), "CLUSTER NODES"), port) != NULL;
}

static void put(struct scene *scene, int node, size_t size)
{
    quern_error err = {0};
    quern_client *client = NULL;
    char *payload = calloc(1, size);
    const quern_task task = {
        .type = "t", .queue = scene->queues[node], .payload = payload, .payload_size = size};
    assert_non_null(payload);
    assert_ok(quern_client_open(scene->store.url, NULL, &client, &err), err);
    assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    quern_client_free(client);
    free(payload);
}

static void name_queues(struct scene *scene)
{
    for (int node = SEED; node <= SLOW; node++) {
        char *name = scene->queues[node];
        for (int i = 0; name[0] == '\0' || test_store_owner(name) != node; i++) {
            (void)snprintf(name, sizeof scene->queues[node], "q%d", i);
        }
    }
}

static void open_scene(struct scene *scene)
{
    char server[32];
    quern_error err = {0};
    *scene = (struct scene){0};
    test_store_open_at(&scene->store, "cluster", 0);
    name_queues(scene);
    (void)snprintf(server, sizeof server, "127.0.0.1:%d", test_store_node(SLOW)->port);
    scene->proxy = proxy_start(&(struct proxy_options){.server = server, .listen = "127.0.0.1:0"});
    (void)test_redis_do(test_store_node(SLOW), "CONFIG SET cluster-announce-port %s",
                        strrchr(proxy_address(scene->proxy), ':') + 1);
    assert_true(test_until(is_announced, scene));
    const struct qn_broker_options options = {0};
    assert_ok(qn_broker_open(scene->store.url, &options, &scene->broker, &err), err);
}

static void close_scene(struct scene *scene)
{
    qn_broker_close(scene->broker);
    (void)test_redis_do(test_store_node(SLOW), "CONFIG SET cluster-announce-port 0");
    proxy_stop(scene->proxy);
    test_store_close(&scene->store);
}

/* Leases one run of each queue; returns how many there were. */
static size_t lease(struct scene *scene, uint64_t sequence, bool *ret_is_partial)
{
    quern_error err = {0};
    struct qn_leased *runs[2];
    bool unanswered[2];
    struct qn_queue_share shares[] = {{.name = scene->queues[SEED], .weight = 1, .quota = 1},
                                      {.name = scene->queues[SLOW], .weight = 1, .quota = 1}};
    struct qn_exchange exchange = {.stamp = {7, sequence},
                                   .worker_id = "host:1:worker",
                                   .host = "host",
                                   .lease_ms = 30000,
                                   .queues = shares,
                                   .queue_count = 2,
                                   .room = 2,
                                   .start_count_now = 2};
    struct qn_exchange_reply reply = {.runs = runs, .unanswered = unanswered};
    int64_t begun_ms = test_now_ms();
    assert_ok(qn_broker_exchange(scene->broker, &exchange, &reply, &err), err);
    print_message("%zu runs after %lld ms\n", reply.run_count,
                  (long long)(test_now_ms() - begun_ms));
    assert_in_range(test_now_ms() - begun_ms, 0, LATE_MS);
    for (size_t i = 0; i < reply.run_count; i++) {
        qn_leased_free(runs[i]);
    }
    *ret_is_partial = reply.is_partial;
    return reply.run_count;
}

/* With its connections open, as in a program that has run for a while. */
static size_t lease_at_rate(unsigned rate, bool *ret_is_partial)
{
    struct scene scene;
    open_scene(&scene);
    assert_int_equal(lease(&scene, 1, ret_is_partial), 0);
    put(&scene, SEED, 1);
    put(&scene, SLOW, LARGE);
    proxy_crawl(scene.proxy, (struct proxy_rates){.given = rate});
    size_t count = lease(&scene, 2, ret_is_partial);
    close_scene(&scene);
    return count;
}

static void node_that_sends_much_is_not_silent(void **state)
{
    (void)state;
    bool is_partial = true;
    assert_int_equal(lease_at_rate(FAIR_RATE, &is_partial), 2);
    assert_false(is_partial);
}

static void node_that_crawls_holds_up_no_other(void **state)
{
    (void)state;
    bool is_partial = false;
    assert_int_equal(lease_at_rate(CRAWL_RATE, &is_partial), 1);
    assert_true(is_partial);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_that_sends_much_is_not_silent),
        cmocka_unit_test(node_that_crawls_holds_up_no_other),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    int code = test_main(argc, argv, &group);
    test_store_finish();
    return code;
}
