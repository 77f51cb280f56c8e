/* SPDX-License-Identifier: MIT */
/* test_semaphore.c - semaphores of asynq's x/rate: each run of a queue that has one holds a token
 * in asynq:sema:<name>, beside the handlers of Go. The rest: limit/test_semaphore.c. */
#include "lib_contract.h"

#include <string.h>

#include "broker/limit/limit.h"
#include "lib_store.h"

#define KEY "asynq:sema:smtp"

static struct test_redis *server(void)
{
    return test_store_server();
}

static quern_status try_set(struct contract *c, const char *queue, const char *name, int64_t count)
{
    const quern_limit limit = {
        .queue = queue, .scope = QUERN_LIMIT_SEMAPHORE, .name = name, .count = count};
    return qn_broker_set_limit(c->broker, &limit, NULL);
}

static void set(struct contract *c, const char *queue, int64_t count)
{
    assert_int_equal(try_set(c, queue, "smtp", count), QUERN_OK);
}

static quern_status unset(struct contract *c, const char *queue, const char *name)
{
    const struct qn_limit_owner owner = {queue, QUERN_LIMIT_SEMAPHORE, name};
    return qn_broker_remove_limit(c->broker, &owner, NULL);
}

static long long held(void)
{
    return test_redis_count(server(), "ZCARD " KEY);
}

/* A handler of Go takes a token until so many seconds from now; as x/rate does it. */
static void go_takes(const char *id, int seconds)
{
    char command[128];
    (void)snprintf(command, sizeof command, "ZADD " KEY " %lld %s",
                   (long long)(CONTRACT_NOW_MS / 1000 + seconds), id);
    (void)test_redis_do(server(), command);
}

static void done(struct contract *c, struct qn_leased *run)
{
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
}

/* --- How many run ---------------------------------------------------------------------- */

static void runs_of_a_queue_hold_tokens_beside_those_of_go(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, "default", 3);
    go_takes("of-go", 1000);
    contract_put_many(c, "default", "a", 5);
    assert_int_equal(contract_lease(c, "default", 8, runs), 2);
    assert_int_equal(held(), 3);
    assert_int_equal(test_redis_count(server(), "ZSCORE " KEY " asynq:{default}:t:a0000"),
                     (CONTRACT_NOW_MS + CONTRACT_LEASE_MS) / 1000);
    assert_int_equal(contract_lease(c, "default", 8, runs + 2), 0);
    assert_true(c->wait_ms > 0 && c->wait_ms <= 1000);
    (void)test_redis_do(server(), "ZREM " KEY " of-go");
    assert_int_equal(contract_lease(c, "default", 8, runs + 2), 1);
    for (int i = 0; i < 3; i++) {
        done(c, runs[i]);
    }
    assert_int_equal(held(), 0);
}

/* --- Beside the limit of all queues ------------------------------------------------------ */

static void set_of(struct contract *c, const char *queue, int64_t count)
{
    quern_error err = {0};
    const quern_limit limit = {
        .queue = queue, .scope = QUERN_LIMIT_QUEUE, .name = "", .count = count};
    assert_ok(qn_broker_set_limit(c->broker, &limit, &err), err);
}

static void new_queue_with_a_limit_of_its_own_is_bound_by_that_of_all(struct contract *c)
{
    struct qn_leased *runs[8];
    set_of(c, QUERN_ALL_QUEUES, 1);
    set_of(c, "new", 5);
    contract_put(c, "default", "a");
    contract_put_many(c, "new", "n", 2);
    assert_int_equal(contract_lease(c, "default", 8, runs), 1);
    assert_int_equal(contract_lease(c, "new", 8, runs + 1), 0);
    done(c, runs[0]);
    assert_int_equal(contract_lease(c, "new", 8, runs), 1);
    done(c, runs[0]);
}

static void garbage_for_the_limit_of_all_queues_stops_none(struct contract *c)
{
    struct qn_leased *runs[8];
    (void)test_redis_do(server(), "SET asynq:quern:limit:set garbage");
    contract_put_many(c, "default", "a", 2);
    assert_int_equal(contract_lease(c, "default", 1, runs), 1);
    set(c, "default", 2);
    assert_int_equal(contract_lease(c, "default", 1, runs + 1), 1);
    (void)test_redis_do(server(), "DEL asynq:quern:limit:set");
    (void)test_redis_do(server(), "HSET asynq:quern:limit:set 4 garbage");
    contract_put(c, "other", "b");
    assert_int_equal(contract_lease(c, "other", 1, runs + 2), 1);
    for (int i = 0; i < 3; i++) {
        done(c, runs[i]);
    }
}

/* --- How tokens end -------------------------------------------------------------------- */

static void token_ends_with_its_lease_and_one_of_go_with_its_deadline(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, "default", 1);
    set(c, "other", 1);
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
    struct qn_leased *lost = contract_take(c, "default");
    contract_advance(c, CONTRACT_LEASE_MS - 1000);
    assert_int_equal(contract_lease(c, "other", 8, runs), 0);
    contract_advance(c, 3000);
    assert_int_equal(contract_lease(c, "other", 8, runs), 1);
    assert_int_equal(held(), 1);
    done(c, runs[0]);
    qn_leased_free(lost);
    go_takes("of-go", (int)(CONTRACT_LEASE_MS / 1000) + 5);
    contract_put(c, "other", "c");
    assert_int_equal(contract_lease(c, "other", 8, runs), 0);
    contract_advance(c, 5000);
    assert_int_equal(contract_lease(c, "other", 8, runs), 1);
    done(c, runs[0]);
}

static void token_is_extended_with_its_lease(struct contract *c)
{
    struct qn_leased *runs[8];
    quern_error err = {0};
    set(c, "default", 1);
    set(c, "other", 1);
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
    struct qn_leased *run = contract_take(c, "default");
    contract_advance(c, CONTRACT_LEASE_MS - 1000);
    struct qn_extension extension = {.run = run};
    assert_ok(qn_broker_extend(c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
    assert_true(extension.held);
    contract_advance(c, CONTRACT_LEASE_MS - 1000);
    assert_int_equal(contract_lease(c, "other", 8, runs), 0);
    done(c, run);
    assert_int_equal(contract_lease(c, "other", 8, runs), 1);
    done(c, runs[0]);
}

static void semaphore_that_is_set_while_tasks_run_counts_them(struct contract *c)
{
    struct qn_leased *runs[8];
    contract_put_many(c, "default", "a", 4);
    assert_int_equal(contract_lease(c, "default", 2, runs), 2);
    set(c, "default", 3);
    assert_int_equal(held(), 2);
    assert_int_equal(contract_lease(c, "default", 8, runs + 2), 1);
    assert_int_equal(unset(c, "default", "smtp"), QUERN_OK);
    assert_int_equal(held(), 0);
    assert_int_equal(unset(c, "default", "smtp"), QUERN_E_NOT_FOUND);
    assert_int_equal(test_redis_count(server(), "HEXISTS asynq:{default}:quern:meta sema"), 0);
    assert_int_equal(contract_lease(c, "default", 8, runs + 3), 1);
    for (int i = 0; i < 4; i++) {
        done(c, runs[i]);
    }
}

/* As asynq's dequeue leaves it: its handler takes a token itself. */
static void run_of_go_gets_no_token_of_ours(struct contract *c)
{
    contract_put(c, "default", "a");
    (void)test_redis_do(server(), "RPOPLPUSH asynq:{default}:pending asynq:{default}:active");
    (void)test_redis_do(server(), "HSET asynq:{default}:t:a state active");
    (void)test_redis_do(server(), "HDEL asynq:{default}:t:a pending_since");
    (void)test_redis_do(server(), "ZADD asynq:{default}:lease 1800000030 a");
    set(c, "default", 1);
    assert_int_equal(held(), 0);
}

/* --- The rest -------------------------------------------------------------------------- */

static bool on_limit(const quern_limit *limit, void *user)
{
    char *line = user;
    assert_int_equal(limit->scope, QUERN_LIMIT_SEMAPHORE);
    (void)snprintf(line + strlen(line), 64, "%s %s %lld/%lld;", limit->queue, limit->name,
                   (long long)limit->used, (long long)limit->count);
    return true;
}

static void semaphores_are_listed_with_all_who_hold_a_token(struct contract *c)
{
    char lines[512] = "";
    quern_error err = {0};
    set(c, "default", 7);
    set(c, "other", 5);
    go_takes("of-go", 1000);
    go_takes("of-a-dead-one", -10);
    contract_put(c, "default", "a");
    struct qn_leased *run = contract_take(c, "default");
    assert_ok(qn_broker_limits(c->broker, NULL, on_limit, lines, &err), err);
    assert_string_equal(lines, "default smtp 2/7;other smtp 2/5;");
    done(c, run);
}

static void garbage_costs_its_own_semaphore_only(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, "default", 1);
    (void)test_redis_do(server(), "SET " KEY " garbage");
    contract_put_many(c, "default", "a", 2);
    assert_int_equal(contract_lease(c, "default", 1, runs), 1);
    done(c, runs[0]);
    (void)test_redis_do(server(), "HSET asynq:{default}:quern:meta sema garbage");
    (void)test_redis_do(server(), "HSET asynq:{default}:quern:limit:set 4 garbage");
    assert_int_equal(contract_lease(c, "default", 1, runs), 1);
    done(c, runs[0]);
    (void)test_redis_do(server(), "DEL " KEY);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", runs_of_a_queue_hold_tokens_beside_those_of_go),
    CONTRACT_TEST_ONLY("redis", new_queue_with_a_limit_of_its_own_is_bound_by_that_of_all),
    CONTRACT_TEST_ONLY("redis", garbage_for_the_limit_of_all_queues_stops_none),
    CONTRACT_TEST_ONLY("redis", token_ends_with_its_lease_and_one_of_go_with_its_deadline),
    CONTRACT_TEST_ONLY("redis", token_is_extended_with_its_lease),
    CONTRACT_TEST_ONLY("redis", semaphore_that_is_set_while_tasks_run_counts_them),
    CONTRACT_TEST_ONLY("redis", run_of_go_gets_no_token_of_ours),
    CONTRACT_TEST_ONLY("redis", semaphores_are_listed_with_all_who_hold_a_token),
    CONTRACT_TEST_ONLY("redis", garbage_costs_its_own_semaphore_only),
};

CONTRACT_MAIN(tests)
