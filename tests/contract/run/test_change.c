/* SPDX-License-Identifier: MIT */
/* test_change.c - checkpoints: what a run changes in its task when it ends, together with its
 * outcome. */
#include "lib_contract.h"

#include <string.h>

static struct qn_task_change payload_of(const char *text)
{
    return (struct qn_task_change){
        .payload = text, .payload_size = strlen(text), .has_payload = true};
}

/* Ends the run so, due in a minute, and frees it. */
static enum qn_applied end_with(struct contract *c, struct qn_leased *run,
                                enum qn_outcome_kind kind, const struct qn_task_change *change)
{
    const struct qn_outcome outcome = {.run = run,
                                       .kind = kind,
                                       .started = true,
                                       .cause = QUERN_CAUSE_GIVEN_BACK,
                                       .delay_ms = 60000,
                                       .error = kind == QN_RETRY ? "broken" : NULL,
                                       .change = change};
    enum qn_applied applied = contract_end(c, &outcome);
    qn_leased_free(run);
    return applied;
}

/* The run of "a", which fails. */
static enum qn_applied fail_with(struct contract *c, const struct qn_task_change *change)
{
    return end_with(c, contract_take_id(c, "default", "a"), QN_RETRY, change);
}

/* The next run of the task after that minute. */
static struct qn_leased *take_later(struct contract *c, const char *queue, const char *id)
{
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, queue, NULL), 1);
    return contract_take_id(c, queue, id);
}

static void assert_payload(const struct qn_leased *run, const char *text)
{
    assert_int_equal(run->task.payload_size, strlen(text));
    assert_memory_equal(run->task.payload, text, strlen(text));
}

static void assert_nothing_left(struct contract *c, const char *queue)
{
    quern_queue_info info = contract_queue(c, queue);
    assert_int_equal(info.size, 0);
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        assert_int_equal(info.counts[state], 0);
    }
}

static void next_run_has_the_payload_that_a_retry_left(struct contract *c)
{
    const struct qn_task_change change = payload_of("row 500");
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .id = "a",
                                      .payload = "row 0",
                                      .payload_size = 5,
                                      .timeout_ms = 1500,
                                      .headers = &(quern_header){"k", "v"},
                                      .header_count = 1});
    assert_int_equal(fail_with(c, &change), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 60000);
    assert_string_equal(view.error, "broken");
    contract_assert_counted(c, "default", 1, 1);
    struct qn_leased *run = take_later(c, "default", "a");
    assert_payload(run, "row 500");
    assert_int_equal(run->retry_count, 1);
    assert_int_equal(run->task.retry_max, 25);
    assert_int_equal(run->task.timeout_ms, 1500);
    assert_string_equal(run->task.type, "t");
    assert_int_equal(run->task.header_count, 1);
    assert_string_equal(run->task.headers[0].value, "v");
    contract_finish(c, run, QN_DONE);
}

static void snooze_leaves_a_payload_and_counts_nothing(struct contract *c)
{
    const struct qn_task_change longer = payload_of("a payload that is longer than the first one");
    const struct qn_task_change empty = payload_of("");
    assert_int_equal(end_with(c, contract_start(c, "a"), QN_SNOOZE, &longer), QN_APPLIED);
    contract_assert_counted(c, "default", 0, 0);
    struct qn_leased *run = take_later(c, "default", "a");
    assert_payload(run, "a payload that is longer than the first one");
    assert_int_equal(run->retry_count, 0);
    assert_int_equal(end_with(c, run, QN_SNOOZE, &empty), QN_APPLIED);
    run = take_later(c, "default", "a");
    assert_int_equal(run->task.payload_size, 0);
    contract_finish(c, run, QN_DONE);
}

static void given_back_task_has_its_checkpoint_at_its_old_place(struct contract *c)
{
    const struct qn_task_change change = payload_of("half");
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    assert_int_equal(end_with(c, contract_take_id(c, "default", "a"), QN_GIVE_BACK, &change),
                     QN_APPLIED);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_payload(run, "half");
    assert_int_equal(run->cause, QUERN_CAUSE_GIVEN_BACK);
    contract_finish(c, run, QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "b"), QN_DONE);
}

/* What it leaves may be meant for that queue alone. */
static void given_back_task_is_due_at_once_in_the_queue_of_its_checkpoint(struct contract *c)
{
    struct qn_task_change change = payload_of("for the other");
    change.queue = "other";
    change.has_retry_max = true;
    change.retry_max = 7;
    quern_task task = {.type = "t", .id = "a", .unique_ms = 600000};
    contract_enqueue(c, &task);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    const struct qn_outcome outcome = {.run = run,
                                       .kind = QN_GIVE_BACK,
                                       .started = true,
                                       .cause = QUERN_CAUSE_GIVEN_BACK,
                                       .change = &change};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    assert_int_equal(contract_end(c, &(struct qn_outcome){.run = run, .kind = QN_DONE}), QN_STALE);
    qn_leased_free(run);
    assert_nothing_left(c, "default");
    contract_assert_counted(c, "default", 0, 0);
    struct contract_view view = contract_inspect(c, "other", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    run = contract_take_id(c, "other", "a");
    assert_payload(run, "for the other");
    assert_int_equal(run->retry_count, 0);
    assert_int_equal(run->task.retry_max, 7);
    assert_int_equal(run->cause, QUERN_CAUSE_GIVEN_BACK);
    task.queue = "other";
    task.id = "b";
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    contract_finish(c, run, QN_DONE);
    assert_int_equal(contract_try(c, &task), QUERN_OK);
}

static void given_back_task_that_cannot_go_keeps_its_place(struct contract *c)
{
    struct qn_task_change change = payload_of("half");
    change.queue = "other";
    contract_put(c, "other", "a");
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    assert_int_equal(end_with(c, contract_take_id(c, "default", "a"), QN_GIVE_BACK, &change),
                     QN_UNMOVED);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_payload(run, "half");
    assert_int_equal(run->cause, QUERN_CAUSE_GIVEN_BACK);
    contract_finish(c, run, QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "b"), QN_DONE);
    contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
}

static void retries_left_are_those_of_the_change(struct contract *c)
{
    const struct qn_task_change more = {.has_retry_max = true, .retry_max = 2};
    const struct qn_task_change none = {.has_retry_max = true, .retry_max = 0};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retry_max = QUERN_RETRY_NEVER});
    assert_int_equal(end_with(c, contract_take_id(c, "default", "a"), QN_RETRY, &more), QN_APPLIED);
    struct qn_leased *run = take_later(c, "default", "a");
    assert_int_equal(run->task.retry_max, 2);
    assert_int_equal(run->retry_count, 1);
    assert_int_equal(end_with(c, run, QN_SNOOZE, &none), QN_APPLIED);
    run = take_later(c, "default", "a");
    assert_int_equal(run->task.retry_max, 1); /* as many as it has had */
    assert_int_equal(contract_finish(c, run, QN_RETRY), QN_ARCHIVED);
}

static void spent_task_is_archived_with_its_checkpoint(struct contract *c)
{
    struct qn_task_change change = payload_of("row 9");
    change.queue = "other";
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retry_max = QUERN_RETRY_NEVER});
    assert_int_equal(fail_with(c, &change), QN_ARCHIVED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_int_equal(view.payload_size, 5);
    assert_int_equal(contract_state(c, "other", "a"), 0);
}

static void other_outcomes_change_nothing(struct contract *c)
{
    struct qn_task_change change = payload_of("changed");
    change.queue = "other";
    assert_int_equal(end_with(c, contract_start(c, "a"), QN_ARCHIVE, &change), QN_APPLIED);
    assert_int_equal(contract_inspect(c, "default", "a").payload_size, 0);
    assert_int_equal(end_with(c, contract_start(c, "b"), QN_ASIDE, &change), QN_APPLIED);
    assert_int_equal(contract_inspect(c, "default", "b").payload_size, 0);
    assert_nothing_left(c, "other");
}

static void stale_run_changes_nothing(struct contract *c)
{
    const struct qn_task_change change = payload_of("changed");
    struct qn_leased *run = contract_start(c, "a");
    contract_expire(c, "default");
    assert_int_equal(end_with(c, run, QN_RETRY, &change), QN_STALE);
    run = contract_take_id(c, "default", "a");
    assert_int_equal(run->task.payload_size, 0);
    contract_finish(c, run, QN_DONE);
}

static void repeated_checkpoint_takes_effect_once(struct contract *c)
{
    struct qn_task_change change = payload_of("next");
    change.queue = "other";
    struct qn_leased *run = contract_start(c, "a");
    const struct qn_outcome outcome = {
        .run = run, .kind = QN_RETRY, .started = true, .delay_ms = 60000, .change = &change};
    struct qn_exchange exchange = {.outcomes = &outcome, .outcome_count = 1};
    enum qn_applied applied = QN_STALE;
    assert_int_equal(contract_exchange(c, &exchange, &applied, NULL), 0);
    assert_int_equal(applied, QN_APPLIED);
    applied = QN_STALE;
    assert_int_equal(contract_exchange(c, &exchange, &applied, NULL), 0); /* with its stamp */
    assert_int_equal(applied, QN_APPLIED);
    qn_leased_free(run);
    contract_assert_counted(c, "default", 1, 1);
    run = take_later(c, "other", "a");
    assert_payload(run, "next");
    assert_int_equal(run->retry_count, 1);
    contract_finish(c, run, QN_DONE);
}

/* --- Another queue ------------------------------------------------------------------- */

static void task_goes_to_another_queue_whole(struct contract *c)
{
    const struct qn_task_change change = {.queue = "other"};
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .id = "a",
                                      .payload = "data",
                                      .payload_size = 4,
                                      .retry = QUERN_BACKOFF_FIXED(7500),
                                      .timeout_ms = 1500,
                                      .retention_ms = 5000});
    contract_advance(c, 123);
    assert_int_equal(fail_with(c, &change), QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    assert_nothing_left(c, "default");
    contract_assert_counted(c, "default", 1, 1);
    contract_assert_counted(c, "other", 0, 0);
    struct contract_view view = contract_inspect(c, "other", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 123 + 60000);
    assert_string_equal(view.error, "broken");
    assert_string_equal(view.queue, "other");
    struct qn_leased *run = take_later(c, "other", "a");
    assert_string_equal(run->task.queue, "other");
    assert_payload(run, "data");
    assert_int_equal(run->retry_count, 1);
    assert_int_equal(run->cause, QUERN_CAUSE_RETRY);
    assert_int_equal(run->task.timeout_ms, 1500);
    assert_int_equal(run->task.retry.base_ms, 7500);
    assert_int_equal(run->task.retention_ms, 5000);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_COMPLETED);
    contract_advance(c, 3600000);
    assert_int_equal(contract_forward(c, "default", NULL), 0);
}

static void id_in_the_other_queue_keeps_the_task_in_its_own(struct contract *c)
{
    struct qn_task_change change = payload_of("mine");
    change.queue = "other";
    contract_put(c, "other", "a");
    assert_int_equal(end_with(c, contract_start(c, "a"), QN_RETRY, &change), QN_UNMOVED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.retry_count, 1);
    assert_string_equal(view.error, "broken");
    assert_int_equal(contract_inspect(c, "other", "a").payload_size, 0);
    assert_int_equal(contract_inspect(c, "other", "a").state, QUERN_TASK_PENDING);
    struct qn_leased *run = take_later(c, "default", "a");
    assert_payload(run, "mine"); /* work that was done is not lost */
    contract_finish(c, run, QN_DONE);
}

static void tasks_that_want_to_the_same_place_get_there_one_by_one(struct contract *c)
{
    const struct qn_task_change change = {.queue = "target"};
    contract_put(c, "default", "a");
    contract_put(c, "other", "a");
    struct qn_leased *runs[2] = {contract_take_id(c, "default", "a"),
                                 contract_take_id(c, "other", "a")};
    struct qn_outcome outcomes[2];
    enum qn_applied applied[2];
    for (size_t i = 0; i < 2; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i],
                                          .kind = QN_SNOOZE,
                                          .started = true,
                                          .delay_ms = 60000,
                                          .change = &change};
    }
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = 2};
    assert_int_equal(contract_exchange(c, &exchange, applied, NULL), 0);
    assert_int_equal(applied[0], QN_APPLIED);
    assert_int_equal(applied[1], QN_UNMOVED);
    assert_int_equal(contract_state(c, "target", "a"), QUERN_TASK_RETRY);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_RETRY);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
}

static void many_outcomes_of_one_exchange_go_their_ways(struct contract *c)
{
    const struct qn_task_change change = {.queue = "other"};
    struct qn_leased *runs[100];
    struct qn_outcome outcomes[100];
    enum qn_applied applied[100];
    contract_put_many(c, "default", "a", 100);
    assert_int_equal(contract_lease(c, "default", 100, runs), 100);
    for (size_t i = 0; i < 100; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i],
                                          .kind = i % 3 == 0 ? QN_DONE : QN_SNOOZE,
                                          .started = true,
                                          .delay_ms = 1000 + (int64_t)i,
                                          .change = i % 3 == 1 ? &change : NULL};
    }
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = 100};
    assert_int_equal(contract_exchange(c, &exchange, applied, NULL), 0);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        qn_leased_free(runs[i]);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_RETRY), 33);
    assert_int_equal(contract_count(c, "other", QUERN_TASK_RETRY), 33);
    contract_advance(c, 2000);
    assert_int_equal(contract_forward(c, "other", NULL), 33);
    assert_int_equal(contract_forward(c, "default", NULL), 33);
}

static void key_of_a_task_counts_in_the_other_queue(struct contract *c)
{
    const struct qn_task_change change = {.queue = "other"};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .limit_key = "acme"});
    assert_int_equal(end_with(c, contract_take_id(c, "default", "a"), QN_SNOOZE, &change),
                     QN_APPLIED);
    struct qn_leased *run = take_later(c, "other", "a");
    assert_string_equal(run->task.limit_key, "acme");
    contract_finish(c, run, QN_DONE);
    assert_nothing_left(c, "other");
}

/* --- Locks --------------------------------------------------------------------------- */

static quern_task unique_task(const char *queue, const char *id)
{
    return (quern_task){.type = "t",
                        .queue = queue,
                        .id = id,
                        .payload = "p",
                        .payload_size = 1,
                        .unique_ms = 600000};
}

static quern_status try_unique(struct contract *c, const char *queue, const char *id)
{
    quern_task task = unique_task(queue, id);
    return contract_try(c, &task);
}

static void changed_payload_keeps_the_lock(struct contract *c)
{
    const struct qn_task_change change = payload_of("q");
    assert_int_equal(try_unique(c, "default", "a"), QUERN_OK);
    assert_int_equal(fail_with(c, &change), QN_APPLIED);
    assert_int_equal(try_unique(c, "default", "b"), QUERN_E_DUPLICATE);
    contract_finish(c, take_later(c, "default", "a"), QN_DONE);
    assert_int_equal(try_unique(c, "default", "b"), QUERN_OK);
}

static void lock_goes_with_its_task(struct contract *c)
{
    const struct qn_task_change change = {.queue = "other"};
    assert_int_equal(try_unique(c, "default", "a"), QUERN_OK);
    assert_int_equal(fail_with(c, &change), QN_APPLIED);
    assert_int_equal(try_unique(c, "other", "b"), QUERN_E_DUPLICATE);
    assert_int_equal(try_unique(c, "default", "b"), QUERN_OK);
    contract_finish(c, take_later(c, "other", "a"), QN_DONE);
    assert_int_equal(try_unique(c, "other", "c"), QUERN_OK);
}

static void lock_of_another_task_keeps_it_in_its_queue(struct contract *c)
{
    const struct qn_task_change change = {.queue = "other"};
    assert_int_equal(try_unique(c, "default", "a"), QUERN_OK);
    assert_int_equal(try_unique(c, "other", "b"), QUERN_OK);
    assert_int_equal(fail_with(c, &change), QN_UNMOVED);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
    assert_int_equal(try_unique(c, "default", "c"), QUERN_E_DUPLICATE);
    contract_finish(c, contract_take_id(c, "other", "b"), QN_DONE);
    assert_int_equal(try_unique(c, "other", "d"), QUERN_OK);
}

static void lock_that_ended_at_the_start_is_not_taken_along(struct contract *c)
{
    const struct qn_task_change change = {.queue = "other"};
    quern_task first = unique_task("default", "a");
    quern_task second = unique_task("other", "b");
    first.unique_until = QUERN_UNIQUE_UNTIL_STARTED;
    second.unique_until = QUERN_UNIQUE_UNTIL_STARTED;
    contract_enqueue(c, &first);
    contract_enqueue(c, &second);
    assert_int_equal(fail_with(c, &change), QN_APPLIED);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_RETRY);
    second.id = "c";
    assert_int_equal(contract_try(c, &second), QUERN_E_DUPLICATE); /* of b */
}

static void lock_for_a_time_stays_in_its_queue(struct contract *c)
{
    const struct qn_task_change change = {.queue = "other"};
    quern_task task = unique_task("default", "a");
    task.unique_until = QUERN_UNIQUE_UNTIL_EXPIRED;
    contract_enqueue(c, &task);
    assert_int_equal(fail_with(c, &change), QN_APPLIED);
    task.id = "b";
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    contract_finish(c, take_later(c, "other", "a"), QN_DONE);
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
}

/* --- A reason without a failure ------------------------------------------------------ */

static void reason_of_a_snooze_is_kept_and_counts_nothing(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    const struct qn_outcome outcome = {.run = run,
                                       .kind = QN_SNOOZE,
                                       .started = true,
                                       .delay_ms = 60000,
                                       .error = "the other side is busy"};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    qn_leased_free(run);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_string_equal(view.error, "the other side is busy");
    assert_int_equal(view.retry_count, 0);
    assert_int_equal(view.failed_at_ms, 0);
    contract_assert_counted(c, "default", 0, 0);
    run = take_later(c, "default", "a");
    contract_finish(c, run, QN_SNOOZE); /* without one */
    assert_string_equal(contract_inspect(c, "default", "a").error, "the other side is busy");
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(next_run_has_the_payload_that_a_retry_left),
    CONTRACT_TEST(snooze_leaves_a_payload_and_counts_nothing),
    CONTRACT_TEST(given_back_task_has_its_checkpoint_at_its_old_place),
    CONTRACT_TEST(given_back_task_is_due_at_once_in_the_queue_of_its_checkpoint),
    CONTRACT_TEST(given_back_task_that_cannot_go_keeps_its_place),
    CONTRACT_TEST(retries_left_are_those_of_the_change),
    CONTRACT_TEST(spent_task_is_archived_with_its_checkpoint),
    CONTRACT_TEST(other_outcomes_change_nothing),
    CONTRACT_TEST(stale_run_changes_nothing),
    CONTRACT_TEST(repeated_checkpoint_takes_effect_once),
    CONTRACT_TEST(task_goes_to_another_queue_whole),
    CONTRACT_TEST(id_in_the_other_queue_keeps_the_task_in_its_own),
    CONTRACT_TEST(tasks_that_want_to_the_same_place_get_there_one_by_one),
    CONTRACT_TEST(many_outcomes_of_one_exchange_go_their_ways),
    CONTRACT_TEST(key_of_a_task_counts_in_the_other_queue),
    CONTRACT_TEST(changed_payload_keeps_the_lock),
    CONTRACT_TEST(lock_goes_with_its_task),
    CONTRACT_TEST(lock_of_another_task_keeps_it_in_its_queue),
    CONTRACT_TEST(lock_that_ended_at_the_start_is_not_taken_along),
    CONTRACT_TEST(lock_for_a_time_stays_in_its_queue),
    CONTRACT_TEST(reason_of_a_snooze_is_kept_and_counts_nothing),
};
CONTRACT_MAIN(tests)
