/* SPDX-License-Identifier: MIT */
/* test_silence.c - links that fall silent while much is on its way, or nothing: a client that waits
 * for a result, and one whose upload the peer stops reading. With QUERN_TEST_TLS by TLS. */
#include "lib_proxy.h"
#include "lib_store.h"
#include "lib_waiter.h"

#include <stdlib.h>
#include <string.h>

#include "quern/quern.h"

enum {
    NOTICED_MS = 10000,
    UPLOAD_MS = 1500,
    UPLOAD_TASKS = 16,
    UPLOAD_SIZE = 640 * 1024 /* 10 MiB together: no socket buffers so much */
};

struct scene {
    struct test_store store;
    struct proxy *proxy;
    quern_client *near; /* by the proxy */
    quern_client *far;  /* by a way that works */
};

static void open_scene(struct scene *scene, int64_t command_timeout_ms)
{
    quern_error err = {0};
    const quern_client_options options = {.command_timeout_ms = command_timeout_ms};
    *scene = (struct scene){0};
    test_store_open(&scene->store, 0);
    scene->proxy = proxy_start_tcp_for(test_store_server(), test_seed());
    assert_ok(quern_client_open(proxy_url(scene->proxy), &options, &scene->near, &err), err);
    assert_ok(quern_client_open(scene->store.url, NULL, &scene->far, &err), err);
}

static void close_scene(struct scene *scene)
{
    quern_client_free(scene->near);
    quern_client_free(scene->far);
    proxy_stop(scene->proxy);
    test_store_close(&scene->store);
}

static quern_outcome finish(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

static void *work(void *worker)
{
    quern_error err = {0};
    return quern_worker_run(worker, &err) == QUERN_OK ? NULL : worker;
}

static bool has_links(void *user)
{
    /* One reads, one is tracked, and one listens. */
    const char *list = test_redis_do(test_store_server(), "CLIENT LIST");
    (void)user;
    return strstr(list, "-tracked ") != NULL && strstr(list, "cmd=subscribe") != NULL;
}

/* All links of the client fall silent, also for the kernel; the task ends by another way. */
static void a_client_that_waits_notices_a_dead_link(void **state)
{
    (void)state;
    static const enum proxy_state ways[] = {PROXY_SWALLOWS, PROXY_VANISHED};
    for (size_t i = 0; i < TEST_COUNT(ways); i++) {
        struct scene scene;
        struct test_waiter waiter;
        quern_error err = {0};
        quern_mux *mux = NULL;
        quern_worker *worker = NULL;
        pthread_t thread;
        void *failed = NULL;
        open_scene(&scene, 0);
        assert_ok(quern_mux_new(&mux, &err), err);
        assert_ok(quern_mux_handle(mux, "t", finish, NULL, NULL, &err), err);
        assert_ok(quern_worker_new(scene.store.url, mux, NULL, &worker, &err), err);
        const quern_task task = {.type = "t", .id = "a", .retention_ms = 600000};
        assert_ok(quern_client_enqueue(scene.far, &task, NULL, &err), err);
        test_waiter_start(&waiter, scene.near, "a");
        assert_true(test_until(has_links, NULL));
        assert_true(proxy_break_links(scene.proxy, NULL, ways[i]) >= 2);
        assert_int_equal(pthread_create(&thread, NULL, work, worker), 0);
        int64_t begun_ms = test_now_ms();
        test_waiter_assert(&waiter, QUERN_TASK_COMPLETED);
        print_message("noticed after %lld ms\n", (long long)(test_now_ms() - begun_ms));
        assert_in_range(test_now_ms() - begun_ms, 0, 3 * NOTICED_MS);
        quern_worker_stop(worker);
        assert_int_equal(pthread_join(thread, &failed), 0);
        assert_null(failed);
        quern_worker_free(worker);
        quern_mux_free(mux);
        close_scene(&scene);
    }
}

/* The peer stops reading in the middle of 10 MiB. The call ends in its time, and what it says of
 * each task is true; afterwards all goes through. */
static void an_upload_that_nobody_reads_ends_in_time(void **state)
{
    (void)state;
    struct scene scene;
    quern_error err = {0};
    quern_task tasks[UPLOAD_TASKS];
    char ids[UPLOAD_TASKS][16];
    quern_enqueue_result results[UPLOAD_TASKS];
    char *payload = calloc(1, UPLOAD_SIZE);
    assert_non_null(payload);
    open_scene(&scene, UPLOAD_MS);
    for (size_t i = 0; i < UPLOAD_TASKS; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "up%zu", i);
        tasks[i] = (quern_task){
            .type = "t", .id = ids[i], .payload = payload, .payload_size = UPLOAD_SIZE};
    }
    assert_ok(
        quern_client_enqueue(scene.near, &(quern_task){.type = "t", .id = "small"}, NULL, &err),
        err);
    assert_true(proxy_break_links(scene.proxy, NULL, PROXY_SWALLOWS) >= 1);
    proxy_set_state(scene.proxy, PROXY_SWALLOWS);
    int64_t begun_ms = test_now_ms();
    assert_int_not_equal(quern_client_enqueue_batch(scene.near, tasks, UPLOAD_TASKS, results, &err),
                         QUERN_OK);
    assert_in_range(test_now_ms() - begun_ms, 0, 3 * (UPLOAD_MS + NOTICED_MS));
    for (size_t i = 0; i < UPLOAD_TASKS; i++) {
        quern_task_info *info = NULL;
        assert_int_not_equal(results[i].status, QUERN_OK);
        assert_int_equal(quern_client_find(scene.far, NULL, ids[i], &info, &err),
                         QUERN_E_NOT_FOUND);
    }
    proxy_set_state(scene.proxy, PROXY_OPEN);
    assert_ok(quern_client_enqueue_batch(scene.near, tasks, UPLOAD_TASKS, results, &err), err);
    assert_int_equal(test_redis_count(test_store_server(), "LLEN asynq:{default}:pending"),
                     UPLOAD_TASKS + 1);
    free(payload);
    close_scene(&scene);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", a_client_that_waits_notices_a_dead_link),
    TEST_ONLY_OVER("redis", an_upload_that_nobody_reads_ends_in_time),
};
TEST_MAIN_OVER_BROKERS(tests)
