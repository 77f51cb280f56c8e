/* SPDX-License-Identifier: MIT */
/* test_second.c - a worker under load, which has two exchanges in flight at a time: whatever
 * happens to their connections, each task runs once, and a worker that stops leaves nothing behind.
 */
#include "lib_proxy.h"
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

#include "task/limits.h"
#include "worker/internal.h"

/* Two batches of outcomes, and room for two. */
static const quern_worker_options busy = {.concurrency = 128};

static bool both_are_in_flight(void *user)
{
    struct quern_worker *worker = user;
    (void)pthread_mutex_lock(&worker->mutex);
    bool both = worker->pump.first.in_flight && worker->pump.second.in_flight;
    (void)pthread_mutex_unlock(&worker->mutex);
    return both;
}

static uint64_t second_exchanges(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->pump.plan_mutex);
    uint64_t count = worker->pump.second.stamp.sequence;
    (void)pthread_mutex_unlock(&worker->pump.plan_mutex);
    return count;
}

static size_t reports(struct rig *rig)
{
    (void)pthread_mutex_lock(&rig->mutex);
    size_t count = rig->report_count;
    (void)pthread_mutex_unlock(&rig->mutex);
    return count;
}

static void count_violation(const quern_finding *finding, void *user)
{
    size_t *count = user;
    if (finding->severity >= 2) {
        print_message("%s: %s\n", finding->invariant, finding->text);
        ++*count;
    }
}

/* `count` tasks were put into the queue: all have run, once, and nothing is left. */
static void assert_all_ran_once(struct rig *rig, size_t count)
{
    struct test_redis *server = test_store_server();
    quern_error err = {0};
    size_t violations = 0;
    bool *seen = calloc(count, sizeof *seen);
    assert_non_null(seen);
    assert_int_equal(rig->start_count, count);
    for (size_t i = 0; i < count; i++) {
        size_t number = strtoul(rig->starts[i].id + 1, NULL, 10);
        assert_true(number < count);
        assert_false(seen[number]);
        seen[number] = true;
    }
    free(seen);
    assert_int_equal(rig->report_count, count);
    assert_int_equal(rig->stale_count, 0);
    assert_int_equal(test_redis_count(server, "GET asynq:{default}:processed"), count);
    assert_int_equal(test_redis_count(server, "ZCARD asynq:{default}:lease"), 0);
    assert_int_equal(test_redis_count(server, "LLEN asynq:{default}:active"), 0);
    assert_int_equal(test_redis_count(server, "LLEN asynq:{default}:pending"), 0);
    assert_ok(qn_broker_doctor(rig->broker, false, count_violation, &violations, &err), err);
    assert_int_equal(violations, 0);
}

static void under_load_every_other_exchange_is_the_second_pump_s(void **state)
{
    (void)state;
    size_t count = test_full() ? 20000 : 6000;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_put_many(rig, NULL, "n", count);
    rig_start(rig, &worker, &busy);
    rig_wait_reports(rig, count);
    uint64_t second = second_exchanges(worker.worker);
    print_message("%zu tasks, %llu exchanges of the second pump\n", count,
                  (unsigned long long)second);
    assert_true(second > count / QN_BATCH_MAX / 8);
    rig_stop(&worker);
    assert_all_ran_once(rig, count);
    rig_free(rig);
}

static void without_load_the_second_pump_sleeps(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, &busy);
    for (size_t i = 0; i < 200; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "n%zu", i);
        rig_put(rig, id, "done");
        rig_wait_reports(rig, i + 1);
    }
    assert_int_equal(second_exchanges(worker.worker), 0);
    rig_stop(&worker);
    assert_all_ran_once(rig, 200);
    rig_free(rig);
}

struct cutter {
    struct rig_worker *worker;
    size_t count; /* tasks in all */
    size_t losses;
};

/* Whenever both exchanges are in flight, all connections are cut; true when all is done. */
static bool cuts_until_all_ran(void *user)
{
    struct cutter *cutter = user;
    if (both_are_in_flight(cutter->worker->worker)) {
        (void)test_redis_do(test_store_server(), "CLIENT KILL TYPE normal");
        cutter->losses++;
    }
    return reports(cutter->worker->rig) >= cutter->count;
}

static void worker_whose_connections_are_all_lost_at_once_runs_each_task_once(void **state)
{
    (void)state;
    size_t count = test_full() ? 20000 : 8000;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    struct cutter cutter = {.worker = &worker, .count = count};
    rig_put_many(rig, NULL, "n", count);
    rig_start(rig, &worker, &busy);
    assert_true(test_until(cuts_until_all_ran, &cutter));
    print_message("%zu times both exchanges lost their connections\n", cutter.losses);
    assert_true(cutter.losses > 0);
    rig_stop(&worker);
    assert_all_ran_once(rig, count);
    rig_free(rig);
}

static void worker_under_load_behind_a_bad_line_runs_each_task_once(void **state)
{
    (void)state;
    size_t count = test_full() ? 20000 : 8000;
    struct rig *rig = rig_new(false);
    struct proxy *proxy = proxy_start_for(test_store_server(), test_seed());
    struct rig_worker worker;
    rig_put_many(rig, NULL, "n", count);
    rig->url = proxy_url(proxy);
    rig_start(rig, &worker, &busy);
    proxy_cut(proxy, 300);
    rig_wait_reports(rig, count);
    proxy_cut(proxy, 0);
    assert_true(second_exchanges(worker.worker) > 0);
    rig_stop(&worker);
    for (int cut = 0; cut <= PROXY_CUT_REPLY; cut++) {
        print_message("cut in way %d: %zu\n", cut, proxy_count(proxy, (enum proxy_fault)cut));
    }
    assert_all_ran_once(rig, count);
    proxy_stop(proxy);
    rig_free(rig);
}

/* Lets writers wait, for a while; true when both exchanges of the worker do. */
static bool holds_both(void *user)
{
    struct test_redis *server = test_store_server();
    (void)test_redis_do(server, "CLIENT PAUSE 60000 WRITE");
    for (int i = 0; i < 20; i++) {
        if (both_are_in_flight(user)) {
            return true;
        }
        test_pause_ms(1);
    }
    (void)test_redis_do(server, "CLIENT UNPAUSE");
    return false;
}

static void worker_stopped_with_both_exchanges_under_way_gives_everything_back(void **state)
{
    (void)state;
    enum { TASKS = 15000 };
    struct test_redis *server = test_store_server();
    for (int round = 0; round < (test_full() ? 10 : 3); round++) {
        struct rig *rig = rig_new(false);
        struct rig_worker worker;
        rig_put_many(rig, NULL, "n", TASKS);
        rig_start(rig, &worker, &busy);
        rig_wait_reports(rig, 500);
        assert_true(test_until(holds_both, worker.worker));
        quern_worker_stop(worker.worker);
        assert_true(test_until(rig_is_draining, worker.worker));
        (void)test_redis_do(server, "CLIENT UNPAUSE");
        assert_ok(rig_join(&worker), worker.error);
        long long done = test_redis_count(server, "GET asynq:{default}:processed");
        assert_int_equal(rig->start_count, done);
        assert_int_equal(rig->report_count, done);
        assert_int_equal(rig->stale_count, 0);
        assert_int_equal(test_redis_count(server, "ZCARD asynq:{default}:lease"), 0);
        assert_int_equal(test_redis_count(server, "LLEN asynq:{default}:active"), 0);
        assert_int_equal(test_redis_count(server, "LLEN asynq:{default}:pending"), TASKS - done);
        rig_start(rig, &worker, &busy); /* the next worker finds all the others */
        rig_wait_reports(rig, TASKS);
        rig_stop(&worker);
        assert_all_ran_once(rig, TASKS);
        rig_free(rig);
    }
}

/* All connections of an idle worker and of the rig's client. */
static bool are_connected(void *user)
{
    static const char *const names[] = {"quern-pump", "quern-keeper", "quern-rest", "quern-tracked",
                                        "quern-listener"};
    const char *list = test_redis_do(user, "CLIENT LIST");
    bool all = true;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        all = all && strstr(list, names[i]) != NULL;
    }
    return all;
}

static void worker_that_gets_one_connection_less_does_without(void **state)
{
    (void)state;
    enum { TASKS = 8000 };
    struct rig *rig = rig_new(false);
    struct test_redis *server = test_store_server();
    struct rig_worker worker;
    rig_start(rig, &worker, &busy);
    rig_put(rig, "n00000", "done");
    rig_wait_reports(rig, 1);
    assert_true(test_until(are_connected, server));
    long long clients = test_redis_count(server, "EVAL %s 0",
                                         "return redis.call('INFO', 'clients')"
                                         ":match('connected_clients:(%d+)')");
    (void)test_redis_do(server, "CONFIG SET maxclients %lld", clients);
    rig_put_many(rig, NULL, "n", TASKS);
    rig_wait_reports(rig, TASKS);
    assert_true(second_exchanges(worker.worker) > 0);
    (void)test_redis_do(server, "CONFIG SET maxclients 10000");
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", under_load_every_other_exchange_is_the_second_pump_s),
    TEST_ONLY_OVER("redis", without_load_the_second_pump_sleeps),
    TEST_ONLY_OVER("redis", worker_whose_connections_are_all_lost_at_once_runs_each_task_once),
    TEST_ONLY_OVER("redis", worker_under_load_behind_a_bad_line_runs_each_task_once),
    TEST_ONLY_OVER("redis", worker_stopped_with_both_exchanges_under_way_gives_everything_back),
    TEST_ONLY_OVER("redis", worker_that_gets_one_connection_less_does_without),
};
TEST_MAIN_OVER_BROKERS(tests)
