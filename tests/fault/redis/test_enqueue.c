/* SPDX-License-Identifier: MIT */
/* test_enqueue.c - the keys of an enqueue in Redis, one by one. */
#include "lib_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/redis/redis.h"
#include "broker/redis/run/enqueue_lua.h"
#include "lib_queue.h"
#include "lib_wire.h"
#include "task/limits.h"

static void pending_task_is_stored_as_asynq_does(void **state)
{
    (void)state;
    put("a");
    put("b");
    assert_string_equal(test_redis_do(&redis, "SMEMBERS asynq:queues"), "default\n");
    assert_string_equal(test_redis_do(&redis, "LRANGE " Q "pending 0 -1"), "b\na\n");
    assert_string_equal(field("a", "state"), "pending");
    assert_string_equal(field("a", "pending_since"), "1800000000000000000");
    assert_int_equal(test_redis_count(&redis, "HLEN " Q "t:a"), 3);
}

static void batch_keeps_its_order_in_pending_since(void **state)
{
    (void)state;
    const struct qn_task tasks[] = {test_task("a"), test_task("b"), test_task("c")};
    quern_status results[3];
    assert_ok(qn_broker_enqueue(
                  broker, &(struct qn_enqueue){(struct qn_stamp){0}, tasks, 3, results}, &err),
              err);
    assert_string_equal(field("c", "pending_since"), "1800000000000000002");
    assert_string_equal(test_redis_do(&redis, "LRANGE " Q "pending 0 -1"), "c\nb\na\n");
}

static void delayed_task_has_a_whole_second_and_its_exact_moment(void **state)
{
    (void)state;
    struct qn_task task = test_task("a");
    task.state = QUERN_TASK_SCHEDULED;
    task.process_at_ms = NOW_MS + 1500;
    assert_int_equal(enqueue(&task), QUERN_OK);
    assert_string_equal(test_redis_do(&redis, "ZSCORE " Q "scheduled a"), "1800000002");
    assert_string_equal(test_redis_do(&redis, "ZSCORE " Q "quern:due a"), "1800000001500");
    assert_string_equal(field("a", "pending_since"), "(nil)");
    assert_string_equal(field("a", "quern_opts"), "1800000000000 60000 0 0 0 0 0");
}

/* A leftover of an earlier task of this id would make it due too early. */
static void whole_second_ends_an_older_moment_of_the_index(void **state)
{
    (void)state;
    struct qn_task task = test_task("a");
    task.state = QUERN_TASK_SCHEDULED;
    task.process_at_ms = NOW_MS + 2000;
    (void)test_redis_do(&redis, "ZADD " Q "quern:due 1800000001500 a");
    assert_int_equal(enqueue(&task), QUERN_OK);
    assert_string_equal(test_redis_do(&redis, "ZSCORE " Q "scheduled a"), "1800000002");
    assert_string_equal(test_redis_do(&redis, "ZSCORE " Q "quern:due a"), "(nil)");
}

static void put_delayed(const char *id, int64_t at_ms)
{
    struct qn_task task = test_task(id);
    task.state = QUERN_TASK_SCHEDULED;
    task.process_at_ms = at_ms;
    assert_int_equal(enqueue(&task), QUERN_OK);
}

/* Only asynq's forwarder moves what is due, and it knows of no index. */
static void index_of_moments_stays_small_where_only_go_works(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "t%d", i);
        put_delayed(id, NOW_MS + i * 1000 + 500);
        test_redis_turn(&redis, (NOW_MS + i * 1000 + 900) * 1000);
        (void)test_redis_do(&redis, "ZREM " Q "scheduled %s", id);
        (void)test_redis_do(&redis, "LPUSH " Q "pending %s", id);
    }
    assert_in_range(test_redis_count(&redis, "ZCARD " Q "quern:due"), 0, 2);
}

static void each_enqueue_clears_some_of_the_index_of_moments(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        (void)test_redis_do(&redis, "ZADD " Q "quern:due 17000000%02d500 gone%d", i, i);
    }
    put("plain");
    assert_int_equal(test_redis_count(&redis, "ZCARD " Q "quern:due"), 6);
    struct qn_task task = test_task("unique");
    task.unique_key = Q "unique:t:";
    task.unique_ms = 90000;
    assert_int_equal(enqueue(&task), QUERN_OK);
    assert_int_equal(test_redis_count(&redis, "ZCARD " Q "quern:due"), 2);
    put("other");
    assert_int_equal(test_redis_count(&redis, "EXISTS " Q "quern:due"), 0);
    assert_string_equal(test_redis_do(&redis, "LRANGE " Q "pending 0 -1"),
                        "other\nunique\nplain\n");
}

/* A key of the wrong type there costs the index, no task. */
static void index_of_moments_of_a_wrong_type_refuses_no_plain_task(void **state)
{
    (void)state;
    (void)test_redis_do(&redis, "SET " Q "quern:due x");
    put("a");
    assert_string_equal(test_redis_do(&redis, "LRANGE " Q "pending 0 -1"), "a\n");
}

static void overdue_task_keeps_its_moment_in_the_index(void **state)
{
    (void)state;
    put_delayed("late", NOW_MS + 500);
    (void)test_redis_do(&redis, "ZADD " Q "quern:due 1700000000500 gone");
    (void)test_redis_do(&redis, "ZADD " Q "quern:due 1799999999500 new");
    test_redis_turn(&redis, (NOW_MS + 900) * 1000);
    put_delayed("new", NOW_MS + 1500);
    put_delayed("other", NOW_MS + 1600);
    assert_string_equal(test_redis_do(&redis, "ZRANGE " Q "quern:due 0 -1"), "late\nnew\nother\n");
    assert_string_equal(test_redis_do(&redis, "ZSCORE " Q "quern:due new"), "1800000001500");
}

static void grouped_unique_task_knows_its_group_and_lock(void **state)
{
    (void)state;
    struct qn_task task = test_task("a");
    task.state = QUERN_TASK_AGGREGATING;
    task.group = "g";
    task.unique_key = Q "unique:t:";
    task.unique_ms = 90000;
    assert_int_equal(enqueue(&task), QUERN_OK);
    assert_string_equal(field("a", "state"), "aggregating");
    assert_string_equal(field("a", "group"), "g");
    assert_string_equal(field("a", "unique_key"), Q "unique:t:");
    assert_string_equal(test_redis_do(&redis, "SMEMBERS " Q "groups"), "g\n");
    assert_string_equal(test_redis_do(&redis, "ZSCORE " Q "g:g a"), "1800000000");
    assert_string_equal(test_redis_do(&redis, "GET " Q "unique:t:"), "a");
    assert_int_equal(test_redis_count(&redis, "PTTL " Q "unique:t:"), 90000);
}

static void refused_queue_does_not_stop_the_others(void **state)
{
    (void)state;
    struct qn_task tasks[] = {test_task("a"), test_task("b"), test_task("c")};
    quern_status results[3];
    tasks[1].queue = "bad";
    (void)test_redis_do(&redis, "SET asynq:{bad}:pending x");
    assert_ok(qn_broker_enqueue(
                  broker, &(struct qn_enqueue){(struct qn_stamp){5, 1}, tasks, 3, results}, &err),
              err);
    assert_int_equal(results[0], QUERN_OK);
    assert_int_equal(results[1], QUERN_E_CORRUPT);
    assert_int_equal(results[2], QUERN_OK);
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 2);
    assert_int_equal(test_redis_count(&redis, "EXISTS asynq:{bad}:t:b"), 0);
}

static void queue_that_somebody_removed_comes_back(void **state)
{
    (void)state;
    put("a");
    (void)test_redis_do(&redis, "SREM asynq:queues default");
    put("b");
    assert_string_equal(test_redis_do(&redis, "SMEMBERS asynq:queues"), "default\n");
}

static void lock_of_a_wrong_type_refuses_no_task_of_its_batch(void **state)
{
    (void)state;
    struct qn_task tasks[] = {test_task("a"), test_task("b")};
    quern_status results[2];
    tasks[1].unique_key = Q "unique:t:";
    tasks[1].unique_ms = 90000;
    (void)test_redis_do(&redis, "LPUSH " Q "unique:t: x");
    assert_ok(qn_broker_enqueue(
                  broker, &(struct qn_enqueue){(struct qn_stamp){0}, tasks, 2, results}, &err),
              err);
    assert_int_equal(results[0], QUERN_OK);
    assert_int_equal(results[1], QUERN_OK);
    assert_string_equal(test_redis_do(&redis, "GET " Q "unique:t:"), "b");
}

/* Two ids whose hashes meet in the table of twins are still two tasks. */
static void full_batch_of_many_ids_is_stored_whole(void **state)
{
    (void)state;
    static struct qn_task tasks[QN_BATCH_MAX];
    static char ids[QN_BATCH_MAX][24];
    quern_status results[QN_BATCH_MAX];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < QN_BATCH_MAX; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "%d-%d", round, i);
            tasks[i] = test_task(ids[i]);
        }
        assert_ok(qn_broker_enqueue(
                      broker,
                      &(struct qn_enqueue){(struct qn_stamp){0}, tasks, QN_BATCH_MAX, results},
                      &err),
                  err);
        for (int i = 0; i < QN_BATCH_MAX; i++) {
            assert_int_equal(results[i], QUERN_OK);
        }
    }
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 20 * QN_BATCH_MAX);
}

/* --- More than one script ------------------------------------------------------------ */

#define LARGE_COUNT (3 * QN_BATCH_MAX + 5)

struct large {
    struct qn_task tasks[LARGE_COUNT];
    char ids[LARGE_COUNT][24];
    quern_status results[LARGE_COUNT];
};
static struct large large;

static void make_large(const char *name)
{
    for (int i = 0; i < LARGE_COUNT; i++) {
        (void)snprintf(large.ids[i], sizeof large.ids[i], "%s-%d", name, i);
        large.tasks[i] = test_task(large.ids[i]);
        large.results[i] = QUERN_E_INVALID;
    }
}

static void assert_large_stored(void)
{
    for (int i = 0; i < LARGE_COUNT; i++) {
        assert_int_equal(large.results[i], QUERN_OK);
    }
}

static void large_enqueue_keeps_the_order_of_each_queue(void **state)
{
    (void)state;
    make_large("a");
    for (int i = 0; i < LARGE_COUNT; i++) {
        large.tasks[i].queue = i % 3 == 0 ? "other" : "default";
    }
    assert_ok(qn_broker_enqueue(broker,
                                &(struct qn_enqueue){(struct qn_stamp){5, 1}, large.tasks,
                                                     LARGE_COUNT, large.results},
                                &err),
              err);
    assert_large_stored();
    assert_int_equal(test_redis_count(&redis, "SCARD asynq:queues"), 2);
    for (int i = 0; i < LARGE_COUNT; i++) {
        const char *key = i % 3 == 0 ? "asynq:{other}:pending" : Q "pending";
        assert_string_equal(test_redis_do(&redis, "RPOP %s", key), large.ids[i]);
    }
}

static void large_enqueue_finds_an_id_that_comes_again_in_another_script(void **state)
{
    (void)state;
    make_large("a");
    large.tasks[LARGE_COUNT - 1].id = large.ids[0];
    assert_ok(qn_broker_enqueue(broker,
                                &(struct qn_enqueue){(struct qn_stamp){5, 1}, large.tasks,
                                                     LARGE_COUNT, large.results},
                                &err),
              err);
    assert_int_equal(large.results[LARGE_COUNT - 1], QUERN_E_CONFLICT);
    large.results[LARGE_COUNT - 1] = QUERN_OK;
    assert_large_stored();
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), LARGE_COUNT - 1);
}

static void large_enqueue_that_finds_no_room_reports_which_are_stored(void **state)
{
    (void)state;
    static const char payload[1024];
    make_large("a");
    for (int i = 0; i < LARGE_COUNT; i++) {
        large.tasks[i].payload = payload;
        large.tasks[i].payload_size = sizeof payload;
    }
    const char *info = strstr(test_redis_do(&redis, "INFO memory"), "used_memory:");
    assert_non_null(info);
    long long room = strtoll(info + strlen("used_memory:"), NULL, 10) + 200000;
    (void)test_redis_do(&redis, "CONFIG SET maxmemory %lld", room);
    quern_status status = qn_broker_enqueue(
        broker,
        &(struct qn_enqueue){(struct qn_stamp){5, 1}, large.tasks, LARGE_COUNT, large.results},
        &err);
    (void)test_redis_do(&redis, "CONFIG SET maxmemory 0");
    assert_ok(status, err);
    int stored = 0;
    for (int i = 0; i < LARGE_COUNT; i++) {
        bool is_there = test_redis_count(&redis, "EXISTS " Q "t:%s", large.ids[i]) == 1;
        assert_int_equal(large.results[i], is_there ? QUERN_OK : QUERN_E_FULL);
        stored += is_there ? 1 : 0;
    }
    assert_true(stored > 0 && stored < LARGE_COUNT);
    assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), stored);
}

/* Another client brings the script as soon as the server has missed it, until the test is done. */
static void *bring_script(void *user)
{
    const _Atomic bool *done = user;
    while (!*done) {
        if (strstr(test_redis_do(&redis, "INFO errorstats"), "NOSCRIPT") != NULL) {
            (void)test_redis_do(&redis, "SCRIPT LOAD %s", qn_lua_enqueue.text);
            return NULL;
        }
    }
    return NULL;
}

static void large_enqueue_keeps_its_order_when_the_script_comes_to_be_known(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        pthread_t other;
        _Atomic bool done = false;
        test_redis_empty(&redis);
        (void)test_redis_do(&redis, "SCRIPT FLUSH");
        (void)test_redis_do(&redis, "CONFIG RESETSTAT");
        make_large("a");
        assert_int_equal(pthread_create(&other, NULL, bring_script, &done), 0);
        quern_status status = qn_broker_enqueue(
            broker,
            &(struct qn_enqueue){(struct qn_stamp){5, 1}, large.tasks, LARGE_COUNT, large.results},
            &err);
        done = true;
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_ok(status, err);
        assert_large_stored();
        for (int i = 0; i < LARGE_COUNT; i++) {
            assert_string_equal(test_redis_do(&redis, "RPOP " Q "pending"), large.ids[i]);
        }
    }
}

/* The server gets a part of it, cut off at each of so many places, before it is sent again. */
static void large_enqueue_that_is_cut_while_it_is_sent_keeps_its_order(void **state)
{
    (void)state;
    enum { PLACES = 20 };
    struct wire wire;
    struct qn_broker *far_broker = NULL;
    (void)test_redis_do(&redis, "SCRIPT LOAD %s", qn_lua_enqueue.text);
    wire_start(&wire, &redis);
    wire_set(&wire, WIRE_WHOLE, 0);
    assert_ok(qn_broker_open(wire.url, NULL, &far_broker, &err), err);
    make_large("a");
    long greeting = wire.sent;
    assert_ok(qn_broker_enqueue(far_broker,
                                &(struct qn_enqueue){(struct qn_stamp){78, 1}, large.tasks,
                                                     LARGE_COUNT, large.results},
                                &err),
              err);
    long size = wire.sent - greeting;
    for (long place = 0; place < PLACES; place++) {
        struct qn_stamp stamp = {.session = 78, .sequence = (uint64_t)place + 2};
        (void)test_redis_do(&redis, "FLUSHALL");
        qn_broker_close(far_broker);
        wire_set(&wire, WIRE_CUT_SENT, greeting + size * (2 * place + 1) / (2 * PLACES));
        assert_ok(qn_broker_open(wire.url, NULL, &far_broker, &err), err);
        int cuts = wire.cuts;
        quern_status status = qn_broker_enqueue(
            far_broker, &(struct qn_enqueue){stamp, large.tasks, LARGE_COUNT, large.results}, &err);
        assert_true(wire.cuts > cuts);
        if (status != QUERN_OK) {
            assert_int_equal(status, QUERN_E_UNKNOWN);
            wire_set(&wire, WIRE_WHOLE, 0);
            assert_ok(qn_broker_enqueue(
                          far_broker,
                          &(struct qn_enqueue){stamp, large.tasks, LARGE_COUNT, large.results},
                          &err),
                      err);
        }
        assert_large_stored();
        for (int i = 0; i < LARGE_COUNT; i++) {
            assert_string_equal(test_redis_do(&redis, "RPOP " Q "pending"), large.ids[i]);
        }
        assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), 0);
    }
    qn_broker_close(far_broker);
    wire_stop(&wire);
}

/* The server has executed all of it, or a part; its reply is cut off after each byte in turn. */
static void large_enqueue_whose_answers_are_lost_is_resolved(void **state)
{
    (void)state;
    struct wire wire;
    struct qn_broker *far_broker = NULL;
    size_t cut = 0;
    wire_start(&wire, &redis);
    wire_set(&wire, WIRE_WHOLE, 0);
    assert_ok(qn_broker_open(wire.url, NULL, &far_broker, &err), err);
    long said = wire.carried;
    for (long limit = said;; limit++) {
        struct qn_stamp stamp = {.session = 77, .sequence = (uint64_t)limit};
        char name[24];
        (void)snprintf(name, sizeof name, "%ld", limit);
        make_large(name);
        qn_broker_close(far_broker);
        far_broker = NULL;
        wire_set(&wire, WIRE_CUT, limit);
        if (qn_broker_open(wire.url, NULL, &far_broker, &err) != QUERN_OK) {
            continue; /* the greeting grows with the number of the connection */
        }
        quern_status status = qn_broker_enqueue(
            far_broker, &(struct qn_enqueue){stamp, large.tasks, LARGE_COUNT, large.results}, &err);
        if (status == QUERN_OK) {
            break;
        }
        assert_true(status == QUERN_E_UNKNOWN || status == QUERN_E_CONNECT);
        cut++;
        wire_set(&wire, WIRE_WHOLE, 0);
        assert_ok(qn_broker_enqueue(
                      far_broker,
                      &(struct qn_enqueue){stamp, large.tasks, LARGE_COUNT, large.results}, &err),
                  err);
        assert_large_stored();
        assert_int_equal(test_redis_count(&redis, "LLEN " Q "pending"), LARGE_COUNT * cut);
    }
    assert_true(cut >= 4 * strlen("$1\r\no\r\n"));
    qn_broker_close(far_broker);
    wire_stop(&wire);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, queue_set_up, queue_tear_down)
static const struct CMUnitTest tests[] = {
    TEST(pending_task_is_stored_as_asynq_does),
    TEST(batch_keeps_its_order_in_pending_since),
    TEST(delayed_task_has_a_whole_second_and_its_exact_moment),
    TEST(whole_second_ends_an_older_moment_of_the_index),
    TEST(index_of_moments_stays_small_where_only_go_works),
    TEST(each_enqueue_clears_some_of_the_index_of_moments),
    TEST(index_of_moments_of_a_wrong_type_refuses_no_plain_task),
    TEST(overdue_task_keeps_its_moment_in_the_index),
    TEST(grouped_unique_task_knows_its_group_and_lock),
    TEST(refused_queue_does_not_stop_the_others),
    TEST(queue_that_somebody_removed_comes_back),
    TEST(lock_of_a_wrong_type_refuses_no_task_of_its_batch),
    TEST(full_batch_of_many_ids_is_stored_whole),
    TEST(large_enqueue_keeps_the_order_of_each_queue),
    TEST(large_enqueue_finds_an_id_that_comes_again_in_another_script),
    TEST(large_enqueue_that_finds_no_room_reports_which_are_stored),
    TEST(large_enqueue_keeps_its_order_when_the_script_comes_to_be_known),
    TEST(large_enqueue_that_is_cut_while_it_is_sent_keeps_its_order),
    TEST(large_enqueue_whose_answers_are_lost_is_resolved),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_enqueue", .tests = tests, .test_count = TEST_COUNT(tests)};
    int result = test_main(argc, argv, &group);
    test_redis_stop(&redis);
    return result;
}
