/* SPDX-License-Identifier: MIT */
/* test_zombie.c - a worker that is frozen until its leases are over, and wakes up: another one has
 * done its tasks meanwhile, and whatever the sleeper tells then changes nothing. */
#include "lib_fault.h"

#include <signal.h>
#include <stdlib.h>

static bool is_frozen(void *user)
{
    char path[64];
    char line[256] = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)((struct test_child *)user)->pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    char state = '?';
    if (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "%*d (%*[^)]) %c", &state);
    }
    (void)fclose(file);
    return state == 'T';
}

static void zombie_changes_nothing_after_its_lease(void **state)
{
    (void)state;
    struct fault_site site;
    int rounds = test_full() ? 30 : 3;
    fault_site_open(&site);
    site.lease_ms = 1000;
    for (int round = 0; round < rounds; round++) {
        fault_enqueue(&site, "frozen", 1);
        struct test_child zombie = fault_spawn_worker(&site, "2", "stay");
        fault_lose(&site, zombie.pid);
        assert_true(test_until(is_frozen, &zombie));
        fault_enqueue(&site, "steady", 20);
        struct test_child other = fault_spawn_worker(&site, "2", "drain");
        assert_int_equal(test_child_join(&other), 0);
        fault_assert_end(&site, site.task_count, 0);
        assert_int_equal(kill(zombie.pid, SIGCONT), 0);
        test_child_say(&zombie, 'q');
        assert_int_equal(test_child_join(&zombie), 0);
        /* Counted once, completed once: the zombie's success came too late. */
        fault_assert_end(&site, site.task_count, 0);
    }
    assert_int_equal(fault_book_judge(&site, SIZE_MAX), rounds);
    fault_site_close(&site);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(zombie_changes_nothing_after_its_lease),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = FAULT_ROLES;
    const struct test_group group = {"zombie", tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
