/* SPDX-License-Identifier: MIT */
/* test_crowd.c - many thousands of leases expire at once, half of them a Go worker's, which are in
 * their grace time: ours are recovered in bounded steps, past all of those. */
#include "lib_worker.h"

#include <stdlib.h>

#include "task/limits.h"

enum { LEASE_S = 30, GRACE_S = 30, STEP = 128 };

static const char *const queue = "default";

static void lease_all(struct rig *rig, size_t count)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    quern_error err = {0};
    for (size_t leased = 0; leased < count;) {
        struct qn_queue_share share = {.name = queue, .weight = 1, .quota = QN_BATCH_MAX};
        struct qn_exchange exchange = {.worker_id = "w",
                                       .lease_ms = LEASE_S * 1000,
                                       .queues = &share,
                                       .queue_count = 1,
                                       .room = QN_BATCH_MAX,
                                       .start_count_now = QN_BATCH_MAX};
        struct qn_exchange_reply reply = {.runs = runs};
        assert_ok(qn_broker_exchange(rig->broker, &exchange, &reply, &err), err);
        assert_true(reply.run_count > 0);
        for (size_t i = 0; i < reply.run_count; i++) {
            qn_leased_free(runs[i]);
        }
        leased += reply.run_count;
    }
}

/* As Go's dequeue leaves them: every second one, so that ours lie between them. */
static void make_half_go(void)
{
    static const char script[] =
        "local ids = redis.call('LRANGE', KEYS[1] .. 'active', 0, -1)"
        "for i = 1, #ids, 2 do"
        "  redis.call('HDEL', KEYS[1] .. 't:' .. ids[i], 'pending_since', 'quern_run')"
        " end";
    (void)test_redis_do(test_store_server(), "EVAL %s 1 asynq:{default}:", script);
}

/* Until a step finds nothing more. */
static size_t recover_all(struct rig *rig)
{
    quern_error err = {0};
    size_t total = 0;
    size_t recovered = STEP;
    for (size_t step = 0; recovered > 0; step++) {
        assert_true(step < 10000);
        assert_ok(qn_broker_recover(rig->broker, (struct qn_upkeep){{&queue, 1}, STEP}, NULL,
                                    &recovered, &err),
                  err);
        assert_true(recovered <= STEP);
        total += recovered;
    }
    return total;
}

static void crowd_of_expired_leases_is_recovered_in_steps(void **state)
{
    (void)state;
    size_t count = test_full() ? 200000 : 10000;
    struct rig *rig = rig_new(true);
    rig_put_many(rig, NULL, "n", count);
    lease_all(rig, count);
    make_half_go();
    rig_advance(rig, LEASE_S * 1000 - 1);
    assert_int_equal(recover_all(rig), 0);
    rig_advance(rig, 3000);
    assert_int_equal(recover_all(rig), count / 2);
    assert_int_equal(rig_queue(rig, queue).counts[QUERN_TASK_PENDING], count / 2);
    rig_advance(rig, GRACE_S * 1000);
    assert_int_equal(recover_all(rig), count / 2);
    assert_int_equal(rig_queue(rig, queue).counts[QUERN_TASK_ACTIVE], 0);
    assert_int_equal(rig_queue(rig, queue).size, count);
    assert_int_equal(test_redis_count(test_store_server(), "ZCARD asynq:{default}:lease"), 0);
    rig_free(rig);
}

static bool is_recovered(void *user)
{
    (void)user;
    return test_redis_count(test_store_server(), "ZCARD asynq:{default}:lease") == 0;
}

/* At the pace of a queue that is asked once a second for a batch it would take 8 s. */
static void damaged_queue_does_not_slow_down_recovery_of_others(void **state)
{
    (void)state;
    static const quern_queue queues[] = {{.name = "bad", .weight = 1},
                                         {.name = "default", .weight = 1}};
    enum { COUNT = 2000, LONGEST_MS = 5000 };
    struct rig *rig = rig_new(true);
    struct rig_worker worker;
    rig_put_many(rig, NULL, "n", COUNT);
    lease_all(rig, COUNT);
    rig_advance(rig, 2 * LEASE_S * 1000);
    (void)test_redis_do(test_store_server(), "SET asynq:{bad}:pending x");
    (void)test_redis_do(test_store_server(), "SET asynq:{default}:paused 1");
    int64_t begin_ms = test_now_ms();
    rig_start(rig, &worker,
              &(quern_worker_options){.concurrency = 1, .queues = queues, .queue_count = 2});
    assert_true(test_until(is_recovered, NULL));
    assert_true(test_now_ms() - begin_ms < LONGEST_MS);
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", crowd_of_expired_leases_is_recovered_in_steps),
    TEST_ONLY_OVER("redis", damaged_queue_does_not_slow_down_recovery_of_others),
};
TEST_MAIN_OVER_BROKERS(tests)
