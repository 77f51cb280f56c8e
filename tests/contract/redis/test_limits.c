/* SPDX-License-Identifier: MIT */
/* test_limits.c - limits on Redis: which keys they have there, runs of Go, memory that is full,
 * lost replies, a clock that was turned, garbage and wrong types. */
#include "lib_contract.h"

#include <string.h>

#include "broker/limit/limit.h"
#include "lib_store.h"

#define Q "asynq:{default}:"
#define SET Q "quern:limit:set"
#define USE Q "quern:limit:use:1"

static struct test_redis *server(void)
{
    return test_store_server();
}

static void set_limit(struct contract *c, const char *text)
{
    contract_limit(c, "default", QUERN_LIMIT_QUEUE, "", text);
}

/* How many may start now; they are done at once. */
static size_t start_all(struct contract *c)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t count = contract_lease(c, "default", QN_BATCH_MAX, runs);
    for (size_t i = 0; i < count; i++) {
        (void)contract_finish(c, runs[i], QN_DONE);
    }
    return count;
}

static size_t lease_with(struct contract *c, uint64_t sequence, bool again, struct qn_leased **runs)
{
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 8};
    struct qn_exchange exchange = {.stamp = {.session = 1001, .sequence = sequence},
                                   .again = again,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 8,
                                   .start_count_now = 8};
    return contract_exchange(c, &exchange, NULL, runs);
}

/* --- The tests ------------------------------------------------------------------------- */

static void keys_of_limits_go_with_them(struct contract *c)
{
    const struct qn_limit_owner owner = {.queue = "default", .scope = QUERN_LIMIT_QUEUE};
    set_limit(c, "5");
    assert_int_equal(test_redis_count(server(), "SISMEMBER asynq:queues default"), 1);
    assert_int_equal(test_redis_count(server(), "HEXISTS " Q "quern:meta limits"), 1);
    set_limit(c, "5/1s burst 2");
    contract_put(c, "default", "a");
    assert_int_equal(start_all(c), 1);
    long long left_ms = test_redis_count(server(), "PTTL " USE);
    assert_true(left_ms > 0 && left_ms <= 200); /* until it is paid back */
    assert_int_equal(qn_broker_remove_limit(c->broker, &owner, NULL), QUERN_OK);
    assert_int_equal(test_redis_count(server(), "EXISTS " SET), 0);
    assert_int_equal(test_redis_count(server(), "HEXISTS " Q "quern:meta limits"), 0);
}

/* As asynq's dequeue leaves it. */
static void run_of_go_counts_among_those_that_run(struct contract *c)
{
    set_limit(c, "1");
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    (void)test_redis_do(server(), "RPOPLPUSH " Q "pending " Q "active");
    (void)test_redis_do(server(), "HSET " Q "t:a state active");
    (void)test_redis_do(server(), "ZADD " Q "lease 1800000030 a");
    assert_int_equal(start_all(c), 0);
    (void)test_redis_do(server(), "LREM " Q "active 1 a");
    (void)test_redis_do(server(), "ZREM " Q "lease a");
    (void)test_redis_do(server(), "DEL " Q "t:a");
    assert_int_equal(start_all(c), 1);
}

static void full_queue_is_no_work_for_a_sleeping_worker(struct contract *c)
{
    static const char *const limits[] = {"1", "1/1h", "1/1h burst 1"};
    const char *const queue = "default";
    for (size_t i = 0; i < TEST_COUNT(limits); i++) {
        struct qn_leased *runs[2];
        bool work = false;
        int64_t due_at_ms = 0;
        quern_error err = {0};
        test_redis_empty(server());
        set_limit(c, limits[i]);
        contract_put_many(c, "default", "a", 2);
        for (int n = 0; n < 2; n++) {
            assert_ok(
                qn_broker_arm(c->broker, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err),
                err);
            assert_true(work == (n == 0));
            assert_int_equal(contract_lease(c, "default", 2, &runs[n]), n == 0);
        }
        (void)contract_finish(c, runs[0], QN_DONE);
    }
}

static void starts_are_counted_while_the_memory_is_full(struct contract *c)
{
    set_limit(c, "2/1m");
    contract_put_many(c, "default", "a", 5);
    (void)test_redis_do(server(), "CONFIG SET maxmemory 1");
    assert_int_equal(start_all(c), 2);
    assert_int_equal(start_all(c), 0);
    set_limit(c, "3/1m");
    struct qn_leased *run = contract_fetch(c, "default");
    const struct qn_outcome given_back = {
        .run = run, .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK};
    assert_int_equal(contract_end(c, &given_back), QN_APPLIED);
    qn_leased_free(run);
    assert_int_equal(start_all(c), 1);
    assert_int_equal(start_all(c), 0);
    (void)test_redis_do(server(), "CONFIG SET maxmemory 0");
}

static void replay_of_a_lost_reply_uses_no_start(struct contract *c)
{
    struct qn_leased *runs[8];
    struct qn_leased *copies[8];
    set_limit(c, "2");
    set_limit(c, "3/1m");
    contract_put_many(c, "default", "a", 5);
    assert_int_equal(lease_with(c, 5, false, runs), 2);
    for (int n = 0; n < 3; n++) {
        assert_int_equal(lease_with(c, 5, n > 0, copies), 2);
        for (size_t i = 0; i < 2; i++) {
            assert_true(copies[i]->token == runs[i]->token);
            qn_leased_free(copies[i]);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        (void)contract_finish(c, runs[i], QN_DONE);
    }
    assert_int_equal(start_all(c), 1);
}

static void clock_turned_back_gives_nothing_early_and_sticks_nowhere(struct contract *c)
{
    static const char *const limits[] = {"3/1m", "3/1m burst 3"};
    for (size_t i = 0; i < TEST_COUNT(limits); i++) {
        char prefix[8];
        (void)snprintf(prefix, sizeof prefix, "p%zu-", i);
        set_limit(c, limits[i]);
        contract_put_many(c, "default", prefix, 9);
        assert_int_equal(start_all(c), 3);
        contract_advance(c, -3600000);
        assert_int_equal(start_all(c), 0);
        contract_advance(c, 62000); /* nor does it wait for an hour */
        assert_int_equal(start_all(c), 3);
        contract_advance(c, 7200000);
        assert_int_equal(start_all(c), 3);
    }
}

static void garbage_costs_its_limit_only(struct contract *c)
{
    static const char *const commands[] = {
        "HSET " SET " 1r x",
        "HSET " SET " 1s x",
        "HSET " SET " 1r 99999999999999999999999999",
        "HSET " SET " 2rt 1",
        "SET " USE " x",
        "SET " USE " 60000",
        "SET " USE " 60000-0-99999999999999999999999-x",
        "LPUSH " USE " x",
        "DEL " SET,
        "LPUSH " SET " x",
    };
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct qn_leased *runs[QN_BATCH_MAX];
        test_redis_empty(server());
        set_limit(c, "1000");
        set_limit(c, "1000/1m");
        if (strstr(commands[i], "LPUSH " SET) != NULL) {
            (void)test_redis_do(server(), "DEL " SET);
        }
        (void)test_redis_do(server(), commands[i]);
        contract_put_many(c, "default", "a", 3);
        assert_int_equal(contract_lease(c, "default", 8, runs), 3);
        for (size_t k = 0; k < 3; k++) {
            const struct qn_outcome given_back = {
                .run = runs[k], .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK};
            assert_int_equal(contract_end(c, &given_back), QN_APPLIED);
            qn_leased_free(runs[k]);
        }
        set_limit(c, "2"); /* replaces what is no hash */
        assert_int_equal(start_all(c), 2);
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", keys_of_limits_go_with_them),
    CONTRACT_TEST_ONLY("redis", run_of_go_counts_among_those_that_run),
    CONTRACT_TEST_ONLY("redis", full_queue_is_no_work_for_a_sleeping_worker),
    CONTRACT_TEST_ONLY("redis", starts_are_counted_while_the_memory_is_full),
    CONTRACT_TEST_ONLY("redis", replay_of_a_lost_reply_uses_no_start),
    CONTRACT_TEST_ONLY("redis", clock_turned_back_gives_nothing_early_and_sticks_nowhere),
    CONTRACT_TEST_ONLY("redis", garbage_costs_its_limit_only),
};

CONTRACT_MAIN(tests)
