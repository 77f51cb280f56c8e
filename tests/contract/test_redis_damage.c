/* SPDX-License-Identifier: MIT */
/* test_redis_damage.c - what stands in Redis is garbage: it costs one task, or one queue its
 * service, but never the other queues of the same worker. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#define Q "asynq:{default}:"

static struct test_redis *server(void)
{
    return test_place_server();
}

/* One exchange that asks for a run of each: of the damaged queue first, then of the other. */
static void take_both(struct contract *c, struct qn_leased *runs[2])
{
    struct qn_queue_turn turns[] = {{.name = "default", .weight = 1, .quota = 1},
                                    {.name = "other", .weight = 1, .quota = 1}};
    struct qn_exchange exchange = {
        .queues = turns, .queue_count = 2, .room = 2, .start_count_now = 2, .suspect_max = 2};
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 2);
}

/* --- quern:meta ---------------------------------------------------------------------- */

static void fence_that_is_no_number_stops_no_queue_and_is_mended(struct contract *c)
{
    static const char *const fences[] = {
        "",
        "x",
        "nan",
        "-1",
        "-9999999999999999999",
        "zzzzzzzzzzzzzzzz",
        "zzzzzzzzzzzzzzzzzzzz",
        "1800000000000000.5",
        "0x7fffffffffffffff",
        "nannannannannannannan",
        "00000000000000000000005",
        "9999999999999999",
        "99999999999999999999",
        "9999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
    };
    uint64_t last = 0;
    for (size_t i = 0; i < TEST_COUNT(fences); i++) {
        struct qn_leased *runs[2];
        contract_put(c, "default", "a");
        contract_put(c, "other", "b");
        (void)test_redis_do(server(), "HSET " Q "quern:meta fence %s", fences[i]);
        take_both(c, runs);
        assert_string_equal(runs[0]->task.id, "a");
        assert_true(runs[0]->fence >= (uint64_t)CONTRACT_NOW_MS * 1000);
        assert_true(runs[0]->fence < (uint64_t)(CONTRACT_NOW_MS + 60000) * 1000);
        assert_true(runs[0]->fence > last);
        assert_int_equal(test_redis_count(server(), "HGET " Q "quern:meta fence"), runs[0]->fence);
        last = runs[1]->fence;
        assert_int_equal(contract_finish(c, runs[0], QN_DONE), QN_APPLIED);
        assert_int_equal(contract_finish(c, runs[1], QN_DONE), QN_APPLIED);
        contract_advance(c, 1);
    }
}

/* The clock went back. */
static void fence_that_is_ahead_of_the_clock_is_kept(struct contract *c)
{
    (void)test_redis_do(server(), "HSET " Q "quern:meta fence 1900000000000000");
    struct qn_leased *run = contract_start(c, "a");
    assert_true(run->fence == UINT64_C(1900000000000001));
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
}

/* Nobody would ever end such a streak, and it would keep the worker braked. */
static void streak_that_cannot_be_read_is_none(struct contract *c)
{
    static const char *const streaks[] = {"", "x", "nan", "-1 a", "12", "12a", "12:a"};
    for (size_t i = 0; i < TEST_COUNT(streaks); i++) {
        struct qn_leased *runs[2];
        (void)test_redis_do(server(), "HSET " Q "quern:meta streak %s", streaks[i]);
        contract_put(c, "default", "a");
        contract_put(c, "other", "b");
        take_both(c, runs);
        assert_int_equal(contract_finish(c, runs[1], QN_DONE), QN_APPLIED);
        assert_int_equal(contract_finish(c, runs[0], QN_DONE), QN_APPLIED);
        assert_null(contract_take(c, "default"));
        assert_int_equal(c->crash_streak, 0);
    }
    (void)test_redis_do(server(), "HSET " Q "quern:meta streak x");
    assert_int_equal(contract_finish(c, contract_start(c, "a"), QN_CRASH), QN_APPLIED);
    assert_string_equal(test_redis_do(server(), "HGET " Q "quern:meta streak"), "1 a");
}

/* However large it is, the next success ends it. */
static void streak_beyond_all_numbers_ends(struct contract *c)
{
    char digits[401];
    memset(digits, '9', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    (void)test_redis_do(server(), "HSET " Q "quern:meta streak %s", "99999999999 a");
    assert_int_equal(contract_finish(c, contract_start(c, "a"), QN_DONE), QN_APPLIED);
    assert_null(contract_take(c, "default"));
    assert_int_equal(c->crash_streak, 0);
    contract_put(c, "default", "a");
    (void)test_redis_do(server(), "EVAL %s 1 " Q "quern:meta %s",
                        "return redis.call('HSET', KEYS[1], 'streak', ARGV[1] .. ' a')", digits);
    assert_int_equal(contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE), QN_APPLIED);
    assert_null(contract_take(c, "default"));
    assert_int_equal(c->crash_streak, 0);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", fence_that_is_no_number_stops_no_queue_and_is_mended),
    CONTRACT_TEST_ONLY("redis", fence_that_is_ahead_of_the_clock_is_kept),
    CONTRACT_TEST_ONLY("redis", streak_that_cannot_be_read_is_none),
    CONTRACT_TEST_ONLY("redis", streak_beyond_all_numbers_ends),
};
CONTRACT_MAIN(tests)
