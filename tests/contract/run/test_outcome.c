/* SPDX-License-Identifier: MIT */
/* test_outcome.c - the table of outcomes (broker.h, enum qn_outcome_kind): the next state of the
 * task, the counters, and that only the holder of a valid token may report one. Crashes and salvage
 * have files of their own; locks are in test_unique.c. */
#include "lib_contract.h"

#include <string.h>

static void done_deletes_the_task(struct contract *c)
{
    assert_int_equal(contract_finish(c, contract_start(c, "a"), QN_DONE), QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    assert_int_equal(contract_queue(c, "default").size, 0);
    contract_assert_counted(c, "default", 1, 0);
}

static void done_with_retention_completes_the_task(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 5000});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_advance(c, 40);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_COMPLETED);
    assert_int_equal(view.completed_at_ms, CONTRACT_NOW_MS + 40);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 5040);
    assert_string_equal(view.worker, "");
    assert_int_equal(view.started_at_ms, 0);
    contract_assert_counted(c, "default", 1, 0);
}

static void drop_deletes_the_task_in_spite_of_retention(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 5000});
    assert_int_equal(contract_finish(c, contract_take_id(c, "default", "a"), QN_DROP), QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    contract_assert_counted(c, "default", 1, 0);
}

static void retry_waits_for_its_delay_and_counts_one(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    contract_advance(c, 70);
    assert_int_equal(contract_finish(c, run, QN_RETRY), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 70 + 60000);
    assert_int_equal(view.retry_count, 1);
    assert_int_equal(view.crash_count, 0);
    assert_string_equal(view.error, "broken");
    assert_int_equal(view.failed_at_ms, CONTRACT_NOW_MS + 70);
    assert_int_equal(view.cause, QUERN_CAUSE_RETRY);
    assert_string_equal(view.worker, "");
    contract_assert_counted(c, "default", 1, 1);
    assert_null(contract_take(c, "default"));
}

static void next_run_of_a_retried_task_knows_why(struct contract *c)
{
    contract_finish(c, contract_start(c, "a"), QN_RETRY);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->cause, QUERN_CAUSE_RETRY);
    assert_int_equal(run->retry_count, 1);
    assert_int_equal(run->crash_count, 0);
    contract_finish(c, run, QN_RETRY);
    assert_int_equal(contract_inspect(c, "default", "a").retry_count, 2);
    contract_assert_counted(c, "default", 2, 2);
}

static void retry_archives_when_attempts_are_used_up(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retry_max = 1});
    assert_int_equal(contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY), QN_APPLIED);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_int_equal(contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY),
                     QN_ARCHIVED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_true(view.retry_count <= 1);
    assert_string_equal(view.error, "broken");
    contract_assert_counted(c, "default", 2, 2);
}

static void task_without_retries_is_archived_at_its_first_failure(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retry_max = QUERN_RETRY_NEVER});
    assert_int_equal(contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY),
                     QN_ARCHIVED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS);
    contract_assert_counted(c, "default", 1, 1);
}

static void snooze_waits_and_counts_nothing(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retry_max = QUERN_RETRY_NEVER});
    assert_int_equal(contract_finish(c, contract_take_id(c, "default", "a"), QN_SNOOZE),
                     QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 60000);
    assert_int_equal(view.retry_count, 0);
    assert_int_equal(view.failed_at_ms, 0);
    assert_string_equal(view.error, "");
    contract_assert_counted(c, "default", 0, 0);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->cause, QUERN_CAUSE_SNOOZE);
    assert_int_equal(run->retry_count, 0);
    contract_finish(c, run, QN_DONE);
}

static void what_is_put_aside_stays_as_it_was(struct contract *c)
{
    contract_finish(c, contract_start(c, "a"), QN_RETRY);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_advance(c, 10);
    assert_int_equal(contract_finish(c, run, QN_ASIDE), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 60010 + 60000);
    assert_int_equal(view.retry_count, 1);
    assert_int_equal(view.failed_at_ms, CONTRACT_NOW_MS);
    assert_string_equal(view.error, "broken");
    contract_assert_counted(c, "default", 1, 1);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    run = contract_take_id(c, "default", "a");
    assert_int_equal(run->cause, QUERN_CAUSE_RETRY);
    assert_int_equal(run->retry_count, 1);
    contract_finish(c, run, QN_DONE);
}

static void what_never_ran_has_no_cause_after_it_was_put_aside(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retry_max = QUERN_RETRY_NEVER});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    const struct qn_outcome outcome = {
        .run = run, .kind = QN_ASIDE, .delay_ms = 1000, .error = "no handler"};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    qn_leased_free(run);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_string_equal(view.error, "no handler");
    assert_int_equal(view.failed_at_ms, 0);
    contract_advance(c, 1000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    run = contract_take_id(c, "default", "a");
    assert_int_equal(run->cause, QUERN_CAUSE_NONE);
    assert_int_equal(run->retry_count, 0);
    contract_finish(c, run, QN_DONE);
}

static void archive_keeps_the_task_and_its_error(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    contract_advance(c, 30);
    assert_int_equal(contract_finish(c, run, QN_ARCHIVE), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 30);
    assert_int_equal(view.failed_at_ms, CONTRACT_NOW_MS + 30);
    assert_string_equal(view.error, "broken");
    assert_int_equal(view.retry_count, 0);
    contract_assert_counted(c, "default", 1, 1);
}

static void cancelled_task_is_archived(struct contract *c)
{
    assert_int_equal(contract_finish(c, contract_start(c, "a"), QN_CANCEL), QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    contract_assert_counted(c, "default", 1, 1);
}

static void give_back_counts_nothing_and_is_reported(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    assert_int_equal(contract_finish(c, run, QN_GIVE_BACK), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.retry_count, 0);
    assert_int_equal(view.crash_count, 0);
    assert_string_equal(view.worker, "");
    contract_assert_counted(c, "default", 0, 0);
    run = contract_take_id(c, "default", "a");
    assert_int_equal(run->cause, QUERN_CAUSE_GIVEN_BACK);
    contract_finish(c, run, QN_DONE);
}

static void given_back_task_returns_to_the_head_of_its_queue(struct contract *c)
{
    struct qn_leased *runs[3];
    contract_put_many(c, "default", "a", 5);
    assert_int_equal(contract_lease(c, "default", 3, runs), 3);
    contract_put(c, "default", "late");
    /* In the wrong order on purpose: the old places decide. */
    contract_finish(c, runs[1], QN_GIVE_BACK);
    contract_finish(c, runs[2], QN_GIVE_BACK);
    contract_finish(c, runs[0], QN_GIVE_BACK);
    const char *expected[] = {"a0000", "a0001", "a0002", "a0003", "a0004", "late"};
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        contract_finish(c, contract_take_id(c, "default", expected[i]), QN_DONE);
    }
}

static void given_back_batch_keeps_its_order(struct contract *c)
{
    struct qn_leased *runs[4];
    struct qn_outcome outcomes[4];
    enum qn_applied applied[4];
    contract_put_many(c, "default", "a", 6);
    assert_int_equal(contract_lease(c, "default", 4, runs), 4);
    for (size_t i = 0; i < 4; i++) {
        outcomes[i] = (struct qn_outcome){
            .run = runs[i], .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK};
    }
    struct qn_queue_share share = {.name = "default", .weight = 1};
    struct qn_exchange exchange = {
        .outcomes = outcomes, .outcome_count = 4, .queues = &share, .queue_count = 1};
    assert_int_equal(contract_exchange(c, &exchange, applied, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        qn_leased_free(runs[i]);
    }
    const char *expected[] = {"a0000", "a0001", "a0002", "a0003", "a0004", "a0005"};
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        contract_finish(c, contract_take_id(c, "default", expected[i]), QN_DONE);
    }
}

/* --- Tokens ------------------------------------------------------------------------- */

static const enum qn_outcome_kind all_kinds[] = {
    QN_DONE, QN_DROP, QN_RETRY, QN_SNOOZE, QN_ARCHIVE, QN_GIVE_BACK, QN_CRASH, QN_CANCEL, QN_ASIDE};

static void stale_token_changes_nothing(struct contract *c)
{
    struct qn_leased *zombie = contract_start(c, "a");
    contract_expire(c, "default");
    struct qn_leased *owner = contract_take_id(c, "default", "a");
    assert_true(owner->token != zombie->token);
    struct contract_view before = contract_inspect(c, "default", "a");
    for (size_t i = 0; i < TEST_COUNT(all_kinds); i++) {
        assert_int_equal(contract_report(c, zombie, all_kinds[i]), QN_STALE);
        struct contract_view after = contract_inspect(c, "default", "a");
        assert_int_equal(after.state, QUERN_TASK_ACTIVE);
        assert_int_equal(after.retry_count, 0);
        assert_int_equal(after.crash_count, before.crash_count);
        assert_string_equal(after.error, before.error);
        assert_int_equal(after.fence, owner->fence);
        contract_assert_counted(c, "default", 0, 0);
    }
    assert_int_equal(contract_finish(c, owner, QN_DONE), QN_APPLIED);
    assert_int_equal(contract_report(c, zombie, QN_DONE), QN_STALE);
    contract_assert_counted(c, "default", 1, 0);
    qn_leased_free(zombie);
}

static void outcome_reported_twice_counts_once(struct contract *c)
{
    for (size_t i = 0; i < TEST_COUNT(all_kinds); i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "t%zu", i);
        contract_enqueue(c, &(quern_task){.type = "t", .id = id, .queue = id});
        struct qn_leased *run = contract_take_id(c, id, id);
        assert_int_equal(contract_report(c, run, all_kinds[i]), QN_APPLIED);
        quern_queue_info before = contract_queue(c, id);
        assert_int_equal(contract_report(c, run, QN_RETRY), QN_STALE);
        quern_queue_info after = contract_queue(c, id);
        assert_memory_equal(before.counts, after.counts, sizeof before.counts);
        assert_int_equal(before.processed_total, after.processed_total);
        qn_leased_free(run);
    }
}

static void token_of_a_former_task_with_the_same_id_is_stale(struct contract *c)
{
    struct qn_leased *old = contract_start(c, "a");
    assert_int_equal(contract_report(c, old, QN_DONE), QN_APPLIED);
    struct qn_leased *new = contract_start(c, "a");
    assert_true(new->fence > old->fence);
    assert_int_equal(contract_report(c, old, QN_RETRY), QN_STALE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ACTIVE);
    assert_int_equal(contract_finish(c, new, QN_DONE), QN_APPLIED);
    qn_leased_free(old);
}

static void one_batch_mixes_valid_and_stale_outcomes(struct contract *c)
{
    struct qn_leased *runs[4];
    struct qn_outcome outcomes[4];
    enum qn_applied applied[4];
    contract_put_many(c, "default", "a", 4);
    assert_int_equal(contract_lease(c, "default", 4, runs), 4);
    assert_int_equal(contract_report(c, runs[1], QN_DONE), QN_APPLIED);
    assert_int_equal(contract_report(c, runs[3], QN_ARCHIVE), QN_APPLIED);
    for (size_t i = 0; i < 4; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = QN_DONE};
    }
    struct qn_queue_share share = {.name = "default", .weight = 1};
    struct qn_exchange exchange = {
        .outcomes = outcomes, .outcome_count = 4, .queues = &share, .queue_count = 1};
    assert_int_equal(contract_exchange(c, &exchange, applied, NULL), 0);
    assert_int_equal(applied[0], QN_APPLIED);
    assert_int_equal(applied[1], QN_STALE);
    assert_int_equal(applied[2], QN_APPLIED);
    assert_int_equal(applied[3], QN_STALE);
    contract_assert_counted(c, "default", 4, 1);
    for (size_t i = 0; i < 4; i++) {
        qn_leased_free(runs[i]);
    }
}

static void counters_of_a_day_start_anew_at_midnight(struct contract *c)
{
    const int64_t day_ms = 24 * 3600 * INT64_C(1000);
    contract_finish(c, contract_start(c, "a"), QN_ARCHIVE);
    contract_advance(c, day_ms);
    contract_finish(c, contract_start(c, "b"), QN_DONE);
    quern_queue_info info = contract_queue(c, "default");
    assert_int_equal(info.processed_today, 1);
    assert_int_equal(info.failed_today, 0);
    assert_int_equal(info.processed_total, 2);
    assert_int_equal(info.failed_total, 1);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(done_deletes_the_task),
    CONTRACT_TEST(done_with_retention_completes_the_task),
    CONTRACT_TEST(drop_deletes_the_task_in_spite_of_retention),
    CONTRACT_TEST(retry_waits_for_its_delay_and_counts_one),
    CONTRACT_TEST(next_run_of_a_retried_task_knows_why),
    CONTRACT_TEST(retry_archives_when_attempts_are_used_up),
    CONTRACT_TEST(task_without_retries_is_archived_at_its_first_failure),
    CONTRACT_TEST(snooze_waits_and_counts_nothing),
    CONTRACT_TEST(what_is_put_aside_stays_as_it_was),
    CONTRACT_TEST(what_never_ran_has_no_cause_after_it_was_put_aside),
    CONTRACT_TEST(archive_keeps_the_task_and_its_error),
    CONTRACT_TEST(cancelled_task_is_archived),
    CONTRACT_TEST(give_back_counts_nothing_and_is_reported),
    CONTRACT_TEST(given_back_task_returns_to_the_head_of_its_queue),
    CONTRACT_TEST(given_back_batch_keeps_its_order),
    CONTRACT_TEST(stale_token_changes_nothing),
    CONTRACT_TEST(outcome_reported_twice_counts_once),
    CONTRACT_TEST(token_of_a_former_task_with_the_same_id_is_stale),
    CONTRACT_TEST(one_batch_mixes_valid_and_stale_outcomes),
    CONTRACT_TEST(counters_of_a_day_start_anew_at_midnight),
};
CONTRACT_MAIN(tests)
