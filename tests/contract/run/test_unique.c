/* SPDX-License-Identifier: MIT */
/* test_unique.c - the lock of a unique task: its holder, its end, and the events that free it. */
#include "lib_contract.h"

static const quern_task unique = {
    .type = "u", .payload = "p", .payload_size = 1, .unique_ms = 3600000};

static struct qn_leased *take_unique(struct contract *c)
{
    contract_enqueue(c, &unique);
    struct qn_leased *run = contract_take(c, "default");
    assert_non_null(run);
    return run;
}

static void equal_task_is_a_duplicate(struct contract *c)
{
    contract_enqueue(c, &unique);
    assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
}

static void task_that_differs_is_no_duplicate(struct contract *c)
{
    quern_task task = unique;
    contract_enqueue(c, &unique);
    task.payload = "q";
    assert_int_equal(contract_try(c, &task), QUERN_OK);
    task = unique;
    task.type = "v";
    assert_int_equal(contract_try(c, &task), QUERN_OK);
    task = unique;
    task.queue = "other";
    assert_int_equal(contract_try(c, &task), QUERN_OK);
    task = unique;
    task.unique_ms = 0;
    assert_int_equal(contract_try(c, &task), QUERN_OK);
}

static void lock_ends_by_itself(struct contract *c)
{
    contract_enqueue(c, &unique);
    contract_advance(c, 3600000 - 1);
    assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
    contract_advance(c, 2);
    assert_int_equal(contract_try(c, &unique), QUERN_OK);
}

static void lock_of_a_delayed_task_lives_on_from_its_due_moment(struct contract *c)
{
    quern_task task = unique;
    task.delay_ms = 5000;
    contract_enqueue(c, &task);
    contract_advance(c, 3600000 + 4999);
    assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
    contract_advance(c, 2);
    assert_int_equal(contract_try(c, &unique), QUERN_OK);
}

static void unique_lock_is_freed_by_done_and_drop(struct contract *c)
{
    contract_finish(c, take_unique(c), QN_DONE);
    contract_finish(c, take_unique(c), QN_DROP);
    assert_int_equal(contract_try(c, &unique), QUERN_OK);
}

static void completed_task_holds_no_lock(struct contract *c)
{
    quern_task task = unique;
    task.retention_ms = 60000;
    contract_enqueue(c, &task);
    contract_finish(c, contract_take(c, "default"), QN_DONE);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_COMPLETED), 1);
    assert_int_equal(contract_try(c, &unique), QUERN_OK);
}

static void unique_lock_is_kept_until_the_task_is_done(struct contract *c)
{
    const enum qn_outcome_kind kinds[] = {QN_RETRY, QN_SNOOZE, QN_GIVE_BACK, QN_CRASH};
    struct qn_leased *run = take_unique(c);
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
        contract_finish(c, run, kinds[i]);
        assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
        contract_advance(c, 60000);
        (void)contract_forward(c, "default", NULL);
        run = contract_take(c, "default");
        assert_non_null(run);
    }
    contract_finish(c, run, QN_DONE);
    assert_int_equal(contract_try(c, &unique), QUERN_OK);
}

static void archived_task_keeps_its_lock(struct contract *c)
{
    contract_finish(c, take_unique(c), QN_ARCHIVE);
    assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
    contract_advance(c, 3600001);
    assert_int_equal(contract_try(c, &unique), QUERN_OK);
}

static void lost_lease_keeps_the_lock(struct contract *c)
{
    struct qn_leased *run = take_unique(c);
    contract_expire(c, "default");
    assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
    qn_leased_free(run);
}

static void deleting_the_task_frees_its_lock(struct contract *c)
{
    quern_task task = unique;
    quern_error err = {0};
    task.id = "a";
    contract_enqueue(c, &task);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", "a", &err), err);
    assert_int_equal(contract_try(c, &unique), QUERN_OK);
}

static void task_whose_lock_ended_frees_no_foreign_lock(struct contract *c)
{
    struct qn_leased *run = take_unique(c);
    contract_advance(c, 3600001);
    assert_int_equal(contract_try(c, &unique), QUERN_OK);
    contract_finish(c, run, QN_DONE);
    assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
}

static void lock_survives_closing_and_opening(struct contract *c)
{
    contract_enqueue(c, &unique);
    qn_broker_close(c->broker);
    c->broker = contract_open(c);
    assert_int_equal(contract_try(c, &unique), QUERN_E_DUPLICATE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(equal_task_is_a_duplicate),
    CONTRACT_TEST(task_that_differs_is_no_duplicate),
    CONTRACT_TEST(lock_ends_by_itself),
    CONTRACT_TEST(lock_of_a_delayed_task_lives_on_from_its_due_moment),
    CONTRACT_TEST(unique_lock_is_freed_by_done_and_drop),
    CONTRACT_TEST(completed_task_holds_no_lock),
    CONTRACT_TEST(unique_lock_is_kept_until_the_task_is_done),
    CONTRACT_TEST(archived_task_keeps_its_lock),
    CONTRACT_TEST(lost_lease_keeps_the_lock),
    CONTRACT_TEST(deleting_the_task_frees_its_lock),
    CONTRACT_TEST(task_whose_lock_ended_frees_no_foreign_lock),
    CONTRACT_TEST(lock_survives_closing_and_opening),
};
CONTRACT_MAIN(tests)
