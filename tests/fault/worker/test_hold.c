/* SPDX-License-Identifier: MIT */
/* test_hold.c - leases are held whatever makes others late: answers that take half a lease,
 * a broker that stands still for so long, handlers that use up all CPUs. With QUERN_TEST_FULL=1 for
 * longer, with a hundred handlers and a lease of 3 s. */
#include "lib_proxy.h"
#include "lib_worker.h"

#include <stdatomic.h>
#include <string.h>

struct size {
    size_t runs;
    int64_t lease_ms;
    int64_t hold_ms;
};

/* hold_ms: for longer than a lease that nothing extends, which on Redis ends at a whole second. */
static struct size size_of_test(void)
{
    return test_full() ? (struct size){.runs = 100, .lease_ms = 3000, .hold_ms = 30000}
                       : (struct size){.runs = 12, .lease_ms = 1000, .hold_ms = 2500};
}

static void put_runs(struct rig *rig, const struct size *size, const char *payload)
{
    for (size_t i = 0; i < size->runs; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "n%zu", i);
        rig_put(rig, id, payload);
    }
}

/* As another worker would: whatever is recovered was not held. */
static void expect_nothing_lapsed(struct rig *rig)
{
    static const char *const queue = "default";
    quern_error error = {0};
    size_t recovered = 0;
    assert_ok(qn_broker_recover(rig->broker, (struct qn_upkeep){{&queue, 1}, 10}, NULL, &recovered,
                                &error),
              error);
    if (recovered > 0) {
        fail_msg("%zu leases were lost\n%s", recovered, rig->log);
    }
}

static void end_all(struct rig *rig, struct rig_worker *worker, const struct size *size)
{
    rig_open_gate(rig);
    rig_wait_reports(rig, size->runs);
    quern_worker_stats stats = rig_stats(worker);
    assert_int_equal(stats.lost_leases, 0);
    assert_int_equal(stats.done, size->runs);
    rig_stop(worker);
    assert_int_equal(rig->start_count, size->runs);
}

static void leases_are_held_while_each_answer_is_late_by_up_to_half_a_lease(void **state)
{
    (void)state;
    struct size size = size_of_test();
    struct rig *rig = rig_new(false);
    struct proxy *proxy = proxy_start_for(test_store_server(), test_seed());
    struct rig_worker worker;
    put_runs(rig, &size, "hold");
    rig->url = proxy_url(proxy);
    rig_start(
        rig, &worker,
        &(quern_worker_options){.concurrency = (uint32_t)size.runs, .lease_ms = size.lease_ms});
    rig_wait_starts(rig, size.runs);
    proxy_rules(proxy,
                &(struct proxy_rule){.fault = PROXY_DELAY, .ms = size.lease_ms / 2, .varies = true},
                1);
    int64_t end_ms = test_now_ms() + size.hold_ms;
    while (test_now_ms() < end_ms) {
        expect_nothing_lapsed(rig);
        test_pause_ms(10);
    }
    proxy_rules(proxy, NULL, 0);
    end_all(rig, &worker, &size);
    proxy_stop(proxy);
    rig_free(rig);
}

static void leases_are_held_when_the_broker_stands_still_for_half_a_lease(void **state)
{
    (void)state;
    struct size size = size_of_test();
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    put_runs(rig, &size, "hold");
    rig_start(
        rig, &worker,
        &(quern_worker_options){.concurrency = (uint32_t)size.runs, .lease_ms = size.lease_ms});
    rig_wait_starts(rig, size.runs);
    int64_t stop_ms = test_now_ms() + size.hold_ms;
    while (test_now_ms() < stop_ms) {
        test_store_block(&rig->store);
        int64_t end_ms = test_now_ms() + size.lease_ms / 2;
        while (test_now_ms() < end_ms) {
            test_pause_ms(10);
        }
        test_store_unblock(&rig->store);
        end_ms = test_now_ms() + size.lease_ms / 3;
        while (test_now_ms() < end_ms) {
            test_pause_ms(10);
        }
        expect_nothing_lapsed(rig);
    }
    end_all(rig, &worker, &size);
    rig_free(rig);
}

static bool kill_channel_of_leases(void *user)
{
    struct test_redis *server = user;
    char list[16384];
    (void)snprintf(list, sizeof list, "%s", test_redis_do(server, "CLIENT LIST"));
    char *rest = NULL;
    for (char *line = strtok_r(list, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        long long id = 0;
        if (strstr(line, "name=quern-leases ") != NULL && sscanf(line, "id=%lld", &id) == 1) {
            return test_redis_count(server, "CLIENT KILL ID %lld", id) == 1;
        }
    }
    return false;
}

static void leases_are_held_where_the_server_has_no_connection_for_them_alone(void **state)
{
    (void)state;
    struct size size = size_of_test();
    struct test_redis *server = test_store_server();
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    put_runs(rig, &size, "hold");
    rig_start(
        rig, &worker,
        &(quern_worker_options){.concurrency = (uint32_t)size.runs, .lease_ms = size.lease_ms});
    rig_wait_starts(rig, size.runs);
    (void)test_redis_do(server, "CONFIG SET maxclients 1"); /* those that are there stay */
    assert_true(test_until(kill_channel_of_leases, server));
    int64_t end_ms = test_now_ms() + size.hold_ms;
    while (test_now_ms() < end_ms) {
        expect_nothing_lapsed(rig);
        test_pause_ms(10);
    }
    (void)test_redis_do(server, "CONFIG SET maxclients 10000");
    end_all(rig, &worker, &size);
    rig_free(rig);
}

struct spin {
    struct rig *rig;
    _Atomic bool ends;
};

static quern_outcome spin_until_released(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    struct spin *spin = user;
    pthread_mutex_lock(&spin->rig->mutex);
    spin->rig->start_count++;
    while (!spin->rig->gate) { /* else those that spin keep the others from starting */
        pthread_cond_wait(&spin->rig->change, &spin->rig->mutex);
    }
    pthread_mutex_unlock(&spin->rig->mutex);
    while (!atomic_load_explicit(&spin->ends, memory_order_relaxed)) {
    }
    return QUERN_DONE;
}

static void leases_are_held_beside_handlers_that_use_up_all_cpus(void **state)
{
    (void)state;
    struct size size = size_of_test();
    struct rig *rig = rig_new(false);
    struct spin spin = {.rig = rig};
    struct rig_worker worker;
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "spin", spin_until_released, &spin, NULL, &error), error);
    for (size_t i = 0; i < size.runs; i++) {
        rig_put_task(rig, &(quern_task){.type = "spin"});
    }
    rig_start(
        rig, &worker,
        &(quern_worker_options){.concurrency = (uint32_t)size.runs, .lease_ms = size.lease_ms});
    rig_wait_starts(rig, size.runs);
    rig_open_gate(rig);
    int64_t end_ms = test_now_ms() + size.hold_ms;
    while (test_now_ms() < end_ms) {
        expect_nothing_lapsed(rig);
        test_pause_ms(10);
    }
    atomic_store(&spin.ends, true);
    end_all(rig, &worker, &size);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", leases_are_held_while_each_answer_is_late_by_up_to_half_a_lease),
    TEST_ONLY_OVER("redis", leases_are_held_where_the_server_has_no_connection_for_them_alone),
    cmocka_unit_test(leases_are_held_when_the_broker_stands_still_for_half_a_lease),
    cmocka_unit_test(leases_are_held_beside_handlers_that_use_up_all_cpus),
};
TEST_MAIN_OVER_BROKERS(tests)
