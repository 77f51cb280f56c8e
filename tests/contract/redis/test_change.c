/* SPDX-License-Identifier: MIT */
/* test_change.c - checkpoints in Redis. Among broken data they cost one task its move, or nothing,
 * and never the other outcomes of the same request; the fence of a task that goes elsewhere grows.
 */
#include "lib_contract.h"

#include <string.h>

#define HERE "asynq:{default}:"
#define THERE "asynq:{other}:"
#define LOCK "unique:t:" /* of a task without payload */

static struct test_redis *server(void)
{
    return test_store_server();
}

/* --- Fences -------------------------------------------------------------------------- */

/* A store outside that takes what has the largest fence it has seen, as quern/run.h advises. */
struct outside {
    uint64_t fence;
    char data[16];
};

static bool write_outside(struct outside *outside, const struct qn_leased *run, const char *data)
{
    if (run->fence <= outside->fence) {
        return false;
    }
    outside->fence = run->fence;
    (void)snprintf(outside->data, sizeof outside->data, "%s", data);
    return true;
}

/* The clock of the server goes back after the task has run, and before it runs elsewhere. */
static void go_elsewhere_while_the_clock_goes_back(struct contract *c, const char *id)
{
    const struct qn_task_change change = {.queue = "other"};
    struct outside outside = {0};
    contract_enqueue(c, &(quern_task){.type = "t", .id = id});
    struct qn_leased *old = contract_take_id(c, "default", id);
    const struct qn_outcome outcome = {
        .run = old, .kind = QN_SNOOZE, .started = true, .change = &change};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    test_store_advance(&c->store, -3600 * INT64_C(1000));
    struct qn_leased *new = contract_take_id(c, "other", id);
    assert_true(write_outside(&outside, new, "new"));
    assert_false(write_outside(&outside, old, "old")); /* late */
    assert_string_equal(outside.data, "new");
    qn_leased_free(old);
    contract_finish(c, new, QN_DONE);
    test_store_advance(&c->store, 3600 * INT64_C(1000));
}

static void fence_of_a_task_that_goes_elsewhere_grows(struct contract *c)
{
    go_elsewhere_while_the_clock_goes_back(c, "a"); /* to a queue that has given no run yet */
    contract_advance(c, 1000);
    go_elsewhere_while_the_clock_goes_back(c, "b");
    assert_int_equal(test_redis_count(server(), "HEXISTS " THERE "quern:meta fence"), 1);
}

/* --- Broken data ---------------------------------------------------------------------- */

static struct qn_task_change checkpoint(void)
{
    return (struct qn_task_change){
        .payload = "next", .payload_size = 4, .has_payload = true, .queue = "other"};
}

/* Ends the runs of "a", which wants to the other queue, and of "b", which wants nothing, in one
 * request; returns what became of "a". */
static enum qn_applied end_both(struct contract *c, struct qn_leased *runs[2],
                                const struct qn_task_change *change)
{
    enum qn_applied applied[2] = {QN_STALE, QN_STALE};
    struct qn_outcome outcomes[2];
    for (size_t i = 0; i < 2; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i],
                                          .kind = QN_RETRY,
                                          .started = true,
                                          .delay_ms = 60000,
                                          .error = "broken",
                                          .change = i == 0 ? change : NULL};
    }
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = 2};
    assert_int_equal(contract_exchange(c, &exchange, applied, NULL), 0);
    assert_int_equal(applied[1], QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_RETRY);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
    return applied[0];
}

static void start_both(struct contract *c, struct qn_leased *runs[2])
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .unique_ms = 600000});
    contract_put(c, "default", "b");
    runs[0] = contract_take_id(c, "default", "a");
    runs[1] = contract_take_id(c, "default", "b");
}

static void key_of_the_wrong_type_there_keeps_the_task_in_its_queue(struct contract *c)
{
    static const char *const keys[] = {THERE "retry", THERE "quern:due",  THERE "t:a",
                                       THERE LOCK,    THERE "quern:meta", "asynq:queues"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        struct qn_leased *runs[2];
        const struct qn_task_change change = checkpoint();
        start_both(c, runs);
        (void)test_redis_do(server(), "DEL %s", keys[i]);
        (void)test_redis_do(server(), "RPUSH %s x", keys[i]);
        assert_int_equal(end_both(c, runs, &change), QN_UNMOVED);
        assert_int_equal(test_redis_count(server(), "LLEN %s", keys[i]), 1);
        assert_int_equal(test_redis_count(server(), "EXISTS " HERE LOCK), 1);
        (void)test_redis_do(server(), "DEL %s", keys[i]);
        (void)test_redis_do(server(), "SADD asynq:queues default other");
        contract_advance(c, 60000);
        assert_int_equal(contract_forward(c, "default", NULL), 2);
        for (int k = 0; k < 2; k++) {
            struct qn_leased *run = contract_take(c, "default");
            assert_int_equal(run->task.payload_size, strcmp(run->task.id, "a") == 0 ? 4 : 0);
            assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
        }
    }
}

/* What a run leaves cannot be put into a message that is none any more. */
static void broken_message_costs_its_own_task(struct contract *c)
{
    static const char *const messages[] = {"\xff\xff\xff\xff", "", "\x0a\x7f", "x"};
    for (size_t i = 0; i < TEST_COUNT(messages); i++) {
        struct qn_leased *runs[2];
        const struct qn_task_change change = checkpoint();
        start_both(c, runs);
        (void)test_redis_do(server(), "HSET " HERE "t:a msg %s", messages[i]);
        enum qn_applied applied = end_both(c, runs, &change);
        assert_true(applied == QN_UNMOVED || applied == QN_STALE || applied == QN_APPLIED);
        (void)test_redis_do(server(), "FLUSHALL");
    }
}

static void hash_of_the_wrong_type_costs_its_own_task(struct contract *c)
{
    struct qn_leased *runs[2];
    const struct qn_task_change change = checkpoint();
    start_both(c, runs);
    (void)test_redis_do(server(), "DEL " HERE "t:a");
    (void)test_redis_do(server(), "SET " HERE "t:a x");
    assert_int_equal(end_both(c, runs, &change), QN_STALE);
    assert_int_equal(test_redis_count(server(), "EXISTS " THERE "t:a " THERE "retry"), 0);
}

/* protobuf allows any order of fields. */
static void fields_in_another_order_are_replaced(struct contract *c)
{
    struct qn_leased *runs[2];
    struct qn_task_change change = checkpoint();
    change.has_retry_max = true;
    change.retry_max = 300;
    start_both(c, runs);
    /* retry 5, queue, an unknown field 200, the payload, unique_key, id, type */
    static const char message[] = "\x28\x05\x22\x07"
                                  "default\xc2\x0c\x02zz\x12\x01p\x52\x19" HERE LOCK "\x1a\x01"
                                  "a\x0a\x01"
                                  "t";
    (void)test_redis_do(server(), "HSET " HERE "t:a msg %b", message, sizeof message - 1);
    assert_int_equal(end_both(c, runs, &change), QN_APPLIED);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "other", "a");
    assert_int_equal(run->task.retry_max, 300);
    assert_int_equal(run->retry_count, 1);
    assert_int_equal(run->task.payload_size, 4);
    assert_memory_equal(run->task.payload, "next", 4);
    assert_string_equal(run->task.queue, "other");
    assert_string_equal(run->task.unique_key, THERE LOCK);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
    assert_int_equal(test_redis_count(server(), "EXISTS " HERE LOCK " " THERE LOCK), 0);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", fence_of_a_task_that_goes_elsewhere_grows),
    CONTRACT_TEST_ONLY("redis", key_of_the_wrong_type_there_keeps_the_task_in_its_queue),
    CONTRACT_TEST_ONLY("redis", broken_message_costs_its_own_task),
    CONTRACT_TEST_ONLY("redis", hash_of_the_wrong_type_costs_its_own_task),
    CONTRACT_TEST_ONLY("redis", fields_in_another_order_are_replaced),
};
CONTRACT_MAIN(tests)
