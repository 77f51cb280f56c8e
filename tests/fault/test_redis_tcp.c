/* SPDX-License-Identifier: MIT */
/* test_redis_tcp.c - the whole way by TCP, IPv4, as a user with a password and as little permission
 * as docs/protocol/redis.md says; another database than the first. */
#include "lib_worker.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* What the program writes to that stream, its log for one, would go to the server. */
static void no_connection_takes_the_place_of_a_closed_stream(void **state)
{
    (void)state;
    struct test_redis server;
    const struct test_redis_options options = {.tcp = true};
    test_redis_start(&server, &options);
    const char *const urls[] = {server.url, server.tcp_url};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        quern_error err = {0};
        quern_client *client = NULL;
        int kept[STDERR_FILENO + 1]; /* whatever else is opened first takes the lowest of them */
        for (int fd = 0; fd <= STDERR_FILENO; fd++) {
            kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        }
        for (int fd = 0; fd <= STDERR_FILENO; fd++) {
            (void)close(fd);
        }
        quern_status status = quern_client_open(urls[i], NULL, &client, &err);
        bool taken = false;
        for (int fd = 0; fd <= STDERR_FILENO; fd++) {
            struct stat info;
            taken = taken || (fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode));
        }
        quern_client_free(client);
        for (int fd = 0; fd <= STDERR_FILENO; fd++) {
            (void)dup2(kept[fd], fd);
            (void)close(kept[fd]);
        }
        assert_ok(status, err);
        assert_false(taken);
    }
    test_redis_stop(&server);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", no_connection_takes_the_place_of_a_closed_stream),
    TEST_ONLY_OVER("redis", tasks_go_all_the_way_by_tcp),
};
TEST_MAIN_OVER_BROKERS(tests)
