/* SPDX-License-Identifier: MIT */
/* test_begin.c - a worker that starts while its broker is busy or not there waits for it, as
 * one that runs does; and once it is back, all its threads use it. */
#include "lib_worker.h"

#include <string.h>

/* A lease of 1 s lets a call give up after a third of a second. */
static const quern_worker_options short_lease = {.concurrency = 2, .lease_ms = 1000};

/* A worker that waits for its broker, and a task for that. */
static struct rig *start_blocked(struct rig_worker *worker)
{
    struct rig *rig = rig_new(false);
    rig_put(rig, "a", "done");
    test_store_block(&rig->store);
    rig_start(rig, worker, &short_lease);
    rig_wait_log(rig, "broker does not answer");
    return rig;
}

static void a_worker_that_starts_while_its_broker_is_busy_waits(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = start_blocked(&worker);
    test_store_unblock(&rig->store);
    rig_wait_state(rig, "a", 0);
    rig_wait_log(rig, "broker answers again");
    rig_stop(&worker);
    rig_free(rig);
}

static void a_worker_that_waits_for_its_broker_can_be_stopped(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = start_blocked(&worker);
    rig_stop(&worker); /* a clean end: nothing was begun */
    test_store_unblock(&rig->store);
    assert_int_equal(rig_state(rig, "a"), QUERN_TASK_PENDING);
    rig_free(rig);
}

/* With the usual lease: a call may wait for locks for 10 s, but not here. */
static void a_worker_that_waits_for_a_locked_file_ends_soon(void **state)
{
    (void)state;
    enum { TOLD_MS = 3000, ENDS_MS = 2500 };
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    test_store_block(&rig->store);
    int64_t started_at_ms = test_now_ms();
    rig_start(rig, &worker, NULL);
    rig_wait_log(rig, "broker does not answer");
    assert_true(test_now_ms() - started_at_ms < TOLD_MS);
    int64_t stopped_at_ms = test_now_ms();
    rig_stop(&worker);
    assert_true(test_now_ms() - stopped_at_ms < ENDS_MS);
    assert_false(rig_logged(rig, "broker answers again"));
    test_store_unblock(&rig->store);
    rig_free(rig);
}

static void a_worker_that_must_not_wait_reports_that_its_broker_is_busy(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_worker *worker = NULL;
    quern_error error = {0};
    const quern_worker_options options = {.lease_ms = 1000, .no_wait = true};
    assert_ok(quern_worker_new(rig->url, rig->mux, &options, &worker, &error), error);
    test_store_block(&rig->store);
    /* A file is there, and locked; of a server that does not answer that is not known. */
    bool is_file = test_store_is(&rig->store, "sqlite");
    assert_int_equal(quern_worker_run(worker, &error), is_file ? QUERN_E_BUSY : QUERN_E_CONNECT);
    assert_int_equal(error.code, is_file ? QUERN_E_BUSY : QUERN_E_CONNECT);
    test_store_unblock(&rig->store);
    quern_worker_free(worker);
    rig_free(rig);
}

/* With the usual lease, each call may wait for 10 s; some are in progress when it is stopped. */
static void a_worker_whose_broker_hangs_at_its_end_ends_soon(void **state)
{
    (void)state;
    enum { ENDS_MS = 5000, EACH_TIMER_MS = 1100 };
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_put(rig, "a", "done");
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "a", 0);
    test_store_block(&rig->store);
    test_pause_ms(EACH_TIMER_MS);
    int64_t stopped_at_ms = test_now_ms();
    rig_stop(&worker);
    int64_t took_ms = test_now_ms() - stopped_at_ms;
    print_message("ended after %lld ms\n", (long long)took_ms);
    assert_true(took_ms < ENDS_MS);
    assert_true(rig_logged(rig, "worker could not be deregistered"));
    test_store_unblock(&rig->store);
    rig_free(rig);
}

static void a_worker_that_starts_before_its_server_waits(void **state)
{
    (void)state;
    struct test_redis *server = test_store_server();
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    test_redis_end(server);
    rig_start(rig, &worker, NULL);
    rig_wait_log(rig, "broker does not answer");
    test_redis_launch(server);
    test_redis_await(server);
    rig_put(rig, "a", "done");
    rig_wait_state(rig, "a", 0);
    rig_stop(&worker);
    rig_free(rig);
}

/* Attempts to connect to a server that is absent. */
static void count_attempt(const quern_link_failure *failure, void *user)
{
    (void)failure;
    (*(_Atomic int *)user)++;
}

static void a_worker_that_starts_ends_after_max_retries_with_the_brokers_error(void **state)
{
    (void)state;
    enum { RETRIES = 4 };
    struct test_redis *server = test_store_server();
    struct rig *rig = rig_new(false);
    quern_worker *worker = NULL;
    quern_error error = {0};
    _Atomic int attempts = 0;
    const quern_worker_options options = {.on_link_failure = count_attempt,
                                          .user = &attempts,
                                          .interval_start_ms = 20,
                                          .max_retries = RETRIES};
    test_redis_kill(server);
    assert_ok(quern_worker_new(rig->url, rig->mux, &options, &worker, &error), error);
    assert_int_equal(attempts, 1);
    assert_int_equal(quern_worker_run(worker, &error), QUERN_E_CONNECT);
    assert_int_equal(error.code, QUERN_E_CONNECT);
    assert_non_null(strstr(error.text, "redis"));
    assert_int_equal(attempts, 1 + RETRIES);
    quern_worker_free(worker);
    test_redis_launch(server);
    test_redis_await(server);
    rig_free(rig);
}

static void a_worker_that_runs_ends_after_max_retries_with_the_brokers_error(void **state)
{
    (void)state;
    struct test_redis *server = test_store_server();
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_put(rig, "a", "done");
    rig_start(rig, &worker, &(quern_worker_options){.max_retries = 5, .interval_max_ms = 100});
    rig_wait_state(rig, "a", 0);
    test_redis_kill(server);
    assert_int_equal(rig_join(&worker), QUERN_E_CONNECT);
    assert_true(rig_logged(rig, "worker ends, the broker was tried max_retries times"));
    test_redis_launch(server);
    test_redis_await(server);
    rig_free(rig);
}

static bool holds_leases(void *user)
{
    return strstr(test_redis_do(user, "CLIENT LIST"), "name=quern-leases") != NULL;
}

enum { SOON_MS = 1000 };

static void each_thread_uses_a_server_that_is_back_within_a_second(void **state)
{
    (void)state;
    struct test_redis *server = test_store_server();
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_put(rig, "a", "done");
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "a", 0);
    test_redis_kill(server);
    rig_wait_log(rig, "broker does not answer");
    int64_t end_ms = test_now_ms() + SOON_MS * 2;
    while (test_now_ms() < end_ms) { /* until the backoff of each has grown */
        test_pause_ms(10);
    }
    assert_false(rig_logged(rig, "broker answers again"));
    test_redis_launch(server);
    test_redis_await(server);
    int64_t back_ms = test_now_ms();
    rig_put(rig, "b", "done");
    rig_wait_state(rig, "b", 0);
    rig_wait_log(rig, "broker answers again"); /* each that failed was answered */
    assert_true(test_until(holds_leases, server));
    int64_t after_ms = test_now_ms() - back_ms;
    print_message("used by all after %lld ms\n", (long long)after_ms);
    assert_true(after_ms < 3 * SOON_MS); /* this machine may be busy */
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_worker_that_starts_while_its_broker_is_busy_waits),
    cmocka_unit_test(a_worker_that_waits_for_its_broker_can_be_stopped),
    cmocka_unit_test(a_worker_that_must_not_wait_reports_that_its_broker_is_busy),
    TEST_ONLY_OVER("sqlite", a_worker_that_waits_for_a_locked_file_ends_soon),
    cmocka_unit_test(a_worker_whose_broker_hangs_at_its_end_ends_soon),
    TEST_ONLY_OVER("redis", a_worker_that_starts_before_its_server_waits),
    TEST_ONLY_OVER("redis", a_worker_that_starts_ends_after_max_retries_with_the_brokers_error),
    TEST_ONLY_OVER("redis", a_worker_that_runs_ends_after_max_retries_with_the_brokers_error),
    TEST_ONLY_OVER("redis", each_thread_uses_a_server_that_is_back_within_a_second),
};
TEST_MAIN_OVER_BROKERS(tests)
