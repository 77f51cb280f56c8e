/* SPDX-License-Identifier: MIT */
/* test_kills.c - four workers that are killed and stopped at random while limits of several kinds
 * hold: by the records of the handlers no limit is ever exceeded, and each is used where work
 * waits.
 *
 * A killed process's runs end at its death. Its leases hold their share of a limit until they are
 * recovered, because no other process can know that the runs are over; so the time from each kill
 * to the recovery does not count for the use of limits of running tasks. The recovery is seen in
 * the records, too: a task that the dead process ran is started again. While a process is stopped,
 * its leases count, and what has ended there cannot be reported: that time does not count, either,
 * nor that in which one of the workers did not get the processor for 15 ms.
 * Limits of starts are judged over all of the time; a start that the busy machine has brought late
 * to its handler does not count there. Where the fences show when the broker has counted each
 * start, which is the case on Redis, these moments are judged, too, exactly and all of them. On a
 * busy machine even the slots of a worker without limits are not used fully; so a limit must be
 * used to 95 % of what those are, and to 85 % in the short run, where single moments weigh more. */
#include "lib_limit_fleet.h"

#include <stdlib.h>

#include "base/clock.h"

#define TASKS 1500
#define TASKS_FULL 20000
#define KILLS 4
#define KILLS_FULL 60
#define RECOVERY_MS_MAX 10000
#define USE_MIN 0.85
#define USE_MIN_FULL 0.95
#define JUDGED_S_MIN 2

static void run_all(struct fleet *fleet)
{
    int kills = test_full() ? KILLS_FULL : KILLS;
    for (int i = 0; i < kills; i++) {
        test_pause_ms(700 + (int)qn_random_below(&fleet->random, 900));
        fleet_stop_one(fleet);
        test_pause_ms((int)qn_random_below(&fleet->random, 300));
        fleet_kill_one(fleet);
    }
    int64_t end_ms = test_now_ms() + (test_full() ? 8 : 2) * (int64_t)TEST_PATIENCE_MS;
    /* A start and an end of each; to count tasks in the broker is much work beside the workers. */
    while (fault_journal_size(&fleet->site) < 2 * fleet->site.task_count ||
           fleet_completed(fleet) < fleet->site.task_count) {
        assert_true(test_now_ms() < end_ms);
        test_pause_ms(20);
    }
    fleet_stop(fleet);
}

static size_t judge_rules(const struct limit_record *record)
{
    size_t faults = 0;
    double most = limit_judge(record, &fleet_control).use;
    double least = (test_full() ? USE_MIN_FULL : USE_MIN) * most;
    print_message("%-18s used %5.1f %%; starts up to %.0f ms late\n", fleet_control.name,
                  100 * most, (double)record->lag_ns / 1e6);
    for (size_t i = 0; i < fleet_limit_count; i++) {
        const struct limit_rule *rule = &fleet_limits[i].rule;
        struct limit_verdict verdict = limit_judge(record, rule);
        bool wasted = rule->alone != 0 && (verdict.use < least || verdict.judged_s < JUDGED_S_MIN);
        print_message("%-18s %s %2d, used %5.1f %% in %.1f s%s%s\n", rule->name,
                      rule->period_ns > 0 ? "too many" : "most", (int)verdict.most,
                      100 * verdict.use, verdict.judged_s, verdict.exceeded ? ": exceeded" : "",
                      wasted ? ": not used" : "");
        faults += verdict.exceeded || wasted ? 1 : 0;
    }
    return faults;
}

/* Of the rates, at the moments at which the broker has counted the starts. */
static size_t judge_count_moments(struct limit_record *record)
{
    size_t faults = 0;
    if (!fleet_use_count_moments(record)) {
        return 0;
    }
    for (size_t i = 0; i < fleet_limit_count; i++) {
        const struct limit_rule *rule = &fleet_limits[i].rule;
        struct limit_verdict verdict = {.exceeded = false};
        if (rule->period_ns > 0) {
            verdict = limit_judge(record, rule);
        }
        if (verdict.exceeded) {
            print_message("%-18s too many %2d as counted\n", rule->name, (int)verdict.most);
            faults++;
        }
    }
    return faults;
}

static void no_limit_is_exceeded_and_each_is_used_while_workers_die(void **state)
{
    (void)state;
    static struct fleet fleet;
    int64_t recovery_ns = 0;
    fleet_open(&fleet, test_full() ? TASKS_FULL : TASKS);
    run_all(&fleet);
    size_t extra = fault_journal_judge(&fleet.site, SIZE_MAX);
    struct limit_record record = fleet_read(&fleet, &recovery_ns);
    print_message("%zu tasks, %zu extra starts, recovered after %.0f ms at most\n",
                  fleet.site.task_count, extra, (double)recovery_ns / 1e6);
    size_t faults = judge_rules(&record);
    faults += judge_count_moments(&record);
    free(record.events);
    free(record.excluded);
    assert_int_equal(faults, 0);
    assert_true(recovery_ns < RECOVERY_MS_MAX * QN_NS_PER_MS);
    fleet_close(&fleet);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_limit_is_exceeded_and_each_is_used_while_workers_die),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "worker", .main = fleet_worker}};
    const struct test_group group = {"limit_kills", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
