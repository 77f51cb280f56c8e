/* SPDX-License-Identifier: MIT */
/* test_crashes.c - handlers that crash in eight ways among good ones, by all four policies: every
 * task is accounted for, no good one runs twice, the error says how each died. And how soon a task
 * is back after the death of its child.
 *
 * The worker runs in this program, under the sanitizers of the build. */
#include "lib_crash.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Of a round, with all ways by all policies: 7 ways die 3 + 3 + 1 + 1 times, loops end 4 * 2 times
 * by their timeouts. */
#define ROUND_CRASHES (7 * 8 + 4 * 2)
#define ROUNDS_TOTAL (test_full() ? 2000 / ROUND_CRASHES + 1 : 200 / ROUND_CRASHES + 1)
#define WITHIN_MS (test_full() ? 600000 : 60000)
#define LATE_TASKS 200
#define LATE_MS_MAX 150

QUERN_API const char *__asan_default_options(void);
/* A bug that ASan finds ends a child as it would without it, and the worker, too. */
const char *__asan_default_options(void)
{
    return "abort_on_error=1";
}

static const char *const policies[] = {"requeue", "fail", "archive", "drop"};
enum { REQUEUE, FAIL, ARCHIVE, DROP, POLICY_COUNT };

static uint32_t wanted_starts(const struct crash_task *task)
{
    if (strcmp(task->type, "steady") == 0) {
        return 1;
    }
    if (task->way == CRASH_LOOP) {
        return 2;
    }
    return strcmp(task->type, "requeue") == 0 || strcmp(task->type, "fail") == 0 ? 3 : 1;
}

static bool ends_dropped(const struct crash_task *task)
{
    return strcmp(task->type, "drop") == 0 && task->way != CRASH_LOOP;
}

static void put_round(struct crash *crash)
{
    for (size_t way = 0; way < CRASH_WAY_COUNT; way++) {
        for (size_t policy = 0; policy < POLICY_COUNT; policy++) {
            (void)crash_put(crash, policies[policy], way);
            crash_put_steady(crash, 4);
        }
    }
}

/* Good ones are added meanwhile: where all runs of a queue die it is braked. */
static void wait_for_the_end(struct crash *crash, size_t archived)
{
    int64_t end_ms = test_now_ms() + WITHIN_MS;
    bool over = false;
    while (!over) {
        quern_queue_info queue = crash_queue(crash);
        uint64_t left = queue.size - queue.counts[QUERN_TASK_COMPLETED] - archived;
        bool all_archived = queue.counts[QUERN_TASK_ARCHIVED] >= archived;
        over = all_archived && left == 0;
        if (test_now_ms() >= end_ms) {
            fail_msg("%llu of %zu archived, %llu left",
                     (unsigned long long)queue.counts[QUERN_TASK_ARCHIVED], archived,
                     (unsigned long long)left);
        }
        if (!all_archived && queue.counts[QUERN_TASK_PENDING] < 20) {
            crash_put_steady(crash, 20);
        }
        test_pause_ms(20);
    }
}

static void judge_starts(const struct crash *crash)
{
    size_t crashes = 0;
    for (size_t i = 0; i < crash->site.task_count; i++) {
        const struct crash_task *task = &crash->tasks[i];
        bool is_good = strcmp(task->type, "steady") == 0;
        if (task->starts != wanted_starts(task) || task->ends != (is_good ? 1 : 0)) {
            fail_msg("task %zu, %s %s: %u starts, %u ends", i, task->type,
                     is_good ? "" : crash_ways[task->way].name, task->starts, task->ends);
        }
        crashes += is_good ? 0 : task->starts;
    }
    print_message("%zu crashes among %zu tasks\n", crashes, crash->site.task_count);
}

static void judge_text(const struct crash *crash, const quern_task_info *info)
{
    size_t number = strtoull(quern_task_info_id(info), NULL, 10);
    const struct crash_task *task = &crash->tasks[number];
    const struct crash_way *way = &crash_ways[task->way];
    const char *error = quern_task_info_error(info);
    char words[64];
    (void)snprintf(words, sizeof words, "last words of %s", way->name);
    bool is_complete = way->is_long || strstr(error, words) != NULL;
    for (size_t i = 0; i < TEST_COUNT(way->words) && way->words[i] != NULL; i++) {
        is_complete = is_complete && strstr(error, way->words[i]) != NULL;
    }
    bool is_poison = strcmp(task->type, "requeue") == 0 && task->way != CRASH_LOOP;
    if (!is_complete || (strstr(error, "poison") != NULL) != is_poison) {
        fail_msg("task %zu, %s %s: %s", number, task->type, way->name, error);
    }
}

static void judge_texts(struct crash *crash, size_t archived)
{
    const quern_task_filter filter = {.state = QUERN_TASK_ARCHIVED, .limit = 10000};
    quern_task_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_tasks(crash->inspector, &filter, &list, &err), err);
    assert_int_equal(quern_task_list_size(list), archived);
    for (size_t i = 0; i < archived; i++) {
        judge_text(crash, quern_task_list_at(list, i));
    }
    quern_task_list_free(list);
}

static void each_crash_costs_one_run(void **state)
{
    (void)state;
    struct crash *crash = crash_open(4);
    for (int round = 0; round < ROUNDS_TOTAL; round++) {
        put_round(crash);
    }
    size_t archived = 0;
    size_t good = 0;
    for (size_t i = 0; i < crash->site.task_count; i++) {
        bool is_good = strcmp(crash->tasks[i].type, "steady") == 0;
        archived += !is_good && !ends_dropped(&crash->tasks[i]) ? 1 : 0;
    }
    wait_for_the_end(crash, archived);
    for (size_t i = 0; i < crash->site.task_count; i++) {
        good += strcmp(crash->tasks[i].type, "steady") == 0 ? 1 : 0;
    }
    quern_queue_info queue = crash_queue(crash);
    crash_end(crash);
    assert_int_equal(queue.counts[QUERN_TASK_ARCHIVED], archived);
    assert_int_equal(queue.counts[QUERN_TASK_COMPLETED], good);
    assert_int_equal(crash->stats.stale, 0);
    assert_int_equal(crash->stats.lost_leases, 0);
    judge_starts(crash);
    judge_texts(crash, archived);
    crash_close(crash);
}

static int compare_ns(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* From the handler's last act to the moment when the broker has confirmed that the task is pending
 * again. */
static void task_is_back_soon_after_its_child_died(void **state)
{
    (void)state;
    struct crash *crash = crash_open(2);
    int64_t late_ns[LATE_TASKS];
    for (size_t i = 0; i < LATE_TASKS; i++) {
        (void)crash_put(crash, "once", i % 2 == 0 ? 0 : 1);
    }
    int64_t end_ms = test_now_ms() + WITHIN_MS;
    while (crash_queue(crash).counts[QUERN_TASK_COMPLETED] < LATE_TASKS) {
        assert_true(test_now_ms() < end_ms);
        test_pause_ms(10);
    }
    crash_end(crash);
    for (size_t i = 0; i < LATE_TASKS; i++) {
        assert_int_equal(crash->tasks[i].starts, 2);
        assert_int_equal(crash->tasks[i].ends, 1);
        late_ns[i] = crash->tasks[i].applied_at_ns - crash->tasks[i].start_at_ns;
    }
    qsort(late_ns, LATE_TASKS, sizeof late_ns[0], compare_ns);
    print_message("death to pending: p50 %.1f ms, p99 %.1f ms, max %.1f ms\n",
                  (double)late_ns[LATE_TASKS / 2] / 1e6,
                  (double)late_ns[LATE_TASKS * 99 / 100] / 1e6,
                  (double)late_ns[LATE_TASKS - 1] / 1e6);
    assert_in_range(late_ns[LATE_TASKS * 99 / 100] / QN_NS_PER_MS, 0, LATE_MS_MAX);
    crash_close(crash);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_crash_costs_one_run),
    cmocka_unit_test(task_is_back_soon_after_its_child_died),
};

CRASH_MAIN("prefork_crashes", tests)
