/* SPDX-License-Identifier: MIT */
/* lib_store.c - the table of brokers that tests run over, and the runner that does so. */
#include "lib_store.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "redis/cluster/slots.h"

const char *const test_brokers[TEST_BROKER_COUNT] = {"sqlite", "redis"};

const char test_worker_user[] =
    "user worker on >secret -@all ~asynq:* resetchannels &asynq:cancel &asynq:quern"
    " &__redis__:invalidate +@read +@write +eval +evalsha +script|load +publish +subscribe +ping "
    "+hello +time +wait"
    " +select -@dangerous +info +role +client|setname +client|id +client|tracking"
    " +client|trackinginfo";

static struct test_redis server;
static struct test_redis nodes[TEST_CLUSTER_SIZE]; /* masters of a cluster */
static const char *broker_now = "sqlite";          /* of the present test */

/* --- Places ------------------------------------------------------------------------- */

bool test_store_is(const struct test_store *store, const char *broker)
{
    return strcmp(store->broker, broker) == 0;
}

static bool over_tls(void)
{
    return getenv("QUERN_TEST_TLS") != NULL;
}

struct test_redis *test_store_server(void)
{
    if (server.pid == 0) {
        test_redis_stop(&server); /* a test has lost it */
        const struct test_redis_options options = {
            .turned = true, .tls = over_tls(), .append = true, .config = test_worker_user};
        test_redis_start(&server, &options);
    }
    return &server;
}

/* Clocks that stand still or jump are no failure of a node. */
static const char cluster_lines[] = "cluster-enabled yes\ncluster-config-file nodes.conf\n"
                                    "cluster-node-timeout 1000000000000\n"
                                    "cluster-require-full-coverage no\n";

static bool is_formed(void *user)
{
    struct test_redis *node = user;
    const char *info = test_redis_do(node, "CLUSTER INFO");
    char known[32];
    (void)snprintf(known, sizeof known, "cluster_known_nodes:%d\r", TEST_CLUSTER_SIZE);
    return strstr(info, "cluster_state:ok") != NULL && strstr(info, known) != NULL &&
           strstr(info, "cluster_slots_ok:16384") != NULL;
}

static void start_nodes(void)
{
    char config[1024];
    (void)snprintf(config, sizeof config, "%s%s +cluster|slots", cluster_lines, test_worker_user);
    const struct test_redis_options options = {
        .turned = true, .tcp = true, .append = true, .config = config};
    for (int i = 0; i < TEST_CLUSTER_SIZE; i++) {
        test_redis_start(&nodes[i], &options);
        for (int slot = i; slot < 16384; slot += TEST_CLUSTER_SIZE) {
            (void)test_redis_do(&nodes[i], "CLUSTER ADDSLOTS %d", slot);
        }
        (void)test_redis_do(&nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
        (void)test_redis_do(&nodes[i], "CLUSTER MEET 127.0.0.1 %d", nodes[0].port);
    }
    for (int i = 0; i < TEST_CLUSTER_SIZE; i++) {
        assert_true(test_until(is_formed, &nodes[i]));
    }
}

static void open_nodes(struct test_store *store, int64_t wall_ms)
{
    if (nodes[0].pid == 0) {
        start_nodes();
    }
    for (int i = 0; i < TEST_CLUSTER_SIZE; i++) {
        test_redis_empty(&nodes[i]);
        test_redis_turn(&nodes[i], wall_ms * 1000);
    }
    (void)snprintf(store->url, sizeof store->url, "redis-cluster://worker:secret@127.0.0.1:%d",
                   nodes[0].port);
}

void test_store_open_at(struct test_store *store, const char *broker, int64_t wall_ms)
{
    *store = (struct test_store){.broker = broker, .wall_ms = wall_ms};
    test_dir_make(store->dir);
    if (test_store_is(store, "memory")) {
        (void)snprintf(store->url, sizeof store->url, "memory:");
        return;
    }
    if (test_store_is(store, "sqlite")) {
        (void)snprintf(store->url, sizeof store->url, "sqlite://%s/tasks.db", store->dir);
        return;
    }
    if (test_store_is(store, "cluster")) {
        open_nodes(store, wall_ms);
        return;
    }
    struct test_redis *redis = test_store_server();
    test_redis_empty(redis);
    (void)test_redis_do(redis, "CONFIG SET maxmemory 0"); /* a test before may have failed */
    test_redis_turn(redis, wall_ms * 1000);
    if (over_tls()) {
        (void)snprintf(store->url, sizeof store->url, "rediss://worker:secret@%s",
                       redis->tls_url + strlen("rediss://"));
        return;
    }
    (void)snprintf(store->url, sizeof store->url, "redis-socket://worker:secret@%.*s",
                   (int)sizeof redis->socket_path, redis->socket_path);
}

void test_store_open(struct test_store *store, int64_t wall_ms)
{
    test_store_open_at(store, broker_now, wall_ms);
}

struct test_redis *test_store_node(int node)
{
    return &nodes[node];
}

int test_store_owner(const char *key)
{
    return qn_slots_of(key, strlen(key)) % TEST_CLUSTER_SIZE;
}

void test_store_silence(int node)
{
    assert_int_equal(kill(nodes[node].pid, SIGSTOP), 0);
}

void test_store_speak(int node)
{
    assert_int_equal(kill(nodes[node].pid, SIGCONT), 0);
}

void test_store_close(struct test_store *store)
{
    for (int i = 0; i < TEST_CLUSTER_SIZE && nodes[i].pid != 0; i++) {
        (void)kill(nodes[i].pid, SIGCONT);
    }
    test_dir_remove(store->dir);
}

void test_store_advance(struct test_store *store, int64_t ms)
{
    if (test_store_is(store, "redis") && store->wall_ms != 0) {
        store->wall_ms += ms;
        test_redis_turn(&server, store->wall_ms * 1000);
    }
    if (test_store_is(store, "cluster") && store->wall_ms != 0) {
        store->wall_ms += ms;
        for (int i = 0; i < TEST_CLUSTER_SIZE; i++) {
            test_redis_turn(&nodes[i], store->wall_ms * 1000);
        }
    }
}

/* A writer in progress ends first. */
static sqlite3 *lock_file(const char *path)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, TEST_PATIENCE_MS), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

void test_store_block(struct test_store *store)
{
    assert_null(store->lock);
    if (test_store_is(store, "sqlite")) {
        store->lock = lock_file(store->url + strlen("sqlite://"));
        return;
    }
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    store->lock = &server;
}

void test_store_unblock(struct test_store *store)
{
    assert_non_null(store->lock);
    if (test_store_is(store, "sqlite")) {
        assert_int_equal(sqlite3_close(store->lock), SQLITE_OK);
    } else {
        assert_int_equal(kill(server.pid, SIGCONT), 0);
    }
    store->lock = NULL;
}

void test_store_finish(void)
{
    test_redis_stop(&server);
    for (int i = 0; i < TEST_CLUSTER_SIZE; i++) {
        test_redis_stop(&nodes[i]);
    }
}

/* --- The runner --------------------------------------------------------------------- */

struct store_case {
    const char *broker;
    const struct CMUnitTest *test;
};

bool test_broker_wanted(const char *broker, const char *only)
{
    const char *one = getenv("QUERN_TEST_BROKER");
    if (one == NULL && strcmp(broker, "cluster") == 0) {
        return false; /* only where it is asked for: it takes seconds to start */
    }
    return (one == NULL || strcmp(one, broker) == 0) && (only == NULL || strcmp(only, broker) == 0);
}

char *test_broker_name(const char *name, const char *broker)
{
    char *both = NULL;
    bool first = strcmp(broker, test_brokers[0]) == 0;
    int size = first ? asprintf(&both, "%s", name) : asprintf(&both, "%s (%s)", name, broker);
    return size < 0 ? NULL : both;
}

static void run_case(void **state)
{
    const struct store_case *one = *state;
    void *nothing = NULL;
    broker_now = one->broker;
    one->test->test_func(&nothing);
}

/* A failed test leaves a server in an unknown state: the next test gets another one. */
static int tear_down(void **state)
{
    (void)state;
    if (server.pid != 0) {
        (void)kill(server.pid, SIGCONT);
    }
    return 0;
}

/* The wanted cases: each test over each broker. */
static size_t make_cases(const struct test_group *group, struct store_case *cases,
                         struct CMUnitTest *units)
{
    size_t used = 0;
    for (size_t i = 0; i < group->test_count * TEST_BROKER_COUNT; i++) {
        const char *broker = test_brokers[i / group->test_count];
        const struct CMUnitTest *test = &group->tests[i % group->test_count];
        if (test_broker_wanted(broker, test->initial_state)) {
            cases[used] = (struct store_case){.broker = broker, .test = test};
            units[used] = (struct CMUnitTest){.name = test_broker_name(test->name, broker),
                                              .test_func = run_case,
                                              .teardown_func = tear_down,
                                              .initial_state = &cases[used]};
            used++;
        }
    }
    return used;
}

int test_main_over_brokers(int argc, char **argv, const struct test_group *group)
{
    size_t total = group->test_count * TEST_BROKER_COUNT;
    struct store_case *cases = calloc(total, sizeof *cases);
    struct CMUnitTest *units = calloc(total, sizeof *units);
    int code = 1;
    if (cases != NULL && units != NULL) {
        struct test_group all = *group;
        all.tests = units;
        all.test_count = make_cases(group, cases, units);
        code = test_main(argc, argv, &all);
        for (size_t i = 0; i < all.test_count; i++) {
            free((void *)(uintptr_t)units[i].name);
        }
    }
    test_store_finish();
    free(units);
    free(cases);
    return code;
}
