/* SPDX-License-Identifier: MIT */
/* test_zombie.c - a worker that is frozen until its leases are over, and wakes up: another one has
 * done its tasks meanwhile, and whatever the sleeper tells then changes nothing.
 *
 * A process that is frozen inside a transaction keeps the write lock of an SQLite file, and then no
 * process can write until it continues; the test does not freeze it in such a moment. */
#include "lib_fault.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

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

static bool is_unlocked(const struct fault_site *site)
{
    if (!test_store_is(&site->store, "sqlite")) {
        return true;
    }
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(site->url + strlen("sqlite://"), &db), SQLITE_OK);
    bool unlocked = sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL) == SQLITE_OK;
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return unlocked;
}

static void freeze(const struct fault_site *site, struct test_child *child)
{
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(kill(child->pid, SIGSTOP), 0);
        assert_true(test_until(is_frozen, child));
        if (is_unlocked(site)) {
            return;
        }
        assert_int_equal(kill(child->pid, SIGCONT), 0);
        test_pause_ms(1);
    }
    fail_msg("the worker never leaves its transactions");
}

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
        freeze(&site, &zombie);
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
