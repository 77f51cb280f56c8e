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

static struct size size_of_test(void)
{
    return test_full() ? (struct size){.runs = 100, .lease_ms = 3000, .hold_ms = 30000}
                       : (struct size){.runs = 12, .lease_ms = 1000, .hold_ms = 1500};
}

static void put_runs(struct stage *stage, const struct size *size, const char *payload)
{
    for (size_t i = 0; i < size->runs; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "n%zu", i);
        stage_put(stage, id, payload);
    }
}

/* As another worker would: whatever is recovered was not held. */
static void expect_nothing_lapsed(struct stage *stage)
{
    static const char *const queue = "default";
    quern_error error = {0};
    size_t recovered = 0;
    assert_ok(qn_broker_recover(stage->broker, &queue, 1, 10, NULL, NULL, &recovered, &error),
              error);
    if (recovered > 0) {
        fail_msg("%zu leases were lost\n%s", recovered, stage->log);
    }
}

static void end_all(struct stage *stage, struct stage_worker *worker, const struct size *size)
{
    stage_open_gate(stage);
    stage_wait_reports(stage, size->runs);
    quern_worker_stats stats = stage_stats(worker);
    assert_int_equal(stats.lost_leases, 0);
    assert_int_equal(stats.done, size->runs);
    stage_stop(worker);
    assert_int_equal(stage->start_count, size->runs);
}

static void leases_are_held_while_each_answer_is_late_by_up_to_half_a_lease(void **state)
{
    (void)state;
    struct size size = size_of_test();
    struct stage *stage = stage_new(false);
    struct test_proxy *proxy = test_proxy_start(test_place_server(), test_seed());
    struct stage_worker worker;
    put_runs(stage, &size, "hold");
    stage->url = test_proxy_url(proxy);
    stage_start(
        stage, &worker,
        &(quern_worker_options){.concurrency = (uint32_t)size.runs, .lease_ms = size.lease_ms});
    stage_wait_starts(stage, size.runs);
    test_proxy_delay(proxy, size.lease_ms / 2);
    int64_t end_ms = test_now_ms() + size.hold_ms;
    while (test_now_ms() < end_ms) {
        expect_nothing_lapsed(stage);
        test_pause_ms(10);
    }
    test_proxy_delay(proxy, 0);
    end_all(stage, &worker, &size);
    test_proxy_stop(proxy);
    stage_free(stage);
}

static void leases_are_held_when_the_broker_stands_still_for_half_a_lease(void **state)
{
    (void)state;
    struct size size = size_of_test();
    struct stage *stage = stage_new(false);
    struct stage_worker worker;
    put_runs(stage, &size, "hold");
    stage_start(
        stage, &worker,
        &(quern_worker_options){.concurrency = (uint32_t)size.runs, .lease_ms = size.lease_ms});
    stage_wait_starts(stage, size.runs);
    int64_t stop_ms = test_now_ms() + size.hold_ms;
    while (test_now_ms() < stop_ms) {
        test_place_block(&stage->place);
        int64_t end_ms = test_now_ms() + size.lease_ms / 2;
        while (test_now_ms() < end_ms) {
            test_pause_ms(10);
        }
        test_place_unblock(&stage->place);
        end_ms = test_now_ms() + size.lease_ms / 3;
        while (test_now_ms() < end_ms) {
            test_pause_ms(10);
        }
        expect_nothing_lapsed(stage);
    }
    end_all(stage, &worker, &size);
    stage_free(stage);
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
    struct test_redis *server = test_place_server();
    struct stage *stage = stage_new(false);
    struct stage_worker worker;
    put_runs(stage, &size, "hold");
    stage_start(
        stage, &worker,
        &(quern_worker_options){.concurrency = (uint32_t)size.runs, .lease_ms = size.lease_ms});
    stage_wait_starts(stage, size.runs);
    (void)test_redis_do(server, "CONFIG SET maxclients 1"); /* those that are there stay */
    assert_true(test_until(kill_channel_of_leases, server));
    int64_t end_ms = test_now_ms() + size.hold_ms;
    while (test_now_ms() < end_ms) {
        expect_nothing_lapsed(stage);
        test_pause_ms(10);
    }
    (void)test_redis_do(server, "CONFIG SET maxclients 10000");
    end_all(stage, &worker, &size);
    stage_free(stage);
}

struct spin {
    struct stage *stage;
    _Atomic bool ends;
};

static quern_outcome spin_until_told(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    struct spin *spin = user;
    pthread_mutex_lock(&spin->stage->mutex);
    spin->stage->start_count++;
    while (!spin->stage->gate) { /* else those that spin keep the others from starting */
        pthread_cond_wait(&spin->stage->change, &spin->stage->mutex);
    }
    pthread_mutex_unlock(&spin->stage->mutex);
    while (!atomic_load_explicit(&spin->ends, memory_order_relaxed)) {
    }
    return QUERN_DONE;
}

static void leases_are_held_beside_handlers_that_use_up_all_cpus(void **state)
{
    (void)state;
    struct size size = size_of_test();
    struct stage *stage = stage_new(false);
    struct spin spin = {.stage = stage};
    struct stage_worker worker;
    quern_error error = {0};
    assert_ok(quern_mux_handle(stage->mux, "spin", spin_until_told, &spin, NULL, &error), error);
    for (size_t i = 0; i < size.runs; i++) {
        stage_put_task(stage, &(quern_task){.type = "spin"});
    }
    stage_start(
        stage, &worker,
        &(quern_worker_options){.concurrency = (uint32_t)size.runs, .lease_ms = size.lease_ms});
    stage_wait_starts(stage, size.runs);
    stage_open_gate(stage);
    int64_t end_ms = test_now_ms() + size.hold_ms;
    while (test_now_ms() < end_ms) {
        expect_nothing_lapsed(stage);
        test_pause_ms(10);
    }
    atomic_store(&spin.ends, true);
    end_all(stage, &worker, &size);
    stage_free(stage);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", leases_are_held_while_each_answer_is_late_by_up_to_half_a_lease),
    TEST_ONLY_OVER("redis", leases_are_held_where_the_server_has_no_connection_for_them_alone),
    cmocka_unit_test(leases_are_held_when_the_broker_stands_still_for_half_a_lease),
    cmocka_unit_test(leases_are_held_beside_handlers_that_use_up_all_cpus),
};
TEST_MAIN_OVER_BROKERS(tests)
