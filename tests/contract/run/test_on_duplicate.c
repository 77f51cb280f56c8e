/* SPDX-License-Identifier: MIT */
/* test_on_duplicate.c - what becomes of a unique task when an equal one is there: each policy in
 * each state of the holder, in batches and when the request comes again. */
#include "lib_unique.h"

#include <stdio.h>
#include <string.h>

/* --- Each policy in each state of the holder ------------------------------------------------ */

enum place { PENDING, SCHEDULED, RETRY, AGGREGATING, ACTIVE, ARCHIVED, PLACES };

static void bring(struct contract *c, enum place place)
{
    quern_task task = unique_keyed;
    task.id = "holder";
    task.delay_ms = place == SCHEDULED ? 60000 : 0;
    task.group = place == AGGREGATING ? "g" : NULL;
    unique_assert(unique_try(c, &task), QUERN_OK, "");
    if (place == RETRY) {
        contract_finish(c, contract_take_id(c, "default", "holder"), QN_RETRY);
    } else if (place == ARCHIVED) {
        contract_finish(c, contract_take_id(c, "default", "holder"), QN_ARCHIVE);
    } else if (place == ACTIVE) {
        qn_leased_free(contract_take_id(c, "default", "holder"));
    }
}

static void fail_and_ignore(struct contract *c, enum place place)
{
    bring(c, place);
    int state = contract_state(c, "default", "holder");
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_FAIL), QUERN_E_DUPLICATE, "holder");
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_IGNORE), QUERN_OK, "holder");
    assert_int_equal(contract_state(c, "default", "holder"), state);
    assert_int_equal(contract_state(c, "default", "b"), 0);
}

static void pending_holder_is_kept_by_fail_and_ignore(struct contract *c)
{
    fail_and_ignore(c, PENDING);
    unique_assert_payload(c, "holder", "old");
}

static void active_holder_is_kept_by_fail_and_ignore(struct contract *c)
{
    fail_and_ignore(c, ACTIVE);
}

static void delayed_holder_is_kept_by_fail_and_ignore(struct contract *c)
{
    fail_and_ignore(c, SCHEDULED);
}

static void archived_holder_is_kept_by_fail_and_ignore(struct contract *c)
{
    fail_and_ignore(c, ARCHIVED);
}

static void replace_gives_a_pending_task_the_new_data(struct contract *c)
{
    const quern_header headers[] = {{"a", "1"}, {"b", "2"}};
    bring(c, PENDING);
    quern_task task = unique_keyed;
    task.id = "b";
    task.type = "v";
    task.payload = "new";
    task.headers = headers;
    task.header_count = 2;
    task.retry_max = 3;
    task.on_duplicate = QUERN_ON_DUPLICATE_REPLACE;
    unique_assert(unique_try(c, &task), QUERN_OK, "holder");
    assert_int_equal(contract_state(c, "default", "b"), 0);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    assert_string_equal(run->task.type, "v");
    assert_memory_equal(run->task.payload, "new", 3);
    assert_int_equal(run->task.header_count, 2);
    assert_string_equal(run->task.headers[1].name, "b");
    assert_string_equal(run->task.headers[1].value, "2");
    assert_int_equal(run->task.retry_max, 25); /* of the task that was there */
    contract_finish(c, run, QN_DONE);
    assert_int_equal(unique_again(c), QUERN_OK);
}

static void replace_keeps_the_moment_and_debounce_moves_it(struct contract *c)
{
    bring(c, SCHEDULED);
    int64_t at_ms = contract_inspect(c, "default", "holder").at_ms;
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_REPLACE), QUERN_OK, "holder");
    assert_int_equal(contract_inspect(c, "default", "holder").at_ms, at_ms);
    quern_task task = unique_keyed;
    task.payload = "nxt";
    task.on_duplicate = QUERN_ON_DUPLICATE_DEBOUNCE;
    task.process_at_ms = at_ms + 90001;
    unique_assert(unique_try(c, &task), QUERN_OK, "holder");
    assert_int_equal(contract_inspect(c, "default", "holder").at_ms, at_ms + 90001);
    contract_advance(c, 60000 + 90000);
    (void)contract_forward(c, "default", NULL);
    assert_null(contract_take(c, "default"));
    contract_advance(c, 1000);
    (void)contract_forward(c, "default", NULL);
    unique_assert_payload(c, "holder", "nxt");
}

static void debounce_to_now_makes_a_delayed_task_due(struct contract *c)
{
    bring(c, SCHEDULED);
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_DEBOUNCE), QUERN_OK, "holder");
    contract_advance(c, 2);
    (void)contract_forward(c, "default", NULL);
    unique_assert_payload(c, "holder", "new");
}

static void debounce_moves_a_retry_and_keeps_its_count(struct contract *c)
{
    bring(c, RETRY);
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_DEBOUNCE), QUERN_OK, "holder");
    assert_int_equal(contract_state(c, "default", "holder"), QUERN_TASK_RETRY);
    contract_advance(c, 2);
    (void)contract_forward(c, "default", NULL);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    assert_int_equal(run->retry_count, 1);
    assert_memory_equal(run->task.payload, "new", 3);
    contract_finish(c, run, QN_DONE);
}

static void debounce_leaves_a_pending_task_where_it_is(struct contract *c)
{
    bring(c, PENDING);
    quern_task task = unique_keyed;
    task.payload = "new";
    task.delay_ms = 60000;
    task.on_duplicate = QUERN_ON_DUPLICATE_DEBOUNCE;
    unique_assert(unique_try(c, &task), QUERN_OK, "holder");
    unique_assert_payload(c, "holder", "new");
}

static void replace_gives_a_grouped_task_the_new_data(struct contract *c)
{
    bring(c, AGGREGATING);
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_DEBOUNCE), QUERN_OK, "holder");
    assert_int_equal(contract_state(c, "default", "holder"), QUERN_TASK_AGGREGATING);
    assert_int_equal(contract_state(c, "default", "b"), 0);
}

static void replace_does_not_touch_a_run_and_loses_no_data(struct contract *c)
{
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_DONE);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_REPLACE), QUERN_OK, "");
    /* The new one has the lock: the next goes into it. */
    unique_assert(unique_try_policy(c, "d", QUERN_ON_DUPLICATE_DEBOUNCE), QUERN_OK, "b");
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
    unique_assert(unique_try_policy(c, NULL, QUERN_ON_DUPLICATE_FAIL), QUERN_E_DUPLICATE, "b");
    unique_assert_payload(c, "b", "new");
    assert_int_equal(unique_again(c), QUERN_OK);
}

static void run_that_failed_after_a_replace_keeps_its_own_data(struct contract *c)
{
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_DONE);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_REPLACE), QUERN_OK, "");
    contract_finish(c, run, QN_RETRY);
    contract_advance(c, 60000);
    (void)contract_forward(c, "default", NULL);
    unique_assert_payload(c, "b", "new");
    unique_assert_payload(c, "holder", "old");
}

static void archived_holder_makes_room_for_new_data(struct contract *c)
{
    bring(c, ARCHIVED);
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_REPLACE), QUERN_OK, "");
    assert_int_equal(contract_state(c, "default", "holder"), QUERN_TASK_ARCHIVED);
    unique_assert_payload(c, "b", "new");
}

static void replace_renews_the_lock(struct contract *c)
{
    bring(c, PENDING);
    contract_advance(c, UNIQUE_HOUR_MS - 1000);
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_REPLACE), QUERN_OK, "holder");
    contract_advance(c, UNIQUE_HOUR_MS - 1000);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    contract_advance(c, 1001);
    assert_int_equal(unique_again(c), QUERN_OK);
}

/* The task that has the id of a lock's holder by now has never had that lock. */
static void lock_that_outlived_its_task_changes_no_other_one(struct contract *c)
{
    quern_task other = {.id = "holder", .type = "t", .payload = "own", .payload_size = 3};
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_EXPIRED);
    contract_finish(c, contract_take_id(c, "default", "holder"), QN_DONE);
    unique_assert(unique_try(c, &other), QUERN_OK, "");
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_REPLACE), QUERN_E_DUPLICATE,
                  "holder");
    unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_DEBOUNCE), QUERN_E_DUPLICATE,
                  "holder");
    unique_assert_payload(c, "holder", "own");
}

/* --- Batches and replays ------------------------------------------------------------------- */

static void duplicates_within_a_batch_follow_their_policies(struct contract *c)
{
    static const int32_t policies[] = {QUERN_ON_DUPLICATE_FAIL, QUERN_ON_DUPLICATE_IGNORE,
                                       QUERN_ON_DUPLICATE_IGNORE, QUERN_ON_DUPLICATE_FAIL,
                                       QUERN_ON_DUPLICATE_REPLACE};
    quern_task tasks[5];
    struct unique_answer answers[5];
    for (size_t i = 0; i < 5; i++) {
        tasks[i] = unique_keyed;
        tasks[i].id = (const char *const[]){"0", "1", "2", "3", "4"}[i];
        tasks[i].payload = i == 4 ? "new" : "old";
        tasks[i].on_duplicate = policies[i];
    }
    unique_store(c, (struct qn_stamp){c->session, ++c->sequence}, tasks, 5, answers);
    unique_assert(answers[0], QUERN_OK, "");
    unique_assert(answers[1], QUERN_OK, "0");
    unique_assert(answers[2], QUERN_OK, "0");
    unique_assert(answers[3], QUERN_E_DUPLICATE, "0");
    unique_assert(answers[4], QUERN_OK, "0");
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
    unique_assert_payload(c, "0", "new");
}

static void replace_within_a_batch_leaves_a_fixed_lock_its_time(struct contract *c)
{
    quern_task tasks[] = {unique_keyed, unique_keyed};
    struct unique_answer answers[2];
    tasks[0].id = "holder";
    tasks[0].unique_until = QUERN_UNIQUE_UNTIL_EXPIRED;
    tasks[1].unique_ms = 2 * UNIQUE_HOUR_MS;
    tasks[1].on_duplicate = QUERN_ON_DUPLICATE_REPLACE;
    unique_store(c, (struct qn_stamp){c->session, ++c->sequence}, tasks, 2, answers);
    unique_assert(answers[1], QUERN_OK, "holder");
    contract_advance(c, UNIQUE_HOUR_MS + 1);
    assert_int_equal(unique_again(c), QUERN_OK);
}

static void debounce_within_a_batch_is_the_same_for_a_grouped_task(struct contract *c)
{
    quern_task tasks[] = {unique_keyed, unique_keyed};
    struct unique_answer answers[2];
    tasks[0].id = "holder";
    tasks[0].delay_ms = 60000;
    tasks[1].payload = "new";
    tasks[1].group = "g";
    tasks[1].on_duplicate = QUERN_ON_DUPLICATE_DEBOUNCE;
    unique_store(c, (struct qn_stamp){c->session, ++c->sequence}, tasks, 2, answers);
    unique_assert(answers[1], QUERN_OK, "holder");
    contract_advance(c, 2);
    (void)contract_forward(c, "default", NULL);
    unique_assert_payload(c, "holder", "new");
}

static void many_duplicates_come_to_one_task(struct contract *c)
{
    static quern_task tasks[UNIQUE_BATCH];
    static struct unique_answer answers[UNIQUE_BATCH];
    for (size_t i = 0; i < UNIQUE_BATCH; i++) {
        tasks[i] = unique_keyed;
        tasks[i].delay_ms = 60000;
        tasks[i].on_duplicate =
            i % 2 == 0 ? QUERN_ON_DUPLICATE_DEBOUNCE : QUERN_ON_DUPLICATE_IGNORE;
    }
    char first[QN_NAME_SIZE_MAX + 1] = "";
    for (size_t round = 0; round < 50; round++) {
        unique_store(c, (struct qn_stamp){c->session, ++c->sequence}, tasks, UNIQUE_BATCH, answers);
        for (size_t i = 0; i < UNIQUE_BATCH; i++) {
            assert_int_equal(answers[i].status, QUERN_OK);
            bool is_first = round == 0 && i == 0;
            assert_true((answers[i].holder[0] == '\0') == is_first);
            if (round == 0 && i == 1) {
                (void)snprintf(first, sizeof first, "%s", answers[1].holder);
            }
            assert_true(is_first || strcmp(answers[i].holder, answers[1].holder) == 0);
        }
        assert_string_equal(answers[1].holder, first);
    }
    assert_int_equal(contract_queue(c, "default").size, 1);
}

static void replay_repeats_the_ids(struct contract *c)
{
    quern_task tasks[3] = {unique_keyed, unique_keyed, unique_keyed};
    struct unique_answer before[3];
    struct unique_answer after[3];
    bring(c, PENDING);
    tasks[1].unique_key = "k2";
    tasks[1].on_duplicate = QUERN_ON_DUPLICATE_IGNORE;
    tasks[2].on_duplicate = QUERN_ON_DUPLICATE_REPLACE;
    const struct qn_stamp stamp = {777, 1}; /* a session of its own: other requests follow */
    unique_store(c, stamp, tasks, 3, before);
    unique_assert(before[0], QUERN_E_DUPLICATE, "holder");
    unique_assert(before[1], QUERN_OK, "");
    unique_assert(before[2], QUERN_OK, "holder");
    contract_finish(c, contract_take_id(c, "default", "holder"), QN_DONE);
    unique_store(c, stamp, tasks, 3, after);
    for (size_t i = 0; i < 3; i++) {
        unique_assert(after[i], before[i].status, before[i].holder);
    }
    assert_int_equal(contract_queue(c, "default").size, 1);
}

static void conflict_of_ids_beside_a_policy_takes_no_lock(struct contract *c)
{
    contract_put(c, "default", "a");
    quern_task task = unique_keyed;
    task.id = "a";
    task.on_duplicate = QUERN_ON_DUPLICATE_IGNORE;
    unique_assert(unique_try(c, &task), QUERN_E_CONFLICT, "");
    assert_int_equal(unique_again(c), QUERN_OK);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(pending_holder_is_kept_by_fail_and_ignore),
    CONTRACT_TEST(active_holder_is_kept_by_fail_and_ignore),
    CONTRACT_TEST(delayed_holder_is_kept_by_fail_and_ignore),
    CONTRACT_TEST(archived_holder_is_kept_by_fail_and_ignore),
    CONTRACT_TEST(replace_gives_a_pending_task_the_new_data),
    CONTRACT_TEST(replace_keeps_the_moment_and_debounce_moves_it),
    CONTRACT_TEST(debounce_to_now_makes_a_delayed_task_due),
    CONTRACT_TEST(debounce_moves_a_retry_and_keeps_its_count),
    CONTRACT_TEST(debounce_leaves_a_pending_task_where_it_is),
    CONTRACT_TEST(replace_gives_a_grouped_task_the_new_data),
    CONTRACT_TEST(replace_does_not_touch_a_run_and_loses_no_data),
    CONTRACT_TEST(run_that_failed_after_a_replace_keeps_its_own_data),
    CONTRACT_TEST(archived_holder_makes_room_for_new_data),
    CONTRACT_TEST(replace_renews_the_lock),
    CONTRACT_TEST(lock_that_outlived_its_task_changes_no_other_one),
    CONTRACT_TEST(duplicates_within_a_batch_follow_their_policies),
    CONTRACT_TEST(replace_within_a_batch_leaves_a_fixed_lock_its_time),
    CONTRACT_TEST(debounce_within_a_batch_is_the_same_for_a_grouped_task),
    CONTRACT_TEST(many_duplicates_come_to_one_task),
    CONTRACT_TEST(replay_repeats_the_ids),
    CONTRACT_TEST(conflict_of_ids_beside_a_policy_takes_no_lock),
};
CONTRACT_MAIN(tests)
