/* SPDX-License-Identifier: MIT */
/* test_session.c - requests whose reply was lost: the same stamp again gets the same answer and
 * does nothing; another stamp is another request. */
#include "lib_contract.h"
#include "lib_task.h"

#include <string.h>

static const struct qn_stamp stamp_a = {.session = 1001, .sequence = 5};

static quern_status enqueue_with(struct contract *c, struct qn_stamp stamp, const char *id)
{
    struct qn_task task = test_task(id);
    quern_status result = QUERN_E_INVALID;
    quern_error err = {0};
    assert_ok(qn_broker_enqueue(c->broker, &(struct qn_enqueue){stamp, &task, 1, &result}, &err),
              err);
    return result;
}

static void replayed_enqueue_stores_no_second_task(struct contract *c)
{
    assert_int_equal(enqueue_with(c, stamp_a, "a"), QUERN_OK);
    assert_int_equal(enqueue_with(c, stamp_a, "a"), QUERN_OK);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
    assert_int_equal(enqueue_with(c, (struct qn_stamp){1001, 6}, "a"), QUERN_E_CONFLICT);
}

static void replayed_enqueue_stores_nothing_when_the_task_is_done_already(struct contract *c)
{
    assert_int_equal(enqueue_with(c, stamp_a, "a"), QUERN_OK);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_int_equal(enqueue_with(c, stamp_a, "a"), QUERN_OK);
    assert_null(contract_take(c, "default"));
    contract_assert_counted(c, "default", 1, 0);
}

static void replayed_batch_repeats_each_result(struct contract *c)
{
    struct qn_task tasks[] = {test_task("a"), test_task("taken"), test_task("b")};
    quern_status results[3];
    quern_error err = {0};
    contract_put(c, "default", "taken");
    for (int round = 0; round < 3; round++) {
        memset(results, 0xff, sizeof results);
        assert_ok(
            qn_broker_enqueue(c->broker, &(struct qn_enqueue){stamp_a, tasks, 3, results}, &err),
            err);
        assert_int_equal(results[0], QUERN_OK);
        assert_int_equal(results[1], QUERN_E_CONFLICT);
        assert_int_equal(results[2], QUERN_OK);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 3);
}

static void replay_is_known_to_another_connection(struct contract *c)
{
    assert_int_equal(enqueue_with(c, stamp_a, "a"), QUERN_OK);
    qn_broker_close(c->broker);
    c->broker = contract_open(c);
    assert_int_equal(enqueue_with(c, stamp_a, "a"), QUERN_OK);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
}

static void next_sequence_is_a_new_request(struct contract *c)
{
    for (uint64_t sequence = 1; sequence <= 5; sequence++) {
        char id[8];
        (void)snprintf(id, sizeof id, "a%d", (int)sequence);
        assert_int_equal(enqueue_with(c, (struct qn_stamp){1001, sequence}, id), QUERN_OK);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 5);
}

static void sessions_do_not_know_each_other(struct contract *c)
{
    assert_int_equal(enqueue_with(c, (struct qn_stamp){1, 5}, "a"), QUERN_OK);
    assert_int_equal(enqueue_with(c, (struct qn_stamp){2, 5}, "b"), QUERN_OK);
    assert_int_equal(enqueue_with(c, (struct qn_stamp){1, 5}, "a"), QUERN_OK);
    assert_int_equal(enqueue_with(c, (struct qn_stamp){2, 5}, "b"), QUERN_OK);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 2);
}

static void sequence_zero_is_not_remembered(struct contract *c)
{
    assert_int_equal(enqueue_with(c, (struct qn_stamp){1001, 0}, "a"), QUERN_OK);
    assert_int_equal(enqueue_with(c, (struct qn_stamp){1001, 0}, "a"), QUERN_E_CONFLICT);
}

/* --- Exchange ----------------------------------------------------------------------- */

static size_t exchange_with(struct contract *c, struct qn_stamp stamp,
                            const struct qn_outcome *outcome, enum qn_applied *applied,
                            struct qn_leased **runs)
{
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 2};
    struct qn_exchange exchange = {.stamp = stamp,
                                   .outcomes = outcome,
                                   .outcome_count = outcome == NULL ? 0 : 1,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 2,
                                   .start_count_now = 1};
    return contract_exchange(c, &exchange, applied, runs);
}

static void replayed_exchange_returns_the_same_runs(struct contract *c)
{
    struct qn_leased *first[2];
    struct qn_leased *again[2];
    contract_enqueue(c,
                     &(quern_task){.type = "t", .id = "a", .payload = "x\0y", .payload_size = 3});
    contract_put_many(c, "default", "b", 9);
    assert_int_equal(exchange_with(c, stamp_a, NULL, NULL, first), 2);
    assert_int_equal(exchange_with(c, stamp_a, NULL, NULL, again), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(again[i]->task.id, first[i]->task.id);
        assert_int_equal(again[i]->token, first[i]->token);
        assert_int_equal(again[i]->fence, first[i]->fence);
        assert_int_equal(again[i]->started, first[i]->started);
        assert_int_equal(again[i]->queue_index, first[i]->queue_index);
        assert_int_equal(again[i]->task.payload_size, first[i]->task.payload_size);
    }
    assert_memory_equal(again[0]->task.payload, "x\0y", 3);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), 2);
    for (size_t i = 0; i < 2; i++) {
        qn_leased_free(first[i]);
        assert_int_equal(contract_finish(c, again[i], QN_DONE), QN_APPLIED);
    }
}

static void replayed_exchange_counts_an_outcome_once(struct contract *c)
{
    enum qn_applied applied = QN_STALE;
    struct qn_leased *run = contract_start(c, "a");
    struct qn_outcome outcome = {
        .run = run, .kind = QN_RETRY, .delay_ms = 60000, .error = "broken"};
    for (int round = 0; round < 3; round++) {
        applied = QN_STALE;
        assert_int_equal(exchange_with(c, stamp_a, &outcome, &applied, NULL), 0);
        assert_int_equal(applied, QN_APPLIED);
    }
    assert_int_equal(contract_inspect(c, "default", "a").retry_count, 1);
    contract_assert_counted(c, "default", 1, 1);
    assert_int_equal(exchange_with(c, (struct qn_stamp){1001, 6}, &outcome, &applied, NULL), 0);
    assert_int_equal(applied, QN_STALE);
    qn_leased_free(run);
}

static void replayed_exchange_repeats_a_stale_answer(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    struct qn_outcome outcome = {.run = run, .kind = QN_DONE};
    enum qn_applied applied = QN_APPLIED;
    assert_int_equal(contract_report(c, run, QN_DONE), QN_APPLIED);
    for (int round = 0; round < 2; round++) {
        applied = QN_APPLIED;
        assert_int_equal(exchange_with(c, stamp_a, &outcome, &applied, NULL), 0);
        assert_int_equal(applied, QN_STALE);
    }
    qn_leased_free(run);
}

/* A request without effect need not be remembered: repeated it does no harm, as long as all its
 * leases are in the answer. */
static void replayed_exchange_without_effect_hides_no_lease(struct contract *c)
{
    struct qn_leased *runs[2];
    assert_int_equal(exchange_with(c, stamp_a, NULL, NULL, runs), 0);
    contract_put(c, "default", "a");
    size_t count = exchange_with(c, stamp_a, NULL, NULL, runs);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), count);
    if (count == 0) {
        count = exchange_with(c, (struct qn_stamp){1001, 6}, NULL, NULL, runs);
    }
    assert_int_equal(count, 1);
    assert_int_equal(contract_finish(c, runs[0], QN_DONE), QN_APPLIED);
}

/* again: as the broker leaves it to the caller when a reply is lost. */
static size_t lease_with(struct contract *c, uint64_t sequence, bool again, struct qn_leased **runs)
{
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 2};
    struct qn_exchange exchange = {.stamp = {.session = 1001, .sequence = sequence},
                                   .again = again,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 2,
                                   .start_count_now = 2};
    return contract_exchange(c, &exchange, NULL, runs);
}

/* The empty answer was lost, and a task came before the request was sent again. */
static void replay_of_an_empty_lease_may_lease_once(struct contract *c)
{
    struct qn_leased *runs[2];
    struct qn_leased *copies[2];
    assert_int_equal(lease_with(c, 5, false, runs), 0);
    contract_put(c, "default", "a");
    assert_int_equal(lease_with(c, 5, true, runs), 1);
    contract_put(c, "default", "b");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lease_with(c, 5, i == 0, copies), 1);
        assert_true(copies[0]->token == runs[0]->token);
        qn_leased_free(copies[0]);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
    contract_finish(c, runs[0], QN_DONE);
}

/* The first copy lingered in a dying connection: no worker would learn of its leases. */
static void late_copy_of_a_request_leases_nothing_after_an_empty_replay(struct contract *c)
{
    struct qn_leased *runs[2];
    assert_int_equal(lease_with(c, 5, true, runs), 0);
    contract_put(c, "default", "a");
    assert_int_equal(lease_with(c, 5, false, runs), 0);
    assert_int_equal(lease_with(c, 6, false, runs), 1);
    contract_finish(c, runs[0], QN_DONE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(replayed_enqueue_stores_no_second_task),
    CONTRACT_TEST(replayed_enqueue_stores_nothing_when_the_task_is_done_already),
    CONTRACT_TEST(replayed_batch_repeats_each_result),
    CONTRACT_TEST(replay_is_known_to_another_connection),
    CONTRACT_TEST(next_sequence_is_a_new_request),
    CONTRACT_TEST(sessions_do_not_know_each_other),
    CONTRACT_TEST(sequence_zero_is_not_remembered),
    CONTRACT_TEST(replayed_exchange_returns_the_same_runs),
    CONTRACT_TEST(replayed_exchange_counts_an_outcome_once),
    CONTRACT_TEST(replayed_exchange_repeats_a_stale_answer),
    CONTRACT_TEST(replayed_exchange_without_effect_hides_no_lease),
    CONTRACT_TEST_ONLY("redis", replay_of_an_empty_lease_may_lease_once),
    CONTRACT_TEST_ONLY("redis", late_copy_of_a_request_leases_nothing_after_an_empty_replay),
};
CONTRACT_MAIN(tests)
