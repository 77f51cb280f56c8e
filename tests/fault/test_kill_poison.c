/* SPDX-License-Identifier: MIT */
/* test_kill_poison.c - one task among 1 000 kills every worker that runs it, with others around it:
 * it alone is convicted, when it has died alone twice, and all others are completed. */
#include "lib_fault.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

/* Charged once, the task may run with others, charged twice, it must run alone. */
#define SLOTS "4"

static void assert_poison_is_archived(const struct fault_site *site, size_t poison)
{
    quern_inspector *inspector = NULL;
    quern_task_info *info = NULL;
    quern_error err = {0};
    char id[24];
    (void)snprintf(id, sizeof id, "%zu", poison);
    assert_ok(quern_inspector_open(site->url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_task(inspector, "default", id, &info, &err), err);
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_ARCHIVED);
    assert_in_range(quern_task_info_crash_count(info), 3, 5);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_non_null(strstr(quern_task_info_error(info), "poison"));
    quern_task_info_free(info);
    quern_inspector_free(inspector);
}

static void one_poison_task_costs_one_task(void **state)
{
    (void)state;
    struct fault_site site;
    struct qn_random random;
    int deaths = 0;
    int code;
    qn_random_init_seed(&random, test_seed());
    fault_site_open(&site);
    size_t poison = 100 + qn_random_below(&random, 800);
    fault_enqueue(&site, "steady", poison);
    fault_enqueue(&site, "poison", 1);
    fault_enqueue(&site, "steady", 999 - poison);
    do {
        struct test_child child = fault_spawn_worker(&site, SLOTS, "drain");
        fault_lose(&site, child.pid);
        code = test_child_join(&child);
        deaths += code == 0 ? 0 : 1;
        assert_true(code == 0 || code == 128 + 9);
        assert_true(deaths < 20);
    } while (code != 0);
    print_message("poison %zu: %d workers died\n", poison, deaths);
    assert_true(deaths >= 3);
    (void)fault_journal_judge(&site, poison);
    fault_assert_end(&site, 999, 1);
    assert_poison_is_archived(&site, poison);
    fault_site_close(&site);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_poison_task_costs_one_task),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = FAULT_ROLES;
    const struct test_group group = {"kill_poison", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
