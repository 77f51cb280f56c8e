/* SPDX-License-Identifier: MIT */
/* test_limits_of_all.c - limits of all queues by type, key and starts on Redis: what Go and damage
 * do to them, what a queue notes of them, and a full memory. */
#include "lib_contract.h"

#include <string.h>

#include "broker/limit/limit.h"
#include "lib_store.h"

#define Q "asynq:{default}:"
#define OTHER "asynq:{other}:"
#define SET "asynq:quern:limit:set"

static struct test_redis *server(void)
{
    return test_store_server();
}

static void set(struct contract *c, quern_limit_scope scope, const char *name, const char *text)
{
    contract_limit(c, QUERN_ALL_QUEUES, scope, name, text);
}

static void unset(struct contract *c, quern_limit_scope scope, const char *name)
{
    const struct qn_limit_owner owner = {QUERN_ALL_QUEUES, scope, name};
    assert_int_equal(qn_broker_remove_limit(c->broker, &owner, NULL), QUERN_OK);
}

static void put(struct contract *c, const char *queue, const char *id)
{
    contract_enqueue(c, &(quern_task){.queue = queue, .type = "t", .id = id, .limit_key = "k"});
}

static void done(struct contract *c, struct qn_leased *run)
{
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
}

/* A run that has not started. */
static void give_back(struct contract *c, struct qn_leased *run)
{
    const struct qn_outcome given_back = {
        .run = run, .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK};
    assert_non_null(run);
    assert_int_equal(contract_end(c, &given_back), QN_APPLIED);
    qn_leased_free(run);
}

/* "a" of the queue "default" has the only place of its key, for which "b" of "other" waits. */
static struct qn_leased *fill_key(struct contract *c)
{
    set(c, QUERN_LIMIT_KEY, "k", "1");
    put(c, "default", "a");
    put(c, "other", "b");
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_null(contract_take(c, "other"));
    return run;
}

/* The move notes the task's fence in its new queue; that one is new to the limits all the same. */
static void queue_that_begins_with_a_task_that_moved_there_is_bound(struct contract *c)
{
    const struct qn_task_change change = {.queue = "other"};
    set(c, QUERN_LIMIT_KEY, "k", "1");
    put(c, "default", "a");
    put(c, "default", "b");
    struct qn_leased *run = contract_take_id(c, "default", "a");
    const struct qn_outcome outcome = {
        .run = run, .kind = QN_SNOOZE, .started = true, .change = &change};
    assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
    qn_leased_free(run);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    run = contract_take_id(c, "default", "b");
    assert_null(contract_take(c, "other"));
    done(c, run);
    done(c, contract_take_id(c, "other", "a"));
}

/* Its worker was killed, and Go's recoverer, or an operator, took the run away. */
static void place_of_a_run_that_go_ended_comes_back(struct contract *c)
{
    qn_leased_free(fill_key(c));
    (void)test_redis_do(server(), "LREM " Q "active 1 a");
    (void)test_redis_do(server(), "ZREM " Q "lease a");
    (void)test_redis_do(server(), "DEL " Q "t:a");
    qn_leased_free(contract_take_id(c, "other", "b"));
}

/* One that was away while the limit was set: Go's tools had removed it. */
static void queue_that_missed_a_limit_is_bound_when_another_counts(struct contract *c)
{
    struct qn_leased *runs[2];
    contract_put(c, "other", "first");
    done(c, contract_take_id(c, "other", "first"));
    (void)test_redis_do(server(), "SREM asynq:queues other");
    set(c, QUERN_LIMIT_TYPE, "t", "2");
    contract_put_many(c, "default", "a", 2);
    contract_put_many(c, "other", "b", 3);
    assert_int_equal(contract_lease(c, "other", 1, runs), 1);
    assert_int_equal(contract_lease(c, "default", 2, runs + 1), 1);
    assert_null(contract_take(c, "other"));
    done(c, runs[0]);
    qn_leased_free(contract_take_id(c, "other", "b0001"));
    qn_leased_free(runs[1]);
}

static void removed_limits_leave_nothing(struct contract *c)
{
    struct qn_leased *runs[1];
    contract_put_many(c, "default", "a", 3);
    set(c, QUERN_LIMIT_QUEUE, "", "9");
    set(c, QUERN_LIMIT_QUEUE, "", "9/1h");
    set(c, QUERN_LIMIT_TYPE, "*", "9");
    set(c, QUERN_LIMIT_TYPE, "*", "9/1h");
    assert_int_equal(contract_lease(c, "default", 1, runs), 1);
    done(c, runs[0]);
    assert_int_equal(test_redis_count(server(), "HLEN " SET), 5);
    unset(c, QUERN_LIMIT_QUEUE, "");
    unset(c, QUERN_LIMIT_TYPE, "*");
    assert_int_equal(test_redis_count(server(), "EXISTS " SET " " Q "quern:limit:set"), 0);
    assert_int_equal(test_redis_count(server(), "EXISTS " Q "quern:limit:runs"), 0);
    for (int i = 0; i < 3; i++) {
        struct qn_leased *run = contract_take(c, "default");
        assert_int_equal(run != NULL, i < 2);
        if (run != NULL) {
            done(c, run);
        }
    }
    assert_int_equal(test_redis_count(server(), "HEXISTS " Q "quern:meta limits"), 0);
}

/* --- Damage and memory ------------------------------------------------------------------ */

static void garbage_stops_no_queue(struct contract *c)
{
    static const char *const keys[] = {SET,
                                       "asynq:quern:limit:use:1",
                                       "asynq:quern:limit:use:3:k",
                                       OTHER "quern:limit:runs",
                                       OTHER "quern:limit:set",
                                       OTHER "lease"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        test_redis_empty(server());
        set(c, QUERN_LIMIT_KEY, "*", "5");
        set(c, QUERN_LIMIT_KEY, "k", "5/1h");
        set(c, QUERN_LIMIT_QUEUE, "", "5/1h");
        put(c, "default", "a");
        put(c, "other", "b");
        done(c, contract_take_id(c, "other", "b"));
        (void)test_redis_do(server(), "DEL %s", keys[i]);
        (void)test_redis_do(server(), "LPUSH %s garbage", keys[i]);
        give_back(c, contract_fetch(c, "default"));
        done(c, contract_take_id(c, "default", "a"));
    }
}

static void limits_hold_while_the_memory_is_full(struct contract *c)
{
    put(c, "default", "a");
    put(c, "other", "b");
    (void)test_redis_do(server(), "CONFIG SET maxmemory 1");
    set(c, QUERN_LIMIT_KEY, "*", "1");
    set(c, QUERN_LIMIT_QUEUE, "", "2/1h");
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_null(contract_take(c, "other"));
    done(c, run);
    give_back(c, contract_fetch(c, "other"));
    done(c, contract_take_id(c, "other", "b"));
    (void)test_redis_do(server(), "CONFIG SET maxmemory 0");
    contract_put(c, "other", "c");
    assert_null(contract_take(c, "other"));
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", queue_that_begins_with_a_task_that_moved_there_is_bound),
    CONTRACT_TEST_ONLY("redis", place_of_a_run_that_go_ended_comes_back),
    CONTRACT_TEST_ONLY("redis", queue_that_missed_a_limit_is_bound_when_another_counts),
    CONTRACT_TEST_ONLY("redis", removed_limits_leave_nothing),
    CONTRACT_TEST_ONLY("redis", garbage_stops_no_queue),
    CONTRACT_TEST_ONLY("redis", limits_hold_while_the_memory_is_full),
};

CONTRACT_MAIN(tests)
