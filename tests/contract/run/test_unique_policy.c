/* SPDX-License-Identifier: MIT */
/* test_unique_policy.c - which tasks are equal, and until when a unique task holds its lock. */
#include "lib_unique.h"

/* --- Keys ---------------------------------------------------------------------------------- */

static void tasks_with_the_same_key_are_equal_whatever_they_hold(struct contract *c)
{
    quern_task task = unique_keyed;
    contract_enqueue(c, &unique_keyed);
    task.type = "another";
    task.payload = "abc";
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    task.unique_key = "k2";
    assert_int_equal(contract_try(c, &task), QUERN_OK);
    task.unique_key = "k";
    task.queue = "other";
    assert_int_equal(contract_try(c, &task), QUERN_OK);
    task = unique_keyed;
    task.unique_key = NULL; /* type and payload, which hold no lock so far */
    assert_int_equal(contract_try(c, &task), QUERN_OK);
}

/* --- Until when ---------------------------------------------------------------------------- */

static void lock_until_started_ends_with_the_lease(struct contract *c)
{
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_STARTED);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    contract_enqueue(c, &unique_keyed);
    /* The end of the first neither takes nor frees the lock of the second. */
    contract_finish(c, run, QN_RETRY);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    contract_advance(c, 60000);
    (void)contract_forward(c, "default", NULL);
    contract_finish(c, contract_take(c, "default"), QN_DONE); /* the second one: it came before */
    assert_int_equal(unique_again(c), QUERN_OK);
    contract_finish(c, contract_take_id(c, "default", "holder"), QN_DONE);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
}

static void lock_until_ended_ends_with_the_archive(struct contract *c)
{
    quern_error err = {0};
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_ENDED);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    contract_finish(c, run, QN_ARCHIVE);
    quern_task second = unique_keyed;
    second.id = "second";
    second.unique_until = QUERN_UNIQUE_UNTIL_ENDED;
    contract_enqueue(c, &second);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_ARCHIVE, "default", "second", &err), err);
    assert_int_equal(unique_again(c), QUERN_OK);
}

static void lock_until_removed_outlives_its_time_in_the_archive(struct contract *c)
{
    quern_error err = {0};
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_REMOVED);
    contract_finish(c, contract_take_id(c, "default", "holder"), QN_ARCHIVE);
    contract_advance(c, 48 * UNIQUE_HOUR_MS);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_RUN, "default", "holder", &err), err);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_ARCHIVE, "default", "holder", &err), err);
    contract_advance(c, 48 * UNIQUE_HOUR_MS);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", "holder", &err), err);
    assert_int_equal(unique_again(c), QUERN_OK);
}

static void lock_of_a_period_holds_whatever_becomes_of_the_task(struct contract *c)
{
    quern_error err = {0};
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_EXPIRED);
    contract_finish(c, contract_take_id(c, "default", "holder"), QN_DONE);
    contract_advance(c, UNIQUE_HOUR_MS - 2000);
    unique_assert(unique_try_policy(c, NULL, QUERN_ON_DUPLICATE_FAIL), QUERN_E_DUPLICATE, "holder");
    unique_assert(unique_try_policy(c, NULL, QUERN_ON_DUPLICATE_IGNORE), QUERN_OK, "holder");
    unique_assert(unique_try_policy(c, NULL, QUERN_ON_DUPLICATE_REPLACE), QUERN_E_DUPLICATE,
                  "holder");
    contract_advance(c, 3000);
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_EXPIRED);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", "holder", &err), err);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    contract_advance(c, UNIQUE_HOUR_MS + 1);
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_EXPIRED);
    contract_advance(c, UNIQUE_HOUR_MS - 60000);
    contract_finish(c, contract_take_id(c, "default", "holder"), QN_RETRY);
    contract_advance(c, 60001); /* a run and a retry do not renew it */
    assert_int_equal(unique_again(c), QUERN_OK);
}

/* --- Renewed ------------------------------------------------------------------------------- */

/* A lock of a second for a task that lives for hours. */
static void put_short(struct contract *c)
{
    quern_task task = unique_keyed;
    task.id = "holder";
    task.unique_ms = 1000;
    contract_enqueue(c, &task);
}

/* All other locks of a removed queue go with their tasks. */
static void lock_of_a_period_outlives_its_queue(struct contract *c)
{
    quern_error err = {0};
    for (int32_t until = QUERN_UNIQUE_UNTIL_DONE; until <= QUERN_UNIQUE_UNTIL_EXPIRED; until++) {
        bool is_fixed = until == QUERN_UNIQUE_UNTIL_EXPIRED;
        unique_put_holder(c, until);
        assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
        assert_int_equal(unique_again(c), is_fixed ? QUERN_E_DUPLICATE : QUERN_OK);
        if (!is_fixed) {
            contract_finish(c, contract_take(c, "default"), QN_DONE);
        }
    }
    contract_advance(c, UNIQUE_HOUR_MS + 1);
    assert_int_equal(unique_again(c), QUERN_OK);
}

static void retry_of_hours_keeps_its_lock(struct contract *c)
{
    put_short(c);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    const struct qn_outcome outcome = {.run = run,
                                       .kind = QN_RETRY,
                                       .delay_ms = 5 * UNIQUE_HOUR_MS,
                                       .started = true,
                                       .error = "broken"};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    qn_leased_free(run);
    contract_advance(c, 5 * UNIQUE_HOUR_MS - 1);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    contract_advance(c, 1002);
    assert_int_equal(unique_again(c), QUERN_OK);
}

static void run_of_hours_keeps_its_lock(struct contract *c)
{
    put_short(c);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    for (int i = 0; i < 20; i++) {
        struct qn_extension extension = {.run = run};
        quern_error err = {0};
        contract_advance(c, CONTRACT_LEASE_MS - 1000);
        assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
        assert_ok(qn_broker_extend(c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
        assert_true(extension.held);
    }
    contract_finish(c, run, QN_DONE);
    assert_int_equal(unique_again(c), QUERN_OK);
}

static void lease_takes_an_ended_lock_again(struct contract *c)
{
    put_short(c);
    contract_advance(c, 5000);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    contract_finish(c, run, QN_DONE);
    assert_int_equal(unique_again(c), QUERN_OK);
}

static void lease_leaves_the_lock_of_a_later_task_alone(struct contract *c)
{
    put_short(c);
    contract_advance(c, 5000);
    contract_enqueue(c, &unique_keyed);
    contract_finish(c, contract_take_id(c, "default", "holder"), QN_DONE);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
}

static void lost_lease_renews_the_lock(struct contract *c)
{
    put_short(c);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    contract_expire(c, "default");
    qn_leased_free(run);
    contract_advance(c, 900);
    assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
}

/* --- Several tasks with one lock ------------------------------------------------------------ */

/* Two equal tasks, "holder" and "second", both with a run, the lock is that of the second. */
static void take_two(struct contract *c, struct qn_leased *runs[2])
{
    quern_task second = unique_keyed;
    second.id = "second";
    second.unique_ms = 1000;
    put_short(c);
    contract_advance(c, 5000);
    contract_enqueue(c, &second);
    assert_int_equal(contract_lease(c, "default", 2, runs), 2);
    assert_string_equal(runs[0]->task.id, "holder");
    unique_assert(unique_try_policy(c, NULL, QUERN_ON_DUPLICATE_FAIL), QUERN_E_DUPLICATE, "second");
}

static void end_both(struct contract *c, struct qn_leased *runs[2], enum qn_outcome_kind kind)
{
    enum qn_applied applied[2] = {QN_STALE, QN_STALE};
    const struct qn_outcome outcomes[] = {
        {.run = runs[1], .kind = kind, .delay_ms = 60000, .started = true, .error = "broken"},
        {.run = runs[0], .kind = QN_RETRY, .delay_ms = 60000, .started = true, .error = "broken"}};
    struct qn_queue_share share = {.name = "default", .weight = 1};
    struct qn_exchange request = {
        .outcomes = outcomes, .outcome_count = 2, .queues = &share, .queue_count = 1};
    assert_int_equal(contract_exchange(c, &request, applied, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        qn_leased_free(runs[i]);
    }
}

static void lock_that_an_outcome_frees_is_taken_by_the_next_outcome(struct contract *c)
{
    struct qn_leased *runs[2];
    take_two(c, runs);
    end_both(c, runs, QN_DONE);
    unique_assert(unique_try_policy(c, NULL, QUERN_ON_DUPLICATE_FAIL), QUERN_E_DUPLICATE, "holder");
}

static void first_of_two_outcomes_takes_the_ended_lock(struct contract *c)
{
    struct qn_leased *runs[2];
    take_two(c, runs);
    contract_advance(c, 2 * CONTRACT_LEASE_MS + 1);
    end_both(c, runs, QN_RETRY);
    unique_assert(unique_try_policy(c, NULL, QUERN_ON_DUPLICATE_FAIL), QUERN_E_DUPLICATE, "second");
}

static void first_of_two_lost_leases_takes_the_ended_lock(struct contract *c)
{
    struct qn_leased *runs[2];
    take_two(c, runs);
    contract_advance(c, 2 * CONTRACT_LEASE_MS + 1);
    assert_int_equal(contract_recover(c, "default"), 2);
    unique_assert(unique_try_policy(c, NULL, QUERN_ON_DUPLICATE_FAIL), QUERN_E_DUPLICATE, "holder");
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(tasks_with_the_same_key_are_equal_whatever_they_hold),
    CONTRACT_TEST(lock_until_started_ends_with_the_lease),
    CONTRACT_TEST(lock_until_ended_ends_with_the_archive),
    CONTRACT_TEST(lock_until_removed_outlives_its_time_in_the_archive),
    CONTRACT_TEST(lock_of_a_period_holds_whatever_becomes_of_the_task),
    CONTRACT_TEST(lock_of_a_period_outlives_its_queue),
    CONTRACT_TEST(retry_of_hours_keeps_its_lock),
    CONTRACT_TEST(run_of_hours_keeps_its_lock),
    CONTRACT_TEST(lease_takes_an_ended_lock_again),
    CONTRACT_TEST(lease_leaves_the_lock_of_a_later_task_alone),
    CONTRACT_TEST(lost_lease_renews_the_lock),
    CONTRACT_TEST(lock_that_an_outcome_frees_is_taken_by_the_next_outcome),
    CONTRACT_TEST(first_of_two_outcomes_takes_the_ended_lock),
    CONTRACT_TEST(first_of_two_lost_leases_takes_the_ended_lock),
};
CONTRACT_MAIN(tests)
