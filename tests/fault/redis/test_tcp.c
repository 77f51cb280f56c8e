/* SPDX-License-Identifier: MIT */
/* test_tcp.c - the whole way by TCP, IPv4, as a user with a password and as little permission
 * as docs/protocol/redis.md says; another database than the first. */
#include "lib_worker.h"

#include <string.h>

static void tasks_go_all_the_way_by_tcp(void **state)
{
    (void)state;
    enum { TASKS = 200 };
    static char url[100];
    struct stage *stage = stage_new(false);
    struct test_redis tcp;
    struct stage_worker worker;
    quern_error err = {0};
    const struct test_redis_options options = {.tcp = true, .config = test_worker_user};
    test_redis_start(&tcp, &options);
    (void)snprintf(url, sizeof url, "redis://worker:secret@127.0.0.1:%d/5", tcp.port);
    quern_client_free(stage->client);
    qn_broker_close(stage->broker);
    stage->url = url;
    assert_ok(quern_client_open(url, NULL, &stage->client, &err), err);
    assert_ok(qn_broker_open(url, &(struct qn_broker_options){0}, &stage->broker, &err), err);
    stage_put(stage, "retry", "retry");
    stage_put(stage, "archive", "archive");
    stage_put(stage, "result", "result");
    stage_put(stage, "wait", "wait");
    stage_put_many(stage, NULL, "n", TASKS);
    stage_start(stage, &worker, NULL);
    stage_wait_reports(stage, TASKS + 3);
    stage_act(stage, QUERN_ACTION_CANCEL_ARCHIVE, "wait");
    stage_wait_state(stage, "wait", QUERN_TASK_ARCHIVED);
    stage_put(stage, "late", "done"); /* wakes the worker */
    stage_wait_reports(stage, TASKS + 5);
    assert_ok(qn_broker_pause(stage->broker, "default", true, &err), err);
    stage_stop(&worker);
    assert_int_equal(stage_state(stage, "retry"), QUERN_TASK_RETRY);
    assert_int_equal(stage_queue(stage, "default").processed_total, TASKS + 5);
    assert_non_null(strstr(test_redis_do(&tcp, "INFO keyspace"), "db5:"));
    assert_null(strstr(test_redis_do(&tcp, "INFO keyspace"), "db0:"));
    stage_free(stage);
    test_redis_stop(&tcp);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", tasks_go_all_the_way_by_tcp),
};
TEST_MAIN_OVER_BROKERS(tests)
