/* SPDX-License-Identifier: MIT */
/* test_results.c - results and progress: stored at once, only by the holder of the lease, kept as
 * long as the task's retention says. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

static struct qn_leased *start_kept(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 60000});
    return contract_take_id(c, "default", "a");
}

static void assert_result(struct contract *c, const void *data, size_t size)
{
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_true(view.has_result);
    assert_int_equal(view.result_size, size);
    assert_memory_equal(view.result, data, size);
}

static void written_result_is_seen_at_once(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = start_kept(c);
    assert_ok(qn_broker_write_result(c->broker, run, (struct qn_bytes){"a\0b", 3}, &err), err);
    assert_result(c, "a\0b", 3);
    assert_ok(qn_broker_write_result(c->broker, run, (struct qn_bytes){"second", 6}, &err), err);
    assert_result(c, "second", 6);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
    assert_result(c, "second", 6);
}

static void result_of_the_outcome_replaces_the_written_one(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = start_kept(c);
    assert_ok(qn_broker_write_result(c->broker, run, (struct qn_bytes){"draft", 5}, &err), err);
    struct qn_outcome outcome = {
        .run = run, .kind = QN_DONE, .result = "final\0!", .result_size = 7, .has_result = true};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    assert_result(c, "final\0!", 7);
    qn_leased_free(run);
}

static void outcome_without_result_leaves_the_written_one(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = start_kept(c);
    assert_ok(qn_broker_write_result(c->broker, run, (struct qn_bytes){"kept", 4}, &err), err);
    struct qn_outcome outcome = {
        .run = run, .kind = QN_DONE, .result = "ignored", .result_size = 7};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    assert_result(c, "kept", 4);
    qn_leased_free(run);
}

static void empty_result_is_a_result(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = start_kept(c);
    assert_ok(qn_broker_write_result(c->broker, run, (struct qn_bytes){"something", 9}, &err), err);
    assert_ok(qn_broker_write_result(c->broker, run, (struct qn_bytes){NULL, 0}, &err), err);
    assert_int_equal(contract_inspect(c, "default", "a").result_size, 0);
    contract_finish(c, run, QN_DONE);
}

static void result_survives_a_failed_run(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = start_kept(c);
    assert_ok(qn_broker_write_result(c->broker, run, (struct qn_bytes){"half", 4}, &err), err);
    contract_finish(c, run, QN_CRASH);
    assert_result(c, "half", 4);
}

static void lost_lease_refuses_result_and_progress(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *zombie = start_kept(c);
    assert_ok(qn_broker_write_result(c->broker, zombie, (struct qn_bytes){"mine", 4}, &err), err);
    contract_expire(c, "default");
    assert_int_equal(qn_broker_write_result(c->broker, zombie, (struct qn_bytes){"late", 4}, &err),
                     QUERN_E_STALE);
    struct qn_leased *owner = contract_take_id(c, "default", "a");
    assert_int_equal(qn_broker_write_result(c->broker, zombie, (struct qn_bytes){"late", 4}, &err),
                     QUERN_E_STALE);
    assert_int_equal(qn_broker_write_progress(c->broker, zombie, 50, "late", &err), QUERN_E_STALE);
    assert_result(c, "mine", 4);
    assert_ok(qn_broker_write_result(c->broker, owner, (struct qn_bytes){"new", 3}, &err), err);
    contract_finish(c, owner, QN_DONE);
    assert_int_equal(qn_broker_write_result(c->broker, zombie, (struct qn_bytes){"late", 4}, &err),
                     QUERN_E_STALE);
    assert_result(c, "new", 3);
    qn_leased_free(zombie);
}

static void progress_and_its_note_are_seen(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = start_kept(c);
    assert_int_equal(contract_inspect(c, "default", "a").progress, -1);
    assert_ok(qn_broker_write_progress(c->broker, run, 0, NULL, &err), err);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.progress, 0);
    assert_string_equal(view.note, "");
    assert_ok(qn_broker_write_progress(c->broker, run, 42, "page 3 of 7", &err), err);
    view = contract_inspect(c, "default", "a");
    assert_int_equal(view.progress, 42);
    assert_string_equal(view.note, "page 3 of 7");
    contract_finish(c, run, QN_DONE);
}

static void large_result_comes_back_byte_by_byte(struct contract *c)
{
    const size_t size = 1 << 20;
    unsigned char *data = malloc(size);
    quern_error err = {0};
    assert_non_null(data);
    for (size_t i = 0; i < size; i++) {
        data[i] = (unsigned char)(i * 31 >> 3);
    }
    struct qn_leased *run = start_kept(c);
    assert_ok(qn_broker_write_result(c->broker, run, (struct qn_bytes){data, size}, &err), err);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.result_size, size);
    assert_memory_equal(view.result, data, sizeof view.result);
    contract_finish(c, run, QN_DONE);
    free(data);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(written_result_is_seen_at_once),
    CONTRACT_TEST(result_of_the_outcome_replaces_the_written_one),
    CONTRACT_TEST(outcome_without_result_leaves_the_written_one),
    CONTRACT_TEST(empty_result_is_a_result),
    CONTRACT_TEST(result_survives_a_failed_run),
    CONTRACT_TEST(lost_lease_refuses_result_and_progress),
    CONTRACT_TEST(progress_and_its_note_are_seen),
    CONTRACT_TEST(large_result_comes_back_byte_by_byte),
};
CONTRACT_MAIN(tests)
