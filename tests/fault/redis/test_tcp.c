/* SPDX-License-Identifier: MIT */
/* test_tcp.c - client and worker by TCP, IPv4, as the user of docs/protocol/redis.md with a
 * password and few permissions; another database than the first. */
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
    struct rig *rig = rig_new(false);
    struct test_redis tcp;
    struct rig_worker worker;
    quern_error err = {0};
    const struct test_redis_options options = {.tcp = true, .config = test_worker_user};
    test_redis_start(&tcp, &options);
    (void)snprintf(url, sizeof url, "redis://worker:secret@127.0.0.1:%d/5", tcp.port);
    quern_client_free(rig->client);
    qn_broker_close(rig->broker);
    rig->url = url;
    assert_ok(quern_client_open(url, NULL, &rig->client, &err), err);
    assert_ok(qn_broker_open(url, &(struct qn_broker_options){0}, &rig->broker, &err), err);
    rig_put(rig, "retry", "retry");
    rig_put(rig, "archive", "archive");
    rig_put(rig, "result", "result");
    rig_put(rig, "wait", "wait");
    rig_put_many(rig, NULL, "n", TASKS);
    rig_start(rig, &worker, NULL);
    rig_wait_reports(rig, TASKS + 3);
    rig_act(rig, QUERN_ACTION_CANCEL_ARCHIVE, "wait");
    rig_wait_state(rig, "wait", QUERN_TASK_ARCHIVED);
    rig_put(rig, "late", "done"); /* wakes the worker */
    rig_wait_reports(rig, TASKS + 5);
    assert_ok(qn_broker_pause(rig->broker, "default", true, &err), err);
    rig_stop(&worker);
    assert_int_equal(rig_state(rig, "retry"), QUERN_TASK_RETRY);
    assert_int_equal(rig_queue(rig, "default").processed_total, TASKS + 5);
    assert_non_null(strstr(test_redis_do(&tcp, "INFO keyspace"), "db5:"));
    assert_null(strstr(test_redis_do(&tcp, "INFO keyspace"), "db0:"));
    rig_free(rig);
    test_redis_stop(&tcp);
}

/* Output of the program to that stream, its log for one, would go to the server. */
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
