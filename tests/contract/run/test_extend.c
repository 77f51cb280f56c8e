/* SPDX-License-Identifier: MIT */
/* test_extend.c - extending leases: held ones stay held with the same token, lost ones are
 * reported, and cancellations arrive with the answer. */
#include "lib_contract.h"

#include <stdlib.h>

static struct qn_extension extend(struct contract *c, const struct qn_leased *run)
{
    struct qn_extension extension = {.run = run};
    quern_error err = {0};
    assert_ok(qn_broker_extend(c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
    return extension;
}

static void lease_ends_after_its_time_and_not_before(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    contract_advance(c, CONTRACT_LEASE_MS - 1);
    assert_int_equal(contract_recover(c, "default"), 0);
    contract_advance(c, 2);
    assert_int_equal(contract_recover(c, "default"), 1);
    qn_leased_free(run);
}

static void extended_lease_is_not_recovered(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    for (int i = 0; i < 5; i++) {
        contract_advance(c, CONTRACT_LEASE_MS - 1000);
        struct qn_extension extension = extend(c, run);
        assert_true(extension.held);
        assert_int_equal(extension.cancel, QN_CANCEL_NONE);
        assert_int_equal(contract_recover(c, "default"), 0);
    }
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(contract_recover(c, "default"), 1);
    qn_leased_free(run);
}

static void extended_lease_keeps_its_token(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    contract_advance(c, 10000);
    assert_true(extend(c, run).held);
    assert_int_equal(contract_inspect(c, "default", "a").fence, run->fence);
    contract_advance(c, 10000);
    assert_true(extend(c, run).held);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
    contract_assert_counted(c, "default", 1, 0);
}

static void lease_may_be_extended_to_another_length(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    struct qn_extension extension = {.run = run};
    quern_error err = {0};
    assert_ok(qn_broker_extend(c->broker, &extension, 1, 2 * CONTRACT_LEASE_MS, &err), err);
    contract_advance(c, 2 * CONTRACT_LEASE_MS - 1);
    assert_int_equal(contract_recover(c, "default"), 0);
    contract_advance(c, 2);
    assert_int_equal(contract_recover(c, "default"), 1);
    qn_leased_free(run);
}

static void lost_lease_is_reported_and_not_taken_back(struct contract *c)
{
    struct qn_leased *zombie = contract_start(c, "a");
    contract_expire(c, "default");
    assert_false(extend(c, zombie).held);
    struct qn_leased *owner = contract_take_id(c, "default", "a");
    assert_false(extend(c, zombie).held);
    contract_advance(c, CONTRACT_LEASE_MS - 1000);
    assert_false(extend(c, zombie).held);
    contract_advance(c, 1001);
    /* Had the zombie extended the lease of the new owner, it would not have ended here. */
    assert_int_equal(contract_recover(c, "default"), 1);
    qn_leased_free(zombie);
    qn_leased_free(owner);
}

static void finished_run_holds_no_lease(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    assert_int_equal(contract_report(c, run, QN_RETRY), QN_APPLIED);
    assert_false(extend(c, run).held);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
    qn_leased_free(run);
}

static void one_call_answers_for_each_lease(struct contract *c)
{
    struct qn_leased *runs[3];
    struct qn_extension extensions[3] = {0};
    quern_error err = {0};
    contract_put_many(c, "default", "a", 3);
    assert_int_equal(contract_lease(c, "default", 3, runs), 3);
    assert_int_equal(contract_report(c, runs[1], QN_DONE), QN_APPLIED);
    for (size_t i = 0; i < 3; i++) {
        extensions[i].run = runs[i];
    }
    assert_ok(qn_broker_extend(c->broker, extensions, 3, CONTRACT_LEASE_MS, &err), err);
    assert_true(extensions[0].held);
    assert_false(extensions[1].held);
    assert_true(extensions[2].held);
    for (size_t i = 0; i < 3; i++) {
        qn_leased_free(runs[i]);
    }
}

static void many_leases_are_extended_at_once(struct contract *c)
{
    enum { COUNT = 300 };
    struct qn_leased *runs[COUNT];
    struct qn_extension *extensions = calloc(COUNT, sizeof *extensions);
    quern_error err = {0};
    size_t count = 0;
    assert_non_null(extensions);
    contract_put_many(c, "default", "a", COUNT);
    while (count < COUNT) {
        count += contract_lease(c, "default", 100, runs + count);
    }
    for (size_t i = 0; i < COUNT; i++) {
        extensions[i].run = runs[i];
    }
    contract_advance(c, CONTRACT_LEASE_MS - 1);
    assert_ok(qn_broker_extend(c->broker, extensions, COUNT, CONTRACT_LEASE_MS, &err), err);
    contract_advance(c, CONTRACT_LEASE_MS - 1);
    assert_int_equal(contract_recover(c, "default"), 0);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(extensions[i].held);
        qn_leased_free(runs[i]);
    }
    free(extensions);
}

static void lease_does_not_follow_the_wall_clock(struct contract *c)
{
    const int64_t hour_ms = 3600 * INT64_C(1000);
    struct qn_leased *run = contract_start(c, "a");
    contract_jump(c, hour_ms);
    assert_int_equal(contract_recover(c, "default"), 0);
    contract_jump(c, -2 * hour_ms);
    assert_int_equal(contract_recover(c, "default"), 0);
    assert_true(extend(c, run).held);
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(contract_recover(c, "default"), 1);
    qn_leased_free(run);
}

static void cancellation_arrives_with_the_extension(struct contract *c)
{
    quern_error err = {0};
    contract_put_many(c, "default", "a", 3);
    struct qn_leased *runs[3];
    assert_int_equal(contract_lease(c, "default", 3, runs), 3);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_CANCEL_RETRY, "default", "a0000", &err),
              err);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_CANCEL_ARCHIVE, NULL, "a0001", &err), err);
    assert_int_equal(extend(c, runs[0]).cancel, QN_CANCEL_RETRY);
    struct qn_extension extension = extend(c, runs[1]);
    assert_true(extension.held);
    assert_int_equal(extension.cancel, QN_CANCEL_ARCHIVE);
    assert_int_equal(extend(c, runs[2]).cancel, QN_CANCEL_NONE);
    assert_int_equal(contract_finish(c, runs[0], QN_RETRY), QN_APPLIED);
    assert_int_equal(contract_finish(c, runs[1], QN_CANCEL), QN_APPLIED);
    assert_int_equal(contract_finish(c, runs[2], QN_DONE), QN_APPLIED);
}

static void cancellation_is_for_one_run_only(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = contract_start(c, "a");
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_CANCEL_RETRY, "default", "a", &err), err);
    contract_finish(c, run, QN_RETRY);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    run = contract_take_id(c, "default", "a");
    assert_int_equal(extend(c, run).cancel, QN_CANCEL_NONE);
    contract_finish(c, run, QN_DONE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(lease_ends_after_its_time_and_not_before),
    CONTRACT_TEST(extended_lease_is_not_recovered),
    CONTRACT_TEST(extended_lease_keeps_its_token),
    CONTRACT_TEST(lease_may_be_extended_to_another_length),
    CONTRACT_TEST(lost_lease_is_reported_and_not_taken_back),
    CONTRACT_TEST(finished_run_holds_no_lease),
    CONTRACT_TEST(one_call_answers_for_each_lease),
    CONTRACT_TEST(many_leases_are_extended_at_once),
    CONTRACT_TEST(lease_does_not_follow_the_wall_clock),
    CONTRACT_TEST(cancellation_arrives_with_the_extension),
    CONTRACT_TEST(cancellation_is_for_one_run_only),
};
CONTRACT_MAIN(tests)
