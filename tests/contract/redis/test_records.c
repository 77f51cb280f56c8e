/* SPDX-License-Identifier: MIT */
/* test_records.c - records of workers that are many, damaged or too large: each costs itself, and
 * the tasks of a dead worker come back all the same. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#include "lib_store.h"

#define Q "asynq:{default}:"
#define HUGE "67108865" /* more than a reply with records may have */

static const struct contract_worker dead = {.id = "dead", .is_dead = true};

static struct test_redis *server(void)
{
    return test_store_server();
}

/* Leases the tasks of the queue as a worker whose process is gone; they have started. */
static void die_with(struct contract *c, size_t count)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    contract_heartbeat_as(c->broker, &dead);
    assert_int_equal(contract_lease_as(c, &dead, "default", (uint32_t)count, runs), count);
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(runs[i]);
    }
}

static void plant_huge(const char *key, const char *field)
{
    (void)test_redis_do(server(), "EVAL %s 1 %s %s",
                        "return redis.call('HSET', KEYS[1], ARGV[1], string.rep('x', " HUGE "))",
                        key, field);
}

static void huge_record_of_a_queue_costs_itself_only(struct contract *c)
{
    contract_put_many(c, "default", "t", 3);
    die_with(c, 3);
    plant_huge(Q "quern:workers", "huge");
    assert_int_equal(contract_recover(c, "default"), 3);
    assert_int_equal(contract_inspect(c, "default", "t0000").state, QUERN_TASK_PENDING);
}

/* Then its queues are unknown, so its death counts as a shared one. */
static void huge_record_of_a_dead_worker_costs_itself_only(struct contract *c)
{
    contract_put(c, "default", "t");
    die_with(c, 1);
    plant_huge("asynq:quern:workers", "dead");
    assert_int_equal(contract_recover(c, "default"), 1);
    assert_int_equal(contract_inspect(c, "default", "t").crash_count, 1);
}

static void dead_worker_is_found_among_thousands_of_records(struct contract *c)
{
    static const char script[] =
        "for i = 1, 3000 do redis.call('HSET', KEYS[1], 'w' .. i, i % 3 == 0 and 'damaged' or "
        "1800000000000 .. ' active 01234567-89ab-cdef-0123-456789abcdef:1:1:1 h') end";
    contract_put_many(c, "default", "t", 3);
    die_with(c, 3);
    (void)test_redis_do(server(), "EVAL %s 1 %s", script, Q "quern:workers");
    assert_int_equal(contract_recover(c, "default"), 3);
}

static bool is_mine(const quern_queue_info *queue, void *user)
{
    *(bool *)user = strcmp(queue->name, "default") == 0;
    return true;
}

/* As the keeper of a worker looks at its queues. */
static void names_of_thousands_of_queues_cost_a_worker_nothing(struct contract *c)
{
    static const char script[] =
        "for i = 1, 100000 do redis.call('SADD', KEYS[1], 'a' .. i) end return 1";
    static const char *const queues[] = {"default"};
    enum { COMMANDS_MAX = 100 };
    bool found = false;
    quern_error err = {0};
    contract_put(c, "default", "t");
    (void)test_redis_do(server(), "EVAL %s 1 asynq:queues", script);
    (void)test_redis_do(server(), "CONFIG RESETSTAT");
    assert_ok(qn_broker_queues(c->broker, &(struct qn_names){queues, 1}, is_mine, &found, &err),
              err);
    assert_true(found);
    const char *stats = test_redis_do(server(), "INFO stats");
    const char *line = strstr(stats, "total_commands_processed:");
    assert_non_null(line);
    assert_true(strtoll(strchr(line, ':') + 1, NULL, 10) < COMMANDS_MAX);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", names_of_thousands_of_queues_cost_a_worker_nothing),
    CONTRACT_TEST_ONLY("redis", huge_record_of_a_queue_costs_itself_only),
    CONTRACT_TEST_ONLY("redis", huge_record_of_a_dead_worker_costs_itself_only),
    CONTRACT_TEST_ONLY("redis", dead_worker_is_found_among_thousands_of_records),
};
CONTRACT_MAIN(tests)
