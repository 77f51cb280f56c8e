/* SPDX-License-Identifier: MIT */
/* test_faults.c - a Redis server that forgets its scripts, runs out of memory, or holds foreign
 * data: one queue or one task is affected, the others are not. */
#include "lib_worker.h"

#include <string.h>

#include "task/limits.h"

static struct test_redis *server(void)
{
    return test_store_server();
}

static void put_in(struct rig *rig, const char *queue, const char *id, const char *payload)
{
    rig_put_task(
        rig, &(quern_task){
                 .id = id, .queue = queue, .payload = payload, .payload_size = strlen(payload)});
}

/* --- Scripts ------------------------------------------------------------------------ */

static void forgotten_scripts_are_sent_again(void **state)
{
    (void)state;
    size_t count = test_full() ? 20000 : 2000;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    size_t flushes = 0;
    rig_put_many(rig, NULL, "n", count);
    rig_start(rig, &worker, NULL);
    for (size_t reports = 0; reports < count; flushes++) {
        assert_string_equal(test_redis_do(server(), "SCRIPT FLUSH"), "OK");
        pthread_mutex_lock(&rig->mutex);
        reports = rig->report_count;
        pthread_mutex_unlock(&rig->mutex);
        test_pause_ms(1);
    }
    rig_stop(&worker);
    print_message("%zu flushes\n", flushes);
    assert_int_equal(rig->start_count, count);
    assert_int_equal(rig_queue(rig, "default").processed_total, count);
    assert_false(rig_logged(rig, "does not answer"));
    rig_free(rig);
}

/* --- Memory ------------------------------------------------------------------------- */

static void without_memory_enqueue_is_refused_and_workers_drain(void **state)
{
    (void)state;
    enum { TASKS = 500 };
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    quern_error err = {0};
    const quern_task task = {.type = "t", .id = "more", .payload = "done", .payload_size = 4};
    rig_put_many(rig, NULL, "n", TASKS);
    rig_put(rig, "retry", "retry");
    rig_put(rig, "archive", "archive");
    rig_put(rig, "result", "result");
    (void)test_redis_do(server(), "CONFIG SET maxmemory 100000");
    assert_int_equal(quern_client_enqueue(rig->client, &task, NULL, &err), QUERN_E_FULL);
    assert_non_null(strstr(err.text, "maxmemory"));
    rig_start(rig, &worker, NULL);
    rig_wait_reports(rig, TASKS + 3);
    assert_int_equal(rig_state(rig, "retry"), QUERN_TASK_RETRY);
    assert_int_equal(rig_state(rig, "archive"), QUERN_TASK_ARCHIVED);
    assert_int_equal(rig_queue(rig, "default").counts[QUERN_TASK_PENDING], 0);
    assert_int_equal(quern_client_enqueue(rig->client, &task, NULL, &err), QUERN_E_FULL);
    assert_int_equal(rig_state(rig, "more"), 0);
    (void)test_redis_do(server(), "CONFIG SET maxmemory 0");
    assert_ok(quern_client_enqueue(rig->client, &task, NULL, &err), err);
    rig_wait_reports(rig, TASKS + 4);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, TASKS + 4);
    rig_free(rig);
}

/* --- Wrong types -------------------------------------------------------------------- */

static void key_of_the_wrong_type_stops_one_queue_only(void **state)
{
    (void)state;
    static const char *const suffixes[] = {"pending", "active",   "lease",     "scheduled",
                                           "retry",   "archived", "completed", "quern:due"};
    static const quern_queue queues[] = {{.name = "bad"}, {.name = "default"}};
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    size_t reports = 0;
    rig_start(rig, &worker,
              &(quern_worker_options){
                  .queues = queues, .queue_count = TEST_COUNT(queues), .concurrency = 2});
    for (size_t i = 0; i < TEST_COUNT(suffixes); i++) {
        char good[16];
        char bad[16];
        (void)snprintf(good, sizeof good, "good%zu", i);
        (void)snprintf(bad, sizeof bad, "bad%zu", i);
        (void)test_redis_do(server(), "SET asynq:{bad}:%s x", suffixes[i]);
        put_in(rig, "default", good, "done");
        reports++;
        rig_wait_reports(rig, reports);
        rig_wait_log(rig, "WRONGTYPE"); /* it is reported */
        (void)test_redis_do(server(), "DEL asynq:{bad}:%s", suffixes[i]);
        put_in(rig, "bad", bad, "done");
        reports++;
        rig_wait_reports(rig, reports);
    }
    rig_stop(&worker);
    assert_int_equal(rig->start_count, reports);
    assert_int_equal(rig_queue(rig, "default").processed_total, TEST_COUNT(suffixes));
    assert_int_equal(rig_queue(rig, "bad").processed_total, TEST_COUNT(suffixes));
    rig_free(rig);
}

static void enqueue_to_a_key_of_the_wrong_type_is_refused_and_stores_nothing(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_error err = {0};
    const quern_task task = {.type = "t", .id = "a", .queue = "bad"};
    (void)test_redis_do(server(), "SET asynq:{bad}:pending x");
    assert_int_equal(quern_client_enqueue(rig->client, &task, NULL, &err), QUERN_E_CORRUPT);
    assert_non_null(strstr(err.text, "WRONGTYPE"));
    assert_int_equal(test_redis_count(server(), "EXISTS asynq:{bad}:t:a"), 0);
    put_in(rig, "default", "b", "done");
    assert_int_equal(rig_state(rig, "b"), QUERN_TASK_PENDING);
    rig_free(rig);
}

/* --- Messages ----------------------------------------------------------------------- */

static void plant(const char *id, const void *message, size_t size)
{
    (void)test_redis_do(server(), "HSET asynq:{default}:t:%s msg %b state pending", id, message,
                        size);
    (void)test_redis_do(server(), "LPUSH asynq:{default}:pending %s", id);
}

static bool is_drained(void *user)
{
    quern_queue_info info = rig_queue(user, "default");
    return info.counts[QUERN_TASK_PENDING] + info.counts[QUERN_TASK_ACTIVE] == 0;
}

static void malformed_message_costs_one_task(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_put(rig, "before", "done");
    plant("noise", "\xff\xff\xff\xff", 4);
    plant("empty", "", 0);
    plant("cut", "\x0a\x7fmail", 6);
    (void)test_redis_do(server(), "LPUSH asynq:{default}:pending ghost"); /* it has no hash */
    rig_put(rig, "after", "done");
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    rig_wait_reports(rig, 2);
    assert_true(test_until(is_drained, rig));
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 2);
    rig_wait_log(rig, "its message cannot be used");
    assert_int_equal(rig_queue(rig, "default").counts[QUERN_TASK_ARCHIVED], 3);
    quern_task_info *info = rig_inspect(rig, "noise");
    assert_non_null(strstr(quern_task_info_error(info), "cannot be used"));
    assert_string_equal(quern_task_info_type(info), "quern:unreadable");
    quern_task_info_free(info);
    assert_int_equal(test_redis_count(server(), "LLEN asynq:{default}:active"), 0);
    assert_int_equal(test_redis_count(server(), "ZCARD asynq:{default}:lease"), 0);
    assert_int_equal(rig_queue(rig, "default").processed_total, 5);
    rig_free(rig);
}

/* --- The archive -------------------------------------------------------------------- */

/* The size that Go's own trimming can no longer handle is far above this. */
#define ARCHIVE_SIZE_MAX_MEANWHILE (QN_ARCHIVE_SIZE_MAX + 500 + QN_BATCH_MAX)

static void archive_never_grows_far_beyond_its_limit(void **state)
{
    (void)state;
    enum { MORE = 1500 };
    static const char *const queue = "default";
    static const char fill[] = "for i = 1, tonumber(ARGV[1]) do"
                               "  local id = 'old' .. i"
                               "  redis.call('ZADD', KEYS[1] .. 'archived', ARGV[2] + i, id)"
                               "  redis.call('HSET', KEYS[1] .. 't:' .. id, 'msg', '',"
                               "             'state', 'archived')"
                               " end";
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    quern_error err = {0};
    size_t removed = 0;
    (void)test_redis_do(server(), "SADD asynq:queues default");
    (void)test_redis_do(server(), "EVAL %s 1 asynq:{default}: %d %lld", fill, QN_ARCHIVE_SIZE_MAX,
                        (long long)(qn_clock_wall_ms(qn_clock_system()) / 1000 - 86400));
    for (int i = 0; i < MORE; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "new%d", i);
        rig_put(rig, id, "archive");
    }
    rig_start(rig, &worker, NULL);
    rig_wait_reports(rig, MORE);
    assert_true(test_redis_count(server(), "ZCARD asynq:{default}:archived") <=
                ARCHIVE_SIZE_MAX_MEANWHILE);
    rig_stop(&worker);
    assert_ok(qn_broker_prune(rig->broker, (struct qn_upkeep){{&queue, 1}, MORE}, &removed, &err),
              err);
    quern_queue_info info = rig_queue(rig, queue);
    assert_int_equal(info.counts[QUERN_TASK_ARCHIVED], QN_ARCHIVE_SIZE_MAX);
    assert_int_equal(info.trimmed_total, MORE);
    assert_int_equal(rig_state(rig, "new0"), QUERN_TASK_ARCHIVED);
    assert_int_equal(test_redis_count(server(), "EXISTS asynq:{default}:t:old1"), 0);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", forgotten_scripts_are_sent_again),
    TEST_ONLY_OVER("redis", without_memory_enqueue_is_refused_and_workers_drain),
    TEST_ONLY_OVER("redis", key_of_the_wrong_type_stops_one_queue_only),
    TEST_ONLY_OVER("redis", enqueue_to_a_key_of_the_wrong_type_is_refused_and_stores_nothing),
    TEST_ONLY_OVER("redis", malformed_message_costs_one_task),
    TEST_ONLY_OVER("redis", archive_never_grows_far_beyond_its_limit),
};
TEST_MAIN_OVER_BROKERS(tests)
