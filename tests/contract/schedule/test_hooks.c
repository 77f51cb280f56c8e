/* SPDX-License-Identifier: MIT */
/* test_hooks.c - the hooks of a scheduler: what they may change, and what slow ones cost. */
#include <stdlib.h>
#include <string.h>

#include "lib_schedule.h"
#include "lib_ticker.h"

#define FIRST_S SCHEDULE_NOW_S

struct hooks {
    size_t before_count;
    size_t after_count;
    size_t veto_count;
    size_t duplicate_count;
};

/* Refuses each second tick, and changes the others. */
static bool before(const quern_tick *tick, quern_task *task, void *user)
{
    struct hooks *hooks = user;
    hooks->before_count++;
    task->payload = "changed";
    task->payload_size = strlen("changed");
    return tick->at_ms / 1000 % 2 == 0;
}

static void after(const quern_tick *tick, void *user)
{
    struct hooks *hooks = user;
    hooks->after_count++;
    hooks->veto_count += tick->vetoed ? 1 : 0;
    assert_false(tick->is_duplicate);
}

static void hooks_change_and_veto_tasks(struct contract *c)
{
    struct ticker_test scheduler;
    struct hooks calls = {0};
    const struct qn_ticker_hooks hooks = {.before = before, .after = after, .user = &calls};
    ticker_open_with(c, &hooks, &scheduler);
    ticker_put_seconds(c, "e", QN_MISFIRE_ALL, FIRST_S - 4);
    (void)ticker_step(&scheduler);
    int64_t last_s = schedule_look(c, "e").last_s;
    assert_in_range(last_s, FIRST_S, FIRST_S + 1);
    assert_true(ticker_has_task(c, "e", FIRST_S));
    assert_true(ticker_has_task(c, "e", FIRST_S - 2));
    assert_false(ticker_has_task(c, "e", FIRST_S - 1));
    assert_false(ticker_has_task(c, "e", FIRST_S - 3));
    assert_int_equal(calls.before_count, last_s - FIRST_S + 4);
    assert_int_equal(calls.after_count, calls.before_count);
    assert_int_equal(calls.veto_count, 2 + (last_s - FIRST_S));
    struct qn_leased *run = contract_take(c, "default");
    assert_int_equal(run->task.payload_size, strlen("changed"));
    assert_memory_equal(run->task.payload, "changed", strlen("changed"));
    (void)contract_finish(c, run, QN_DONE);
    ticker_close(&scheduler);
}

static bool change_payload(const quern_tick *tick, quern_task *task, void *user)
{
    (void)tick;
    task->payload = user;
    task->payload_size = strlen(user);
    return true;
}

/* A lock by a key of its own does not depend on the payload. */
static void hook_that_changes_the_payload_keeps_the_unique_key(struct contract *c)
{
    struct ticker_test scheduler;
    char payload[] = "changed";
    const struct qn_ticker_hooks hooks = {.before = change_payload, .user = payload};
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    ticker_open_with(c, &hooks, &scheduler);
    entry.task.unique_key = "asynq:{default}:unique:a:b:custom";
    entry.task.unique_ms = INT64_C(3600) * 1000;
    entry.last_s = FIRST_S - 60;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    (void)ticker_step(&scheduler);
    struct qn_leased *run = contract_take(c, "default");
    assert_non_null(run);
    assert_memory_equal(run->task.payload, "changed", strlen("changed"));
    assert_string_equal(run->task.unique_key, entry.task.unique_key);
    (void)contract_finish(c, run, QN_DONE);
    ticker_close(&scheduler);
}

static void note_duplicate(const quern_tick *tick, void *user)
{
    struct hooks *hooks = user;
    hooks->after_count++;
    hooks->duplicate_count += tick->is_duplicate ? 1 : 0;
    assert_false(tick->vetoed);
    assert_true(tick->missed);
}

/* All of four ticks but the first: the task of the first one holds the lock. */
static void after_is_told_of_a_tick_without_a_task(struct contract *c)
{
    struct ticker_test scheduler;
    struct hooks calls = {0};
    const struct qn_ticker_hooks hooks = {.after = note_duplicate, .user = &calls};
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    ticker_open_with(c, &hooks, &scheduler);
    entry.task.unique_key = "asynq:{default}:unique:a:b:custom";
    entry.task.unique_ms = INT64_C(3600) * 1000;
    entry.misfire = QN_MISFIRE_ALL;
    entry.misfire_max = 1000;
    entry.late_ms = 0;
    entry.last_s = FIRST_S - 190;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    contract_advance(c, 30000);
    (void)ticker_step(&scheduler);
    assert_int_equal(calls.after_count, 4);
    assert_int_equal(calls.duplicate_count, 3);
    assert_int_equal(schedule_look(c, "e").runs, 1);
    assert_int_equal(contract_queue(c, "default").size, 1);
    ticker_close(&scheduler);
}

/* --- Slow ones ------------------------------------------------------------------------ */

/* Each call lets this much time pass; before the first one ends another scheduler may look. */
struct slow {
    struct contract *c;
    int64_t ms;
    struct ticker_test *other; /* NULL: none */
    size_t calls;
};

static void pass(struct slow *slow)
{
    slow->calls++;
    contract_advance(slow->c, slow->ms);
    if (slow->other != NULL) {
        (void)ticker_step(slow->other);
    }
}

static bool slow_before(const quern_tick *tick, quern_task *task, void *user)
{
    (void)tick;
    (void)task;
    pass(user);
    return true;
}

static void slow_after(const quern_tick *tick, void *user)
{
    (void)tick;
    pass(user);
}

static size_t count_text(const char *lines, const char *text)
{
    size_t count = 0;
    for (const char *at = strstr(lines, text); at != NULL; at = strstr(at + 1, text)) {
        count++;
    }
    return count;
}

/* Puts an entry with three missed ticks, and lets one step send them. */
static void send_three(struct contract *c, struct ticker_test *scheduler)
{
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    entry.misfire = QN_MISFIRE_ALL;
    entry.misfire_max = 1000;
    entry.last_s = FIRST_S - 180;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    (void)ticker_step(scheduler);
}

static void hook_of_more_than_a_second_is_logged(struct contract *c)
{
    struct ticker_test scheduler;
    struct slow slow = {.c = c, .ms = 900};
    const struct qn_ticker_hooks hooks = {
        .before = slow_before, .after = slow_after, .user = &slow};
    ticker_open_with(c, &hooks, &scheduler);
    send_three(c, &scheduler);
    assert_int_equal(slow.calls, 6);
    assert_null(strstr(scheduler.lines, "hook of the scheduler is slow"));
    assert_int_equal(schedule_remove(c, "e"), QUERN_OK);
    slow.ms = 1500;
    send_three(c, &scheduler);
    assert_int_equal(count_text(scheduler.lines, "hook of the scheduler is slow"), 6);
    const char *line = strstr(scheduler.lines, "hook=before");
    assert_non_null(line);
    assert_non_null(strstr(line, "entry=e"));
    int64_t took_ms = strtoll(strstr(line, "took_ms=") + strlen("took_ms="), NULL, 10);
    assert_in_range(took_ms, 1500, 1500 + TEST_PATIENCE_MS);
    assert_int_equal(count_text(scheduler.lines, "hook=after"), 3);
    ticker_close(&scheduler);
}

/* Its lease may be over after each call: it is taken again before the tick is sent. */
static void tick_whose_hook_outlasts_the_lease_is_enqueued(struct contract *c)
{
    struct ticker_test scheduler;
    struct slow slow = {.c = c, .ms = QN_LEADER_LEASE_MS + 1000};
    const struct qn_ticker_hooks hooks = {.before = slow_before, .user = &slow};
    ticker_open_with(c, &hooks, &scheduler);
    send_three(c, &scheduler);
    assert_int_equal(slow.calls, 3);
    assert_int_equal(schedule_look(c, "e").runs, 3);
    assert_int_equal(schedule_look(c, "e").last_s, FIRST_S);
    assert_int_equal(count_text(scheduler.lines, "its lease was not renewed in time"), 3);
    ticker_close(&scheduler);
}

static void tick_whose_hook_costs_the_leadership_is_the_next_ones(struct contract *c)
{
    struct ticker_test scheduler;
    struct ticker_test other;
    struct slow slow = {.c = c, .ms = QN_LEADER_LEASE_MS + 1000, .other = &other};
    const struct qn_ticker_hooks hooks = {.before = slow_before, .user = &slow};
    ticker_open(c, &other);
    ticker_open_with(c, &hooks, &scheduler);
    send_three(c, &scheduler);
    assert_int_equal(slow.calls, 1);
    assert_false(scheduler.leader.leads);
    assert_true(other.leader.leads);
    assert_int_equal(schedule_look(c, "e").runs, 3);
    assert_int_equal(contract_queue(c, "default").size, 3);
    assert_non_null(strstr(scheduler.lines, "scheduler leads no longer"));
    ticker_close(&scheduler);
    ticker_close(&other);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(hooks_change_and_veto_tasks),
    CONTRACT_TEST(hook_that_changes_the_payload_keeps_the_unique_key),
    CONTRACT_TEST(after_is_told_of_a_tick_without_a_task),
    CONTRACT_TEST(hook_of_more_than_a_second_is_logged),
    CONTRACT_TEST(tick_whose_hook_outlasts_the_lease_is_enqueued),
    CONTRACT_TEST(tick_whose_hook_costs_the_leadership_is_the_next_ones),
};
CONTRACT_MAIN(tests)
