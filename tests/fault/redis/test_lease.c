/* SPDX-License-Identifier: MIT */
/* test_lease.c - the keys of a lease in Redis, one by one, and its treatment of data of Go's and of
 * damage. */
#include "lib_test.h"

#include <stdlib.h>
#include <string.h>

#include "broker/redis/redis.h"
#include "lib_queue.h"
#include "message/asynq/asynq.h"
#include "task/limits.h"

static struct qn_arena arena;

static int tear_down(void **state)
{
    qn_arena_finish(&arena);
    return queue_tear_down(state);
}

/* As Go enqueues; deadline_at_ms: 0 for none. */
static void put_by_go(const char *id, int64_t deadline_at_ms)
{
    const struct qn_asynq_task message = {.type = "t",
                                          .id = id,
                                          .queue = "default",
                                          .retry_max = 25,
                                          .timeout_ms = 60000,
                                          .deadline_at_ms = deadline_at_ms};
    struct qn_bytes bytes;
    assert_ok(qn_asynq_task_encode(&arena, &message, &bytes, &err), err);
    (void)test_redis_do(&redis, "SADD asynq:queues default");
    (void)test_redis_do(&redis, "HSET " Q "t:%s msg %b state pending pending_since %lld", id,
                        bytes.data, bytes.size, (long long)(NOW_MS - 5000) * 1000000);
    (void)test_redis_do(&redis, "LPUSH " Q "pending %s", id);
}

/* --- What is written ------------------------------------------------------------------ */

static void lease_writes_what_go_reads_and_our_token(void **state)
{
    (void)state;
    struct batch batch;
    char token[24];
    put("a");
    put("b");
    test_redis_turn(&redis, NOW_MS * 1000 + 500250);
    lease(2, &batch);
    assert_int_equal(batch.count, 2);
    assert_string_equal(test_redis_do(&redis, "LRANGE " Q "active 0 -1"), "b\na\n");
    assert_string_equal(test_redis_do(&redis, "ZSCORE " Q "lease a"), "1800000031");
    assert_int_equal(test_redis_count(&redis, "EXISTS " Q "pending"), 0);
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(token, sizeof token, "%llu", (unsigned long long)batch.runs[i]->token);
        assert_string_equal(field(batch.runs[i]->task.id, "pending_since"), token);
        assert_int_equal(batch.runs[i]->fence, NOW_MS * 1000 + 500250 + (int64_t)i);
        assert_int_equal(batch.runs[i]->token / 1000, batch.runs[i]->fence);
    }
    assert_string_equal(field("a", "state"), "active");
    assert_string_equal(field("a", "quern_run"),
                        "1 1800000000500 1800000000000000000 1800000030500 host:1:worker");
    assert_string_equal(field("b", "quern_run"),
                        "0 0 1800000000000000000 1800000030500 host:1:worker");
    free_batch(&batch);
}

static void fence_grows_when_the_clock_of_the_server_goes_back(void **state)
{
    (void)state;
    struct batch batch;
    uint64_t fence = 0;
    for (int i = 0; i < 3; i++) {
        test_redis_turn(&redis, (NOW_MS - i * 10000) * 1000);
        put(i == 0 ? "a" : i == 1 ? "b" : "c");
        lease(1, &batch);
        assert_int_equal(batch.count, 1);
        assert_true(batch.runs[0]->fence > fence);
        fence = batch.runs[0]->fence;
        free_batch(&batch);
    }
}

/* --- What is found -------------------------------------------------------------------- */

static void task_of_go_is_leased_with_what_go_means(void **state)
{
    (void)state;
    struct batch batch;
    put_by_go("a", 0);
    lease(1, &batch);
    expect(&batch, 0, "a");
    assert_int_equal(batch.runs[0]->task.timeout_ms, 60000);
    assert_int_equal(batch.runs[0]->task.process_at_ms, NOW_MS - 5000);
    assert_int_equal(batch.runs[0]->cause, QUERN_CAUSE_NONE);
    free_batch(&batch);
}

/* Go's Inspector does not write the moment. */
static void task_without_moment_is_leased_as_pending_since_now(void **state)
{
    (void)state;
    struct batch batch;
    put_by_go("a", 0);
    (void)test_redis_do(&redis, "HDEL " Q "t:a pending_since");
    lease(1, &batch);
    expect(&batch, 0, "a");
    assert_int_equal(batch.runs[0]->task.process_at_ms, NOW_MS);
    free_batch(&batch);
}

static void ids_without_task_are_dropped(void **state)
{
    (void)state;
    struct batch batch;
    (void)test_redis_do(&redis, "LPUSH " Q "pending ghost");
    put("a");
    (void)test_redis_do(&redis, "LPUSH " Q "pending ghost2");
    (void)test_redis_do(&redis, "HSET " Q "t:stub state active");
    (void)test_redis_do(&redis, "LPUSH " Q "pending stub");
    (void)test_redis_do(&redis, "SET " Q "t:text x");
    (void)test_redis_do(&redis, "LPUSH " Q "pending text");
    put("b");
    lease(5, &batch);
    assert_int_equal(batch.count, 2);
    expect(&batch, 0, "a");
    expect(&batch, 1, "b");
    assert_int_equal(test_redis_count(&redis, "EXISTS " Q "pending"), 0);
    assert_int_equal(test_redis_count(&redis, "EXISTS " Q "t:ghost"), 0);
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "active"), 2);
    assert_int_equal(test_redis_count(&redis, "ZCARD " Q "lease"), 2);
    free_batch(&batch);
}

static void ghosts_alone_are_dropped_too(void **state)
{
    (void)state;
    struct batch batch;
    (void)test_redis_do(&redis, "LPUSH " Q "pending g1 g2 g3");
    lease(2, &batch);
    assert_int_equal(batch.count, 0);
    assert_int_equal(test_redis_count(&redis, "EXISTS " Q "pending " Q "active " Q "lease"), 0);
}

static void id_that_is_twice_in_pending_is_leased_once(void **state)
{
    (void)state;
    struct batch batch;
    struct batch later;
    put("a");
    (void)test_redis_do(&redis, "LPUSH " Q "pending a a");
    lease(2, &batch);
    assert_int_equal(batch.count, 1);
    (void)test_redis_do(&redis, "LPUSH " Q "pending a");
    lease(2, &later);
    assert_int_equal(later.count, 0);
    assert_int_equal(test_redis_count(&redis, "EXISTS " Q "pending"), 0);
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "active"), 1);
    free_batch(&batch);
}

/* Its state was damaged, but it is nowhere else. */
static void task_that_is_only_in_pending_is_leased_whatever_its_state(void **state)
{
    (void)state;
    struct batch batch;
    put("a");
    put("b");
    (void)test_redis_do(&redis, "HSET " Q "t:a state active");
    (void)test_redis_do(&redis, "HSET " Q "t:b state nonsense!");
    lease(2, &batch);
    assert_int_equal(batch.count, 2);
    assert_string_equal(field("b", "state"), "active");
    free_batch(&batch);
}

static void late_tasks_of_go_are_archived_and_do_not_take_the_room(void **state)
{
    (void)state;
    struct batch batch;
    char id[24];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(id, sizeof id, "late%d", i);
        put_by_go(id, NOW_MS - 1000);
    }
    put_by_go("a", 0);
    put_by_go("b", 0);
    lease(2, &batch);
    assert_int_equal(batch.count, 2);
    expect(&batch, 0, "a");
    assert_true(batch.runs[0]->started);
    expect(&batch, 1, "b");
    assert_false(batch.runs[1]->started);
    assert_string_equal(test_redis_do(&redis, "ZCARD " Q "archived"), "5");
    assert_string_equal(test_redis_do(&redis, "GET " Q "failed"), "5");
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "active"), 2);
    assert_int_equal(strncmp(field("a", "quern_run"), "1 ", 2), 0);
    assert_int_equal(strncmp(field("b", "quern_run"), "0 ", 2), 0);
    free_batch(&batch);
}

static void unreadable_messages_are_archived_where_go_reads_them(void **state)
{
    (void)state;
    struct batch batch;
    put("a");
    put("other");
    (void)test_redis_do(&redis, "COPY " Q "t:a " Q "t:stranger");
    (void)test_redis_do(&redis, "HSET " Q "t:bad msg %b state pending", "\xff\xff", (size_t)2);
    (void)test_redis_do(&redis, "HSET " Q "t:%b msg x state pending", "n\0l", (size_t)3);
    (void)test_redis_do(&redis, "RPUSH " Q "pending stranger bad");
    (void)test_redis_do(&redis, "RPUSH " Q "pending %b", "n\0l", (size_t)3);
    lease(2, &batch);
    assert_int_equal(batch.count, 2);
    expect(&batch, 0, "a");
    expect(&batch, 1, "other");
    assert_int_equal(test_redis_count(&redis, "ZCARD " Q "archived"), 3);
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "active"), 2);
    assert_int_equal(test_redis_count(&redis, "GET " Q "failed"), 3);
    assert_string_equal(field("bad", "state"), "archived");
    assert_string_equal(field("bad", "pending_since"), "(nil)");
    /* The message that was, as the payload of one that can be read. */
    assert_memory_equal(field("bad", "msg"), "\x0a\x10quern:unreadable\x12\x02\xff\xff", 22);
    free_batch(&batch);
}

/* --- Suspects ------------------------------------------------------------------------- */

static void passed_suspects_keep_their_place_at_the_head(void **state)
{
    (void)state;
    struct batch batch;
    const char *const ids[] = {"a", "s1", "b", "s2", "s3", "c", "s4"};
    (void)test_redis_do(&redis, "HSET " Q "quern:meta charged 1");
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        put(ids[i]);
        if (ids[i][0] == 's') {
            (void)test_redis_do(&redis, "HSET " Q "t:%s quern_past %s", ids[i],
                                "1 1799999999000 0 0 5 0");
        }
    }
    lease(4, &batch);
    assert_int_equal(batch.count, 4);
    expect(&batch, 0, "a");
    expect(&batch, 1, "s1");
    expect(&batch, 2, "b");
    expect(&batch, 3, "c");
    assert_int_equal(batch.runs[1]->crash_count, 1);
    assert_int_equal(batch.runs[1]->cause, QUERN_CAUSE_CHILD_DIED);
    assert_string_equal(test_redis_do(&redis, "LRANGE " Q "pending 0 -1"), "s4\ns3\ns2\n");
    free_batch(&batch);
}

static void scan_for_others_than_suspects_is_bounded(void **state)
{
    (void)state;
    struct batch batch;
    char id[24];
    put("first");
    (void)test_redis_do(&redis, "HSET " Q "quern:meta charged 1");
    (void)test_redis_do(&redis, "HSET " Q "t:first quern_past %s", "1 0 0 0 5 0");
    for (int i = 0; i < 600; i++) {
        (void)snprintf(id, sizeof id, "s%d", i);
        put(id);
        (void)test_redis_do(&redis, "HSET " Q "t:%s quern_past %s", id, "1 0 0 0 5 0");
    }
    put("a");
    lease(4, &batch);
    assert_int_equal(batch.count, 1);
    expect(&batch, 0, "first");
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 601);
    assert_string_equal(test_redis_do(&redis, "LINDEX " Q "pending -1"), "s0");
    free_batch(&batch);
}

/* --- Replays -------------------------------------------------------------------------- */

static void replay_gives_only_runs_that_are_still_ours(void **state)
{
    (void)state;
    struct batch first;
    struct batch again;
    const struct qn_stamp stamp = {9, 1};
    put("a");
    put("b");
    put("c");
    put("d");
    assert_ok(lease_with(stamp, 3, &first), err);
    assert_int_equal(first.count, 3);
    (void)test_redis_do(&redis, "DEL " Q "t:a");
    (void)test_redis_do(&redis, "HSET " Q "t:b pending_since 1800000000000000123");
    assert_ok(lease_with(stamp, 3, &again), err);
    assert_int_equal(again.count, 1);
    expect(&again, 0, "c");
    assert_int_equal(again.runs[0]->token, first.runs[2]->token);
    assert_int_equal(again.runs[0]->task.process_at_ms, first.runs[2]->task.process_at_ms);
    free_batch(&first);
    free_batch(&again);
}

/* The tasks that were put away, and those leased instead in a second part. */
static void replay_knows_all_parts(void **state)
{
    (void)state;
    struct batch first;
    struct batch again;
    const struct qn_stamp stamp = {9, 1};
    put_by_go("late", NOW_MS - 1000);
    put_by_go("a", 0);
    put_by_go("b", 0);
    put_by_go("c", 0);
    assert_ok(lease_with(stamp, 2, &first), err);
    assert_int_equal(first.count, 2);
    assert_ok(lease_with(stamp, 2, &again), err);
    assert_int_equal(again.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(again.runs[i]->task.id, first.runs[i]->task.id);
        assert_int_equal(again.runs[i]->token, first.runs[i]->token);
    }
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 1);
    free_batch(&first);
    free_batch(&again);
}

static void request_that_comes_too_late_does_nothing(void **state)
{
    (void)state;
    struct batch batch;
    struct batch late;
    put("a");
    put("b");
    assert_ok(lease_with((struct qn_stamp){9, 7}, 1, &batch), err);
    assert_int_not_equal(lease_with((struct qn_stamp){9, 6}, 1, &late), QUERN_OK);
    assert_int_equal(late.count, 0);
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 1);
    assert_int_equal(test_redis_count(&redis, "TTL " Q "quern:s:0000000000000009:l"), 600);
    free_batch(&batch);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, queue_set_up, tear_down)
static const struct CMUnitTest tests[] = {
    TEST(lease_writes_what_go_reads_and_our_token),
    TEST(fence_grows_when_the_clock_of_the_server_goes_back),
    TEST(task_of_go_is_leased_with_what_go_means),
    TEST(task_without_moment_is_leased_as_pending_since_now),
    TEST(ids_without_task_are_dropped),
    TEST(ghosts_alone_are_dropped_too),
    TEST(id_that_is_twice_in_pending_is_leased_once),
    TEST(task_that_is_only_in_pending_is_leased_whatever_its_state),
    TEST(late_tasks_of_go_are_archived_and_do_not_take_the_room),
    TEST(unreadable_messages_are_archived_where_go_reads_them),
    TEST(passed_suspects_keep_their_place_at_the_head),
    TEST(scan_for_others_than_suspects_is_bounded),
    TEST(replay_gives_only_runs_that_are_still_ours),
    TEST(replay_knows_all_parts),
    TEST(request_that_comes_too_late_does_nothing),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_lease", .tests = tests, .test_count = TEST_COUNT(tests)};
    int result = test_main(argc, argv, &group);
    test_redis_stop(&redis);
    return result;
}
