/* SPDX-License-Identifier: MIT */
/* test_zombie.c - a worker that is frozen until its leases are over, and wakes up: another one has
 * done its tasks meanwhile, and whatever the sleeper tells then changes nothing. */
#include "lib_freeze.h"

#include <signal.h>

static void zombie_changes_nothing_after_its_lease(void **state)
{
    (void)state;
    struct fault_site site;
    int rounds = test_full() ? 30 : 3;
    fault_site_open(&site);
    site.lease_ms = 1000;
    for (int round = 0; round < rounds; round++) {
        size_t records = fault_journal_size(&site);
        fault_release(&site, false);
        fault_enqueue(&site, "held", 1);
        struct test_child zombie = fault_spawn_worker(&site, "2", "stay");
        fault_lose(&site, zombie.pid);
        fault_wait_records(&site, records + 1);
        freeze_worker(&site, zombie.pid);
        fault_enqueue(&site, "steady", 20);
        struct test_child other = fault_spawn_worker(&site, "2", "drain");
        assert_int_equal(test_child_join(&other), 0);
        fault_assert_end(&site, site.task_count, 0);
        assert_int_equal(kill(zombie.pid, SIGCONT), 0);
        fault_release(&site, true);
        test_child_send(&zombie, 'q');
        assert_int_equal(test_child_join(&zombie), 0);
        /* Counted once, completed once: the zombie's success came too late. */
        fault_assert_end(&site, site.task_count, 0);
    }
    assert_int_equal(fault_journal_judge(&site, SIZE_MAX), rounds);
    fault_site_close(&site);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(zombie_changes_nothing_after_its_lease),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = FAULT_ROLES;
    const struct test_group group = {"zombie", tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
