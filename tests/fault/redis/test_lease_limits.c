/* SPDX-License-Identifier: MIT */
/* test_lease_limits.c - where one exchange stops: large messages, messages that no decoder can
 * read, and a part of a request that the server gets twice. */
#include "lib_test.h"

#include <stdlib.h>
#include <string.h>

#include "broker/redis/redis.h"
#include "broker/redis/run/lease_lua.h"
#include "lib_queue.h"
#include "redis/pipeline.h"
#include "task/limits.h"

static void put_large(const char *id, const void *payload, size_t size)
{
    struct qn_task task = test_task(id);
    task.payload = payload;
    task.payload_size = size;
    assert_int_equal(enqueue(&task), QUERN_OK);
}

static void put_unreadable(const char *id)
{
    (void)test_redis_do(&redis, "HSET " Q "t:%s msg x state pending", id);
    (void)test_redis_do(&redis, "LPUSH " Q "pending %s", id);
}

static void large_messages_come_a_few_at_a_time(void **state)
{
    (void)state;
    struct batch batch;
    char *payload = calloc(1, QN_BATCH_BYTES_MAX / 2);
    assert_non_null(payload);
    const char *const ids[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        put_large(ids[i], payload, QN_BATCH_BYTES_MAX / 2);
    }
    free(payload);
    lease(5, &batch);
    assert_int_equal(batch.count, 2);
    assert_true(batch.more);
    expect(&batch, 1, "b");
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 2);
    free_batch(&batch);
    lease(5, &batch);
    assert_int_equal(batch.count, 2);
    expect(&batch, 0, "c");
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 0);
    free_batch(&batch);
    lease(5, &batch);
    assert_int_equal(batch.count, 0);
    assert_false(batch.more);
}

static void unreadable_messages_end_an_exchange_some_time(void **state)
{
    (void)state;
    struct batch batch;
    char id[24];
    for (int i = 0; i < 1200; i++) {
        (void)snprintf(id, sizeof id, "bad%d", i);
        put_unreadable(id);
    }
    put("a");
    lease(4, &batch);
    assert_int_equal(batch.count, 0);
    assert_true(batch.more);
    long long aside = test_redis_count(&redis, "ZCARD " Q "archived");
    assert_in_range(aside, QN_PRUNE_BATCH_MAX, 2 * QN_PRUNE_BATCH_MAX);
    for (int i = 0; i < 3 && batch.more; i++) {
        lease(4, &batch);
    }
    assert_int_equal(batch.count, 1);
    expect(&batch, 0, "a");
    free_batch(&batch);
}

static void crowd_of_ids_without_a_task_is_dropped_without_delay(void **state)
{
    (void)state;
    struct batch batch;
    for (int i = 0; i < 1200; i++) {
        (void)test_redis_do(&redis, "LPUSH " Q "pending ghost%d", i);
    }
    put("a");
    for (int i = 0; i < 2; i++) {
        lease(4, &batch);
        assert_int_equal(batch.count, 0);
        assert_true(batch.more);
    }
    lease(4, &batch);
    assert_int_equal(batch.count, 1);
    expect(&batch, 0, "a");
    assert_false(batch.more);
    free_batch(&batch);
}

/* The second part of a request, again, out of a connection that was given up. */
static void part_that_comes_twice_leases_nothing(void **state)
{
    (void)state;
    struct batch batch;
    put_unreadable("bad");
    put("a");
    put("b");
    put("c");
    put("d");
    assert_ok(lease_with((struct qn_stamp){9, 1}, 2, &batch), err);
    assert_int_equal(batch.count, 2);
    (void)test_redis_do(&redis, "EVAL %s 1 " Q " 0000000000000009 1 1 1 30000 1 1 123 w",
                        qn_lua_lease.text);
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 2);
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "active"), 2);
    free_batch(&batch);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, queue_set_up, queue_tear_down)
static const struct CMUnitTest tests[] = {
    TEST(large_messages_come_a_few_at_a_time),
    TEST(unreadable_messages_end_an_exchange_some_time),
    TEST(crowd_of_ids_without_a_task_is_dropped_without_delay),
    TEST(part_that_comes_twice_leases_nothing),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_lease_limits", .tests = tests, .test_count = TEST_COUNT(tests)};
    int result = test_main(argc, argv, &group);
    test_redis_stop(&redis);
    return result;
}
