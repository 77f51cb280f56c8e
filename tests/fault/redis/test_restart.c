/* SPDX-License-Identifier: MIT */
/* test_restart.c - a Redis server that stops and comes back while clients enqueue and workers run:
 * no acknowledged task is lost, and none runs twice. It is ended with an AOF everysec, and killed
 * with an AOF always, since everysec may answer before it writes. */
#include "lib_fault.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 20, BATCHES = 60, BATCHES_FULL = 600 };

struct load {
    const char *url;
    size_t batches;
    quern_status status; /* the first that is no sign of an outage */
    quern_error error;
};

/* Nothing was changed: to be asked again. */
static bool is_outage(quern_status status)
{
    return status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT || status == QUERN_E_BUSY;
}

/* Stores one batch, however long it takes. */
static quern_status store(struct load *load, quern_client *client, size_t first)
{
    quern_task tasks[BATCH];
    char numbers[BATCH][16];
    for (size_t i = 0; i < BATCH; i++) {
        (void)snprintf(numbers[i], sizeof numbers[i], "%zu", first + i);
        tasks[i] = (quern_task){.type = "steady",
                                .id = numbers[i],
                                .payload = numbers[i],
                                .payload_size = strlen(numbers[i]),
                                .retention_ms = 24 * 3600 * INT64_C(1000)};
    }
    int64_t end_ms = test_now_ms() + TEST_PATIENCE_MS;
    quern_status status = QUERN_E_CONNECT;
    while (is_outage(status) && test_now_ms() < end_ms) {
        status = quern_client_enqueue_batch(client, tasks, BATCH, NULL, &load->error);
        if (is_outage(status)) {
            test_pause_ms(5);
        }
    }
    return status;
}

static void *put_load(void *argument)
{
    struct load *load = argument;
    quern_client *client = NULL;
    load->status = quern_client_open(load->url, NULL, &client, &load->error);
    for (size_t i = 0; load->status == QUERN_OK && i < load->batches; i++) {
        load->status = store(load, client, i * BATCH);
        test_pause_ms(2);
    }
    quern_client_free(client);
    return NULL;
}

/* A worker that meets a dead server while it opens ends. */
static bool both_workers_are_there(void *user)
{
    return test_redis_count(user, "HLEN asynq:quern:workers") == 2;
}

static bool is_rewritten(void *user)
{
    const char *info = test_redis_do(user, "INFO persistence");
    return strstr(info, "aof_rewrite_in_progress:0") != NULL &&
           strstr(info, "aof_rewrite_scheduled:0") != NULL;
}

/* A kill may cut the AOF within a transaction. Redis (7.0.15, seen) then cuts it behind the last
 * whole command of that, not before it, and at the next restart executes what it had left out, at
 * the end of a later transaction: counters grow twice. With a new file the second kill of a test
 * finds no such remains. */
static void begin_new_file(struct test_redis *server)
{
    test_redis_await(server);
    (void)test_redis_do(server, "BGREWRITEAOF");
    assert_true(test_until(is_rewritten, server));
}

static void restart_under_load(void (*end)(struct test_redis *server))
{
    size_t kills = test_full() ? 30 : 3;
    struct fault_site site;
    struct test_child children[2];
    pthread_t thread;
    fault_site_open(&site);
    struct test_redis *server = test_store_server();
    struct load load = {.url = site.url, .batches = test_full() ? BATCHES_FULL : BATCHES};
    for (size_t i = 0; i < 2; i++) {
        children[i] = fault_spawn_worker(&site, "4", "stay");
    }
    assert_true(test_until(both_workers_are_there, server));
    assert_int_equal(pthread_create(&thread, NULL, put_load, &load), 0);
    size_t total = load.batches * BATCH;
    for (size_t kill = 1; kill <= kills; kill++) {
        fault_wait_records(&site, 2 * total * kill / (kills + 1));
        end(server);
        test_redis_launch(server);
        if (end == test_redis_kill) {
            begin_new_file(server);
        }
    }
    test_redis_await(server);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(load.status, load.error);
    site.task_count = total;
    fault_wait_records(&site, 2 * total);
    for (size_t i = 0; i < 2; i++) {
        test_child_send(&children[i], 'q');
        assert_int_equal(test_child_join(&children[i]), 0);
    }
    assert_int_equal(fault_journal_judge(&site, SIZE_MAX), 0);
    fault_assert_end(&site, total, 0);
    fault_site_close(&site);
}

static void restarts_lose_nothing_and_repeat_nothing(void **state)
{
    (void)state;
    restart_under_load(test_redis_end);
}

static void kills_lose_nothing_where_each_write_is_synced(void **state)
{
    (void)state;
    struct test_redis *server = test_store_server();
    (void)test_redis_do(server, "CONFIG SET appendfsync always");
    test_redis_configure(server, "appendfsync always");
    restart_under_load(test_redis_kill);
    test_redis_configure(server, "");
    (void)test_redis_do(server, "CONFIG SET appendfsync everysec");
}

static bool is_loading(void *user)
{
    return strstr(test_redis_do(user, "PING"), "LOADING") != NULL;
}

static bool is_up(void *user)
{
    struct test_redis *server = user;
    return test_redis_up(server);
}

static void server_that_is_loading_is_waited_for(void **state)
{
    (void)state;
    struct fault_site site;
    quern_client *client = NULL;
    quern_error err = {0};
    fault_site_open(&site);
    struct test_redis *server = test_store_server();
    fault_enqueue(&site, "steady", 500);
    struct test_child child = fault_spawn_worker(&site, "4", "stay");
    fault_wait_records(&site, 2 * site.task_count);
    assert_ok(quern_client_open(site.url, NULL, &client, &err), err);
    quern_task task = {.type = "steady", .id = "500", .payload = "500", .payload_size = 3};
    task.retention_ms = 24 * 3600 * INT64_C(1000);
    test_redis_end(server);
    test_redis_configure(server, "key-load-delay 100"); /* microseconds for each command */
    test_redis_launch(server);
    assert_true(test_until(is_up, server));
    assert_true(test_until(is_loading, server));
    assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    site.task_count++;
    fault_wait_records(&site, 2 * site.task_count);
    test_child_send(&child, 'q');
    assert_int_equal(test_child_join(&child), 0);
    assert_int_equal(fault_journal_judge(&site, SIZE_MAX), 0);
    fault_assert_end(&site, site.task_count, 0);
    quern_client_free(client);
    test_redis_configure(server, "");
    fault_site_close(&site);
}

static const struct CMUnitTest tests[] = {
    /* The first, as long as the AOF is short. */
    TEST_ONLY_OVER("redis", server_that_is_loading_is_waited_for),
    TEST_ONLY_OVER("redis", restarts_lose_nothing_and_repeat_nothing),
    TEST_ONLY_OVER("redis", kills_lose_nothing_where_each_write_is_synced),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = FAULT_ROLES;
    const struct test_group group = {"redis_restart", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
