/* SPDX-License-Identifier: MIT */
/* test_kill_worker.c - workers that are killed with SIGKILL again and again, at moments chosen by
 * a seed: every task is completed exactly once, every extra run says why it happened, fences grow,
 * and nothing is left over. */
#include "lib_fault.h"

#include <stdlib.h>

#include "base/random.h"

#define TASKS_PER_KILL 80
#define STARTS_MIN 20
#define STARTS_SPAN 100

/* Waits until the journal has this many records, or the worker has ended on its own. */
static int watch(const struct fault_site *site, struct test_child *child, size_t records)
{
    int64_t end_ms = test_now_ms() + TEST_PATIENCE_MS;
    while (fault_journal_size(site) < records) {
        int code = test_child_poll(child);
        if (code >= 0) {
            return code;
        }
        assert_true(test_now_ms() < end_ms);
        test_pause_ms(1);
    }
    return -1;
}

static void killed_workers_lose_no_task_and_repeat_none_without_cause(void **state)
{
    (void)state;
    size_t kills = test_full() ? 300 : 30;
    size_t killed = 0;
    struct fault_site site;
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    fault_site_open(&site);
    fault_enqueue(&site, "steady", kills * TASKS_PER_KILL);
    while (killed < kills) {
        struct test_child child = fault_spawn_worker(&site, "4", "drain");
        size_t records = fault_journal_size(&site) + 2 * STARTS_MIN;
        records += qn_random_below(&random, 2 * STARTS_SPAN);
        int code = watch(&site, &child, records);
        if (code >= 0) { /* we looked too seldom: it has run all there were */
            assert_int_equal(code, 0);
            fault_enqueue(&site, "steady", (kills - killed) * TASKS_PER_KILL);
            continue;
        }
        fault_kill(&site, &child);
        killed++;
    }
    struct test_child last = fault_spawn_worker(&site, "4", "drain");
    assert_int_equal(test_child_join(&last), 0);
    size_t extra = fault_journal_judge(&site, SIZE_MAX);
    print_message("%zu kills, %zu tasks, %zu extra starts\n", killed, site.task_count, extra);
    fault_assert_end(&site, site.task_count, 0);
    fault_site_close(&site);
}

static void worker_is_killed_beside_one_that_lives(void **state)
{
    (void)state;
    size_t kills = test_full() ? 100 : 10;
    struct fault_site site;
    struct qn_random random;
    struct test_child children[2];
    qn_random_init_seed(&random, test_seed());
    fault_site_open(&site);
    for (size_t i = 0; i < 2; i++) {
        children[i] = fault_spawn_worker(&site, "3", "stay");
    }
    for (size_t i = 0; i < kills; i++) {
        struct test_child *victim = &children[qn_random_below(&random, 2)];
        size_t records = fault_journal_size(&site) + 2 * STARTS_MIN;
        fault_enqueue(&site, "steady", 2 * TASKS_PER_KILL);
        assert_int_equal(watch(&site, victim, records), -1);
        fault_kill(&site, victim);
        *victim = fault_spawn_worker(&site, "3", "stay");
    }
    struct test_child last = fault_spawn_worker(&site, "3", "drain");
    assert_int_equal(test_child_join(&last), 0);
    for (size_t i = 0; i < 2; i++) {
        test_child_send(&children[i], 'q');
        assert_int_equal(test_child_join(&children[i]), 0);
    }
    size_t extra = fault_journal_judge(&site, SIZE_MAX);
    print_message("%zu tasks, %zu extra starts\n", site.task_count, extra);
    fault_assert_end(&site, site.task_count, 0);
    fault_site_close(&site);
}

static void stopped_worker_gives_its_tasks_back_without_a_mark(void **state)
{
    (void)state;
    struct fault_site site;
    fault_site_open(&site);
    for (int i = 0; i < 5; i++) {
        struct test_child child = fault_spawn_worker(&site, "8", "stay");
        size_t records = fault_journal_size(&site) + 100;
        fault_enqueue(&site, "steady", 200);
        assert_int_equal(watch(&site, &child, records), -1);
        test_child_send(&child, 'q');
        assert_int_equal(test_child_join(&child), 0);
    }
    struct test_child last = fault_spawn_worker(&site, "8", "drain");
    assert_int_equal(test_child_join(&last), 0);
    assert_int_equal(fault_journal_judge(&site, SIZE_MAX), 0);
    fault_assert_end(&site, site.task_count, 0);
    fault_site_close(&site);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(killed_workers_lose_no_task_and_repeat_none_without_cause),
    cmocka_unit_test(worker_is_killed_beside_one_that_lives),
    cmocka_unit_test(stopped_worker_gives_its_tasks_back_without_a_mark),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = FAULT_ROLES;
    const struct test_group group = {"kill_worker", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
