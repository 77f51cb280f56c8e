/* SPDX-License-Identifier: MIT */
/* test_wait.c - quern_client_wait while the server restarts or is away, when the task is deleted,
 * and in many threads at the same time. */
#include <string.h>

#include "lib_waiter.h"
#include "lib_worker.h"

#define HOUR_MS INT64_C(3600000)

static void put_kept(struct rig *rig, const char *id, const char *payload)
{
    rig_put_task(rig, &(quern_task){.type = "t",
                                    .id = id,
                                    .payload = payload,
                                    .payload_size = strlen(payload),
                                    .retention_ms = HOUR_MS});
}

static void restart_of_the_server_does_not_end_it(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct test_waiter waiter;
    struct rig *rig = rig_new(false);
    struct test_redis *server = test_store_server();
    put_kept(rig, "a", "hold");
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    test_waiter_start(&waiter, rig->client, "a");
    test_redis_end(server);
    test_redis_launch(server);
    test_redis_await(server);
    rig_open_gate(rig);
    test_waiter_assert(&waiter, QUERN_TASK_COMPLETED);
    rig_stop(&worker);
    rig_free(rig);
}

static void timeout_names_the_broker_that_is_away(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct test_redis *server = test_store_server();
    quern_task_info *info = NULL;
    quern_error err = {0};
    put_kept(rig, "a", "done");
    assert_int_equal(quern_client_wait(rig->client, "a", 0, &info, &err), QUERN_E_TIMEOUT);
    assert_null(strstr(err.text, "away"));
    test_redis_end(server);
    assert_int_equal(quern_client_wait(rig->client, "a", 0, &info, &err), QUERN_E_TIMEOUT);
    assert_non_null(strstr(err.text, "the broker is away: "));
    assert_int_equal(quern_client_wait(rig->client, "a", 30, &info, &err), QUERN_E_TIMEOUT);
    assert_non_null(strstr(err.text, "the broker is away: "));
    assert_null(info);
    test_redis_launch(server);
    test_redis_await(server);
    rig_free(rig);
}

static void deletion_of_the_task_ends_it(void **state)
{
    (void)state;
    struct test_waiter waiter;
    struct rig *rig = rig_new(false);
    put_kept(rig, "a", "done");
    test_waiter_start(&waiter, rig->client, "a");
    test_pause_ms(50); /* so that it has seen the task, usually */
    rig_act(rig, QUERN_ACTION_DELETE, "a");
    test_waiter_join(&waiter);
    assert_int_equal(waiter.status, QUERN_E_NOT_FOUND);
    assert_null(waiter.info);
    rig_free(rig);
}

static void each_of_many_threads_gets_its_task(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    struct rig_worker worker;
    struct test_waiter waiters[COUNT];
    struct rig *rig = rig_new(false);
    for (size_t i = 0; i < COUNT; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%zu", i);
        put_kept(rig, id, i % 2 == 0 ? "done" : "hold");
        test_waiter_start(&waiters[i], rig->client, id);
    }
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = COUNT});
    rig_wait_starts(rig, COUNT);
    rig_open_gate(rig);
    for (size_t i = 0; i < COUNT; i++) {
        test_waiter_assert(&waiters[i], QUERN_TASK_COMPLETED);
    }
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", restart_of_the_server_does_not_end_it),
    TEST_ONLY_OVER("redis", timeout_names_the_broker_that_is_away),
    cmocka_unit_test(deletion_of_the_task_ends_it),
    cmocka_unit_test(each_of_many_threads_gets_its_task),
};
TEST_MAIN_OVER_BROKERS(tests)
