/* SPDX-License-Identifier: MIT */
/* test_deploy.c - a broken deploy: every task of a queue kills the worker that runs it, on
 * all hosts or on one of two, for ten minutes of a turned clock. None is archived, and after the
 * fix all are done. */
#include "lib_deaths.h"

#include <string.h>

#define TASKS ((size_t)1000)
#define PACE 20
#define MINUTE_MS (60 * INT64_C(1000))
#define BROKEN_MS (test_full() ? 10 * MINUTE_MS : MINUTE_MS / 2)

struct deploy {
    size_t tasks;
    int64_t until_ms; /* turned */
};

static bool time_has_passed(struct deaths *deaths, void *user)
{
    const struct deploy *deploy = user;
    return deaths->passed_ms >= deploy->until_ms;
}

static bool all_are_done(struct deaths *deaths, void *user)
{
    (void)user;
    return deaths_ended(deaths, NULL, NULL) == deaths->site.task_count;
}

/* The tasks come evenly while it is broken. */
static bool time_has_passed_among_new_ones(struct deaths *deaths, void *user)
{
    struct deploy *deploy = user;
    size_t due = (size_t)(deaths->passed_ms * (int64_t)TASKS / deploy->until_ms);
    due = due < TASKS ? due : TASKS;
    if (due > deploy->tasks) {
        (void)deaths_put(deaths, "default", "deploy", due - deploy->tasks);
        deploy->tasks = due;
    }
    return time_has_passed(deaths, user);
}

static struct deaths *deploy_open(unsigned slots)
{
    struct deaths *deaths = deaths_open(PACE);
    for (int i = 0; i < 2; i++) {
        const struct deaths_member member = {
            .host = i == 0 ? "a" : "b", .queues = "default", .concurrency = slots};
        deaths_add(deaths, &member);
    }
    /* It was well once: a queue that has never run a task cannot be distinguished from a broken
     * one. */
    (void)deaths_put(deaths, "default", "deploy", 20);
    assert_true(deaths_until(deaths, all_are_done, NULL, TEST_PATIENCE_MS));
    return deaths;
}

static void deploy_close(struct deaths *deaths)
{
    assert_int_equal(deaths_archived(deaths, NULL, NULL), 0);
    int64_t fixed_ms = deaths->passed_ms;
    deaths_break(deaths, "a", false);
    deaths_break(deaths, "b", false);
    if (!deaths_until(deaths, all_are_done, NULL, 2 * TEST_PATIENCE_MS)) {
        fail_msg("%zu of %zu are done", deaths_ended(deaths, NULL, NULL), deaths->site.task_count);
    }
    print_message("%zu workers died; all done %lld s (turned) after the fix\n", deaths->died,
                  (long long)(deaths->passed_ms - fixed_ms) / 1000);
    assert_int_equal(deaths_archived(deaths, NULL, NULL), 0);
    deaths_close(deaths);
}

static void deploy_that_is_broken_on_all_hosts_archives_nothing(void **state)
{
    (void)state;
    struct deaths *deaths = deploy_open(8);
    deaths_break(deaths, "a", true);
    deaths_break(deaths, "b", true);
    (void)deaths_put(deaths, "default", "deploy", TASKS);
    struct deploy deploy = {.until_ms = deaths->passed_ms + BROKEN_MS};
    assert_true(deaths_until(deaths, time_has_passed, &deploy, BROKEN_MS));
    deploy_close(deaths);
}

static void deploy_that_is_broken_on_one_of_two_hosts_archives_nothing(void **state)
{
    (void)state;
    struct deaths *deaths = deploy_open(1);
    deaths_break(deaths, "a", true);
    struct deploy deploy = {.until_ms = deaths->passed_ms + BROKEN_MS};
    assert_true(deaths_until(deaths, time_has_passed_among_new_ones, &deploy, BROKEN_MS));
    deploy_close(deaths);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(deploy_that_is_broken_on_all_hosts_archives_nothing),
    cmocka_unit_test(deploy_that_is_broken_on_one_of_two_hosts_archives_nothing),
};

DEATHS_MAIN("deaths_deploy", tests)
