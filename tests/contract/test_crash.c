/* SPDX-License-Identifier: MIT */
/* test_crash.c - runs whose process died: who is charged, when a task is poison, and the brake
 * that keeps a broken deploy from emptying a queue into the archive. Recovery of leases is in
 * test_recover.c; both end a run in the same way. */
#include "lib_contract.h"

#include <string.h>

#include "quern/inspector.h"

#define HOUR_MS (3600 * INT64_C(1000))

static enum qn_applied crash(struct contract *c, struct qn_leased *run, bool started)
{
    struct qn_outcome outcome = {
        .run = run, .kind = QN_CRASH, .started = started, .cause = QUERN_CAUSE_CHILD_DIED};
    enum qn_applied applied = contract_end(c, &outcome);
    qn_leased_free(run);
    return applied;
}

/* Takes the task after the wait of its second crash. */
static struct qn_leased *take_after_wait(struct contract *c, const char *id)
{
    contract_advance(c, QN_CHARGED_MORE_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    return contract_take_id(c, "default", id);
}

static void first_crash_returns_the_task_at_once(struct contract *c)
{
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    assert_int_equal(crash(c, contract_take_id(c, "default", "a"), true), QN_APPLIED);
    struct contract_view view = contract_see(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.crash_count, 1);
    assert_int_equal(view.retry_count, 0);
    contract_assert_counted(c, "default", 0, 0);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->crash_count, 1);
    assert_int_equal(run->retry_count, 0);
    assert_int_equal(run->cause, QUERN_CAUSE_CHILD_DIED);
    contract_finish(c, run, QN_DONE);
}

static void crash_before_the_start_is_not_charged(struct contract *c)
{
    for (int i = 0; i < 5; i++) {
        struct qn_leased *run;
        if (i == 0) {
            contract_put(c, "default", "a");
        }
        run = contract_fetch(c, "default");
        assert_non_null(run);
        assert_int_equal(crash(c, run, false), QN_APPLIED);
        struct contract_view view = contract_see(c, "default", "a");
        assert_int_equal(view.state, QUERN_TASK_PENDING);
        assert_int_equal(view.crash_count, 0);
    }
    contract_assert_counted(c, "default", 0, 0);
}

static void second_crash_waits_ten_seconds(struct contract *c)
{
    int64_t next_due_at_ms = 0;
    crash(c, contract_start(c, "a"), true);
    assert_int_equal(crash(c, contract_take_id(c, "default", "a"), true), QN_APPLIED);
    struct contract_view view = contract_see(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.crash_count, 2);
    assert_int_equal(view.retry_count, 0);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 10000);
    assert_null(contract_take(c, "default"));
    contract_advance(c, 9999);
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 0);
    assert_int_equal(next_due_at_ms, CONTRACT_NOW_MS + 10000);
    contract_advance(c, 1);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->cause, QUERN_CAUSE_CHILD_DIED);
    contract_finish(c, run, QN_DONE);
    contract_assert_counted(c, "default", 1, 0);
}

static void third_crash_archives_the_task_as_poison(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    assert_int_equal(crash(c, take_after_wait(c, "a"), true), QN_ARCHIVED);
    struct contract_view view = contract_see(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_int_equal(view.crash_count, 3);
    assert_int_equal(view.retry_count, 0);
    assert_non_null(strstr(view.error, "poison"));
    contract_assert_counted(c, "default", 1, 1);
}

static void crashes_older_than_the_window_are_forgotten(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    struct qn_leased *run = take_after_wait(c, "a");
    contract_advance(c, 73 * HOUR_MS);
    assert_int_equal(crash(c, run, true), QN_APPLIED);
    struct contract_view view = contract_see(c, "default", "a");
    assert_int_equal(view.crash_count, 1);
    assert_int_equal(view.state, QUERN_TASK_PENDING);
}

static void crashes_within_the_window_are_remembered(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    contract_advance(c, 35 * HOUR_MS);
    crash(c, contract_take_id(c, "default", "a"), true);
    contract_advance(c, 36 * HOUR_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_int_equal(crash(c, contract_take_id(c, "default", "a"), true), QN_ARCHIVED);
}

static void failures_do_not_make_poison(struct contract *c)
{
    contract_put(c, "default", "a");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY),
                         QN_APPLIED);
        contract_advance(c, 60000);
        assert_int_equal(contract_forward(c, "default", NULL), 1);
    }
    assert_int_equal(contract_see(c, "default", "a").crash_count, 0);
}

/* --- The brake ---------------------------------------------------------------------- */

static void crash_many(struct contract *c, const char *prefix, size_t count)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    contract_put_many(c, "default", prefix, count);
    /* Leased together, else the first crashed one would come back before the next. */
    assert_int_equal(contract_lease(c, "default", (uint32_t)count, runs), count);
    for (size_t i = 0; i < count; i++) {
        crash(c, runs[i], true);
    }
}

static void crashes_of_different_tasks_make_a_streak(struct contract *c)
{
    crash_many(c, "a", 4);
    assert_int_equal(c->crash_streak, 4);
}

static void crashes_of_one_task_make_no_streak(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    assert_int_equal(c->crash_streak, 1);
    crash(c, contract_take_id(c, "default", "a"), true);
    assert_int_equal(c->crash_streak, 1);
}

static void any_other_outcome_ends_the_streak(struct contract *c)
{
    const enum qn_outcome_kind kinds[] = {QN_DONE, QN_DROP, QN_RETRY, QN_ARCHIVE};
    char id[8];
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        (void)snprintf(id, sizeof id, "ok%zu", i);
        contract_put(c, "default", id);
        struct qn_leased *good = contract_take_id(c, "default", id);
        (void)snprintf(id, sizeof id, "bad%zu-", i);
        struct qn_leased *runs[3];
        contract_put_many(c, "default", id, 3);
        assert_int_equal(contract_lease(c, "default", 3, runs), 3);
        for (size_t k = 0; k < 3; k++) {
            crash(c, runs[k], true);
        }
        assert_int_equal(c->crash_streak, 3);
        contract_finish(c, good, kinds[i]);
        assert_int_equal(c->crash_streak, 0);
        for (size_t k = 0; k < 3; k++) {
            contract_finish(c, contract_take(c, "default"), QN_DROP);
        }
    }
}

static void success_that_came_too_late_leaves_the_streak(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    contract_lapse(c, "default");
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    const quern_inspector_options options = {.clock = &c->clock};
    assert_ok(quern_inspector_open(c->url, &options, &inspector, &err), err);
    assert_ok(quern_inspector_act(inspector, QUERN_ACTION_ARCHIVE, "default", "a", &err), err);
    quern_inspector_free(inspector);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    assert_null(contract_take(c, "default"));
    assert_int_equal(c->crash_streak, 1);
}

static void braked_queue_charges_no_crash(struct contract *c)
{
    crash_many(c, "a", QN_BRAKE_DEATHS);
    assert_true(c->crash_streak >= QN_BRAKE_DEATHS);
    struct qn_leased *runs[QN_BRAKE_DEATHS];
    assert_int_equal(contract_lease(c, "default", QN_BRAKE_DEATHS, runs), QN_BRAKE_DEATHS);
    contract_put(c, "default", "late");
    struct qn_leased *late = contract_take_id(c, "default", "late");
    assert_int_equal(crash(c, late, true), QN_APPLIED);
    struct contract_view view = contract_see(c, "default", "late");
    assert_int_equal(view.crash_count, 0);
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    for (size_t i = 0; i < QN_BRAKE_DEATHS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%s", runs[i]->task.id);
        assert_int_equal(crash(c, runs[i], true), QN_APPLIED);
        assert_true(contract_see(c, "default", id).crash_count <= 1);
    }
}

static void broken_deploy_empties_no_queue_into_the_archive(struct contract *c)
{
    struct qn_leased *runs[30];
    contract_put_many(c, "default", "a", 30);
    for (int round = 0; round < 8; round++) {
        size_t count = contract_lease(c, "default", 30, runs);
        for (size_t i = 0; i < count; i++) {
            crash(c, runs[i], true);
        }
        contract_advance(c, 60000);
        (void)contract_forward(c, "default", NULL);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), 0);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 30);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(first_crash_returns_the_task_at_once),
    CONTRACT_TEST(crash_before_the_start_is_not_charged),
    CONTRACT_TEST(second_crash_waits_ten_seconds),
    CONTRACT_TEST(third_crash_archives_the_task_as_poison),
    CONTRACT_TEST(crashes_older_than_the_window_are_forgotten),
    CONTRACT_TEST(crashes_within_the_window_are_remembered),
    CONTRACT_TEST(failures_do_not_make_poison),
    CONTRACT_TEST(crashes_of_different_tasks_make_a_streak),
    CONTRACT_TEST(crashes_of_one_task_make_no_streak),
    CONTRACT_TEST(any_other_outcome_ends_the_streak),
    CONTRACT_TEST(success_that_came_too_late_leaves_the_streak),
    CONTRACT_TEST(braked_queue_charges_no_crash),
    CONTRACT_TEST(broken_deploy_empties_no_queue_into_the_archive),
};
CONTRACT_MAIN(tests)
