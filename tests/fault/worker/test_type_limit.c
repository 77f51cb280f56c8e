/* SPDX-License-Identifier: MIT */
/* test_type_limit.c - a pattern with a limit of its own runs no more than that in a worker, holds
 * up no other pattern, and loses nothing. */
#include "lib_worker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_size_t inside;
static atomic_size_t inside_max;

/* Obeys as the rig does, and counts how many of its runs there are at a time. */
static quern_outcome count_and_obey(quern_run *run, const quern_task *task, void *user)
{
    size_t now = atomic_fetch_add(&inside, 1) + 1;
    size_t max = atomic_load(&inside_max);
    while (now > max && !atomic_compare_exchange_weak(&inside_max, &max, now)) {
    }
    quern_outcome outcome = rig_handler()(run, task, user);
    atomic_fetch_sub(&inside, 1);
    return outcome;
}

static struct rig *rig_with_limit(uint32_t limit)
{
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    const quern_handler_options options = {.concurrency = limit};
    assert_ok(quern_mux_handle(rig->mux, "slow", count_and_obey, rig, &options, &error), error);
    atomic_store(&inside, 0);
    atomic_store(&inside_max, 0);
    return rig;
}

static void put_slow(struct rig *rig, int number)
{
    char id[16];
    (void)snprintf(id, sizeof id, "slow%d", number);
    rig_put_task(rig,
                 &(quern_task){.id = id, .type = "slow", .payload = "hold", .payload_size = 4});
}

static void a_pattern_runs_no_more_than_its_limit_and_holds_up_no_other(void **state)
{
    (void)state;
    enum { SLOW = 30, OTHERS = 20, LIMIT = 2 };
    struct rig *rig = rig_with_limit(LIMIT);
    for (int i = 0; i < SLOW; i++) {
        put_slow(rig, i);
    }
    rig_put_many(rig, NULL, "other", OTHERS);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 4});
    rig_wait_reports(rig, OTHERS); /* all of the others, behind the slow ones */
    rig_wait_starts(rig, OTHERS + LIMIT);
    assert_int_equal(rig_stats(&worker).running, LIMIT);
    rig_open_gate(rig);
    rig_wait_reports(rig, OTHERS + SLOW);
    assert_int_equal(rig_stats(&worker).retried, 0);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, OTHERS + SLOW); /* each once, without a retry */
    for (size_t i = 0; i < rig->start_count; i++) {
        assert_int_equal(rig->starts[i].retry_count, 0);
        assert_int_equal(rig->starts[i].crash_count, 0);
    }
    assert_int_equal(atomic_load(&inside_max), LIMIT);
    assert_int_equal(rig_queue(rig, "default").processed_total, OTHERS + SLOW);
    assert_int_equal(rig_queue(rig, "default").failed_total, 0);
    rig_free(rig);
}

static void a_worker_until_idle_waits_for_the_limit_of_a_pattern(void **state)
{
    (void)state;
    enum { TASKS = 400 };
    struct rig *rig = rig_with_limit(1);
    rig_put_many_of(rig, "slow", NULL, "n", TASKS);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 8, .until_idle = true});
    assert_int_equal(rig_join(&worker), QUERN_OK);
    assert_int_equal(rig->start_count, TASKS);
    assert_int_equal(atomic_load(&inside_max), 1);
    assert_int_equal(rig_queue(rig, "default").size, 0);
    rig_free(rig);
}

static void what_finds_no_place_here_is_run_by_another_worker(void **state)
{
    (void)state;
    struct rig *rig = rig_with_limit(1);
    struct rig_worker workers[2];
    const quern_worker_options options = {.concurrency = 4};
    rig_start(rig, &workers[0], &options);
    put_slow(rig, 0);
    rig_wait_starts(rig, 1);
    put_slow(rig, 1);
    put_slow(rig, 2);
    rig_start(rig, &workers[1], &options);
    rig_wait_starts(rig, 2);
    assert_int_equal(rig_stats(&workers[0]).running, 1);
    assert_int_equal(rig_stats(&workers[1]).running, 1);
    rig_open_gate(rig);
    rig_wait_reports(rig, 3);
    rig_stop(&workers[0]);
    rig_stop(&workers[1]);
    assert_int_equal(rig->start_count, 3);
    assert_int_equal(rig_queue(rig, "default").size, 0);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_pattern_runs_no_more_than_its_limit_and_holds_up_no_other),
    cmocka_unit_test(a_worker_until_idle_waits_for_the_limit_of_a_pattern),
    cmocka_unit_test(what_finds_no_place_here_is_run_by_another_worker),
};
TEST_MAIN_OVER_BROKERS(tests)
