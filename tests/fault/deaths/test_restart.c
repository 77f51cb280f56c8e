/* SPDX-License-Identifier: MIT */
/* test_restart.c - a worker with 50 runs of a second is killed: its runs start again soon, however
 * often, and tasks enqueued meanwhile start without a delay. */
#include "lib_deaths.h"

#include <string.h>

#define SLOTS 50
#define NEW_GAP_MS 100
#define NEW_WITHIN_MS 2000

struct crowd {
    size_t first;
    size_t count;
    int64_t killed_at_ms;
    int64_t put_at_ms;
};

static bool all_started_since(struct deaths *deaths, void *user)
{
    const struct crowd *crowd = user;
    for (size_t i = crowd->first; i < crowd->first + crowd->count; i++) {
        const struct deaths_task *task = &deaths->tasks[i];
        if (task->ends == 0 && task->last_at_ms <= crowd->killed_at_ms) {
            return false;
        }
    }
    return true;
}

static bool half_run_again(struct deaths *deaths, void *user)
{
    const struct crowd *crowd = user;
    size_t again = 0;
    for (size_t i = crowd->first; i < crowd->first + crowd->count; i++) {
        again += deaths->tasks[i].last_at_ms > crowd->killed_at_ms ? 1 : 0;
    }
    return again >= crowd->count / 2;
}

/* The same, while new tasks come in. */
static bool started_beside_new_ones(struct deaths *deaths, void *user)
{
    struct crowd *crowd = user;
    if (test_now_ms() >= crowd->put_at_ms + NEW_GAP_MS) {
        crowd->put_at_ms = test_now_ms();
        (void)deaths_put(deaths, "default", "good", 1);
    }
    return all_started_since(deaths, crowd);
}

static bool all_ended(struct deaths *deaths, void *user)
{
    (void)user;
    return deaths_ended(deaths, NULL, NULL) == deaths->site.task_count;
}

/* The last start after the last kill, by the journal. */
static int64_t last_start_ms(const struct deaths *deaths, const struct crowd *crowd)
{
    int64_t late_ms = 0;
    for (size_t i = crowd->first; i < crowd->first + crowd->count; i++) {
        int64_t ms = deaths->tasks[i].last_at_ms - crowd->killed_at_ms;
        late_ms = ms > late_ms ? ms : late_ms;
    }
    return late_ms;
}

static void kill_and_watch(unsigned kills, int64_t within_ms)
{
    struct deaths *deaths = deaths_open(0);
    struct crowd crowd = {.count = SLOTS};
    const struct deaths_member member = {.host = "h", .queues = "default", .concurrency = SLOTS};
    deaths_add(deaths, &member);
    crowd.first = deaths_put(deaths, "default", "second", SLOTS);
    assert_true(deaths_until(deaths, all_started_since, &crowd, TEST_PATIENCE_MS));
    crowd.killed_at_ms = test_now_ms();
    deaths_kill(deaths, 0);
    size_t news = deaths->site.task_count;
    for (unsigned i = 1; i < kills; i++) {
        assert_true(deaths_until(deaths, half_run_again, &crowd, TEST_PATIENCE_MS));
        crowd.killed_at_ms = test_now_ms();
        deaths_kill(deaths, 0);
    }
    bool done = deaths_until(deaths, started_beside_new_ones, &crowd, 2 * TEST_PATIENCE_MS);
    print_message("%u kills: the last has started again after %lld ms%s\n", kills,
                  (long long)last_start_ms(deaths, &crowd), done ? "" : " and not all have");
    assert_true(done);
    assert_in_range(last_start_ms(deaths, &crowd), 0, within_ms);
    assert_true(deaths_until(deaths, all_ended, NULL, TEST_PATIENCE_MS));
    int64_t late_ms = deaths_late_ms(deaths, news, deaths->site.task_count, 100);
    print_message("  new tasks: the latest start %lld ms after its enqueue\n", (long long)late_ms);
    assert_in_range(late_ms + NEW_WITHIN_MS, 0, 2 * NEW_WITHIN_MS);
    assert_int_equal(deaths_archived(deaths, NULL, NULL), 0);
    deaths_close(deaths);
}

static void fifty_runs_start_again_within_5_s_of_a_kill(void **state)
{
    (void)state;
    kill_and_watch(1, 5000);
}

static void fifty_runs_start_again_within_15_s_of_two_kills(void **state)
{
    (void)state;
    if (!test_full()) {
        TEST_SKIP("twice the test before it: with QUERN_TEST_FULL=1");
    }
    kill_and_watch(2, 15000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(fifty_runs_start_again_within_5_s_of_a_kill),
    cmocka_unit_test(fifty_runs_start_again_within_15_s_of_two_kills),
};

DEATHS_MAIN("deaths_restart", tests)
