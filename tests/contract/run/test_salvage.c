/* SPDX-License-Identifier: MIT */
/* test_salvage.c - a successful run whose lease was lost: it counts, once, if no worker has started
 * the task since; in every other case, and for every other outcome, it changes nothing. */
#include "lib_contract.h"

#include <string.h>

/* A run of task "a" whose lease was lost; the task is pending again. */
static struct qn_leased *lost_run(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    contract_expire(c, "default");
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
    return run;
}

static void success_is_salvaged_while_the_task_is_pending(struct contract *c)
{
    struct qn_leased *run = lost_run(c);
    assert_int_equal(contract_report(c, run, QN_DONE), QN_SALVAGED);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    assert_null(contract_take(c, "default"));
    contract_assert_counted(c, "default", 1, 0);
    assert_int_equal(contract_report(c, run, QN_DONE), QN_STALE);
    contract_assert_counted(c, "default", 1, 0);
    qn_leased_free(run);
}

/* A worker whose process cannot be seen here loses a lease of task "a", which is charged with its
 * death. */
static struct qn_leased *charged_run(struct contract *c)
{
    const struct contract_worker far = {.id = "far", .is_far = true};
    struct qn_leased *run = NULL;
    contract_heartbeat_as(c->broker, &far);
    assert_int_equal(contract_lease_as(c, &far, "default", 1, &run), 1);
    assert_string_equal(run->task.id, "a");
    assert_int_equal(contract_recover(c, "default"), 0); /* its record is new: seen each second */
    contract_advance(c, 2000);                           /* the grace for its clock */
    contract_expire(c, "default");
    return run;
}

static void success_is_salvaged_while_the_task_waits_in_retry(struct contract *c)
{
    contract_put(c, "default", "a");
    qn_leased_free(charged_run(c));
    struct qn_leased *run = charged_run(c);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_SALVAGED);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    contract_assert_counted(c, "default", 1, 0);
}

static void success_is_not_salvaged_while_somebody_runs_the_task(struct contract *c)
{
    struct qn_leased *run = lost_run(c);
    struct qn_leased *owner = contract_take_id(c, "default", "a");
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ACTIVE);
    contract_assert_counted(c, "default", 0, 0);
    assert_int_equal(contract_finish(c, owner, QN_DONE), QN_APPLIED);
}

static void success_is_not_salvaged_after_somebody_else_ran_the_task(struct contract *c)
{
    struct qn_leased *run = lost_run(c);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
    contract_assert_counted(c, "default", 1, 1);
}

static void success_is_not_salvaged_after_somebody_else_succeeded(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 60000});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_expire(c, "default");
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_COMPLETED);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    contract_assert_counted(c, "default", 1, 0);
}

static void success_is_not_salvaged_out_of_the_archive(struct contract *c)
{
    contract_enqueue(
        c,
        &(quern_task){.type = "t", .queue = "default", .id = "a", .retry_max = QUERN_RETRY_NEVER});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_expire(c, "default");
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    contract_assert_counted(c, "default", 1, 1);
}

static void success_is_not_salvaged_for_another_task_with_the_id(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    assert_int_equal(contract_report(c, run, QN_DONE), QN_APPLIED);
    contract_put(c, "default", "a");
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
}

static void success_of_a_retried_run_is_not_salvaged(struct contract *c)
{
    /* The run reported its failure itself; a later success of the same run is a mistake. */
    struct qn_leased *run = contract_start(c, "a");
    assert_int_equal(contract_report(c, run, QN_RETRY), QN_APPLIED);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
}

static void failed_run_is_never_salvaged(struct contract *c)
{
    const enum qn_outcome_kind kinds[] = {QN_RETRY,     QN_SNOOZE, QN_ARCHIVE,
                                          QN_GIVE_BACK, QN_CRASH,  QN_CANCEL};
    struct qn_leased *run = lost_run(c);
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        assert_int_equal(contract_report(c, run, kinds[i]), QN_STALE);
        struct contract_view view = contract_inspect(c, "default", "a");
        assert_int_equal(view.state, QUERN_TASK_PENDING);
        assert_int_equal(view.retry_count, 0);
        assert_int_equal(view.crash_count, 0);
        contract_assert_counted(c, "default", 0, 0);
    }
    qn_leased_free(run);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void expired_lease_that_nobody_recovered_is_still_good(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    contract_advance(c, CONTRACT_LEASE_MS * 3);
    assert_int_not_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    contract_assert_counted(c, "default", 1, 0);
}

static void salvaged_run_keeps_its_result_for_the_retention(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 60000});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_expire(c, "default");
    struct qn_outcome outcome = {
        .run = run, .kind = QN_DONE, .result = "42", .result_size = 2, .has_result = true};
    assert_int_equal(contract_end(c, &outcome), QN_SALVAGED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_COMPLETED);
    assert_int_equal(view.result_size, 2);
    assert_memory_equal(view.result, "42", 2);
    qn_leased_free(run);
}

static void salvage_frees_the_unique_lock(struct contract *c)
{
    const quern_task task = {.type = "t", .id = "a", .unique_ms = 3600000};
    contract_enqueue(c, &task);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_expire(c, "default");
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_SALVAGED);
    assert_int_equal(contract_try(c, &task), QUERN_OK);
}

/* Both find their place at the head of pending in one call. */
static void salvage_beside_a_give_back_takes_no_other_task(struct contract *c)
{
    struct qn_leased *runs[3];
    struct qn_leased *lapsed = contract_start(c, "a");
    contract_put(c, "default", "b");
    contract_advance(c, CONTRACT_LEASE_MS / 2);
    runs[0] = contract_take_id(c, "default", "b");
    contract_put(c, "default", "z");
    contract_advance(c, CONTRACT_LEASE_MS / 2 + 1000);
    assert_int_equal(contract_recover(c, "default"), 1);
    enum qn_applied applied[2];
    const struct qn_outcome outcomes[] = {
        {.run = lapsed, .kind = QN_DONE},
        {.run = runs[0], .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK}};
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = 2};
    contract_exchange(c, &exchange, applied, NULL);
    assert_int_equal(applied[0], QN_SALVAGED);
    assert_int_equal(applied[1], QN_APPLIED);
    qn_leased_free(lapsed);
    qn_leased_free(runs[0]);
    assert_int_equal(contract_lease(c, "default", 3, runs), 2);
    assert_string_equal(runs[0]->task.id, "b");
    assert_string_equal(runs[1]->task.id, "z");
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
}

/* The result of each is at its index, however the broker sorts them. */
static void one_batch_mixes_salvage_with_all_kinds(struct contract *c)
{
    enum { COUNT = 8 };
    static const struct {
        enum qn_outcome_kind kind;
        enum qn_applied applied;
        int state; /* 0: gone */
    } rows[COUNT] = {{QN_DONE, QN_APPLIED, 0},
                     {QN_RETRY, QN_APPLIED, QUERN_TASK_RETRY},
                     {QN_DONE, QN_SALVAGED, 0}, /* the expired one */
                     {QN_SNOOZE, QN_APPLIED, QUERN_TASK_RETRY},
                     {QN_DONE, QN_STALE, 0}, /* was reported before */
                     {QN_ARCHIVE, QN_APPLIED, QUERN_TASK_ARCHIVED},
                     {QN_DONE, QN_APPLIED, 0},
                     {QN_GIVE_BACK, QN_APPLIED, QUERN_TASK_PENDING}};
    struct qn_leased *runs[COUNT];
    struct qn_outcome outcomes[COUNT];
    enum qn_applied applied[COUNT];
    struct qn_leased *lapsed = contract_start(c, "a");
    contract_advance(c, CONTRACT_LEASE_MS / 2);
    contract_put_many(c, "default", "b", COUNT);
    assert_int_equal(contract_lease(c, "default", COUNT, runs), COUNT);
    contract_finish(c, runs[2], QN_DONE);
    runs[2] = lapsed;
    assert_int_equal(contract_report(c, runs[4], QN_DONE), QN_APPLIED);
    contract_advance(c, CONTRACT_LEASE_MS / 2 + 1000);
    assert_int_equal(contract_recover(c, "default"), 1);
    for (size_t i = 0; i < COUNT; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i],
                                          .kind = rows[i].kind,
                                          .delay_ms = 60000,
                                          .cause = QUERN_CAUSE_GIVEN_BACK,
                                          .error = rows[i].kind == QN_DONE ? NULL : "broken"};
    }
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = COUNT};
    contract_exchange(c, &exchange, applied, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(applied[i], rows[i].applied);
        assert_int_equal(contract_state(c, "default", runs[i]->task.id), rows[i].state);
        qn_leased_free(runs[i]);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), 0);
    contract_assert_counted(c, "default", 7, 2);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(success_is_salvaged_while_the_task_is_pending),
    CONTRACT_TEST(success_is_salvaged_while_the_task_waits_in_retry),
    CONTRACT_TEST(success_is_not_salvaged_while_somebody_runs_the_task),
    CONTRACT_TEST(success_is_not_salvaged_after_somebody_else_ran_the_task),
    CONTRACT_TEST(success_is_not_salvaged_after_somebody_else_succeeded),
    CONTRACT_TEST(success_is_not_salvaged_out_of_the_archive),
    CONTRACT_TEST(success_is_not_salvaged_for_another_task_with_the_id),
    CONTRACT_TEST(success_of_a_retried_run_is_not_salvaged),
    CONTRACT_TEST(failed_run_is_never_salvaged),
    CONTRACT_TEST(expired_lease_that_nobody_recovered_is_still_good),
    CONTRACT_TEST(salvaged_run_keeps_its_result_for_the_retention),
    CONTRACT_TEST(salvage_frees_the_unique_lock),
    CONTRACT_TEST(salvage_beside_a_give_back_takes_no_other_task),
    CONTRACT_TEST(one_batch_mixes_salvage_with_all_kinds),
};
CONTRACT_MAIN(tests)
