/* SPDX-License-Identifier: MIT */
/* test_two_workers.c - two worker processes on one file: each task is started exactly once. */
#include "lib_fault.h"

#include <stdlib.h>

static bool all_ended(void *user)
{
    const struct fault_site *site = user;
    return fault_journal_size(site) >= 2 * site->task_count;
}

static void two_workers_share_a_file_and_run_each_task_once(void **state)
{
    (void)state;
    struct fault_site site;
    struct test_child children[2];
    size_t count = 0;
    size_t mine[2] = {0};
    fault_site_open(&site);
    fault_enqueue(&site, "steady", 1);
    for (size_t i = 0; i < 2; i++) {
        children[i] = fault_spawn_worker(&site, "8", "stay");
    }
    assert_true(test_until(all_ended, &site));
    fault_enqueue(&site, "steady", 2000);
    assert_true(test_until(all_ended, &site));
    int pids[2] = {(int)children[0].pid, (int)children[1].pid};
    for (size_t i = 0; i < 2; i++) {
        test_child_send(&children[i], 'q');
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(test_child_join(&children[i]), 0);
    }
    struct fault_record *records = fault_journal_read(&site, &count);
    for (size_t i = 0; i < count; i++) {
        mine[0] += records[i].pid == pids[0] ? 1 : 0;
        mine[1] += records[i].pid == pids[1] ? 1 : 0;
        /* On a busy machine a run that did not start in time is given back, and starts later. */
        assert_true(records[i].cause == QUERN_CAUSE_NONE ||
                    records[i].cause == QUERN_CAUSE_GIVEN_BACK);
    }
    free(records);
    print_message("records: %zu and %zu\n", mine[0], mine[1]);
    assert_int_equal(mine[0] + mine[1], 2 * site.task_count);
    assert_int_equal(fault_journal_judge(&site, SIZE_MAX), 0);
    fault_assert_end(&site, site.task_count, 0);
    fault_site_close(&site);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(two_workers_share_a_file_and_run_each_task_once),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = FAULT_ROLES;
    const struct test_group group = {"two_workers", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
