/* SPDX-License-Identifier: MIT */
/* test_planted.c - a worker whose tasks carry absurd numbers: it runs them, and no timer, delay or
 * record of it overflows (with the sanitizer that ends the test). */
#include <sqlite3.h>
#include <string.h>

#include "lib_worker.h"

#define TASK_COUNT 10

static const char *const numbers[] = {"9223372036854775807", "-9223372036854775808",
                                      "9223372036854775", "3162240000001", "-1"};
static const char *const payloads[] = {"done", "retry", "snooze", "result", "drop"};

static void plant_in_file(struct rig *rig)
{
    static const char *const columns[] = {"timeout_ms",   "retention_ms",   "retry_base_ms",
                                          "retry_cap_ms", "enqueued_at_ms", "due_at_ms",
                                          "retry_kind"};
    sqlite3 *db = NULL;
    char text[256];
    (void)snprintf(text, sizeof text, "%s/tasks.db", rig->store.dir);
    assert_int_equal(sqlite3_open(text, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, TEST_PATIENCE_MS), SQLITE_OK);
    for (size_t task = 0; task < TASK_COUNT; task++) {
        for (size_t i = 0; i < 4; i++) {
            (void)snprintf(text, sizeof text, "UPDATE quern_task SET %s = %s WHERE id = 't%zu'",
                           columns[(task + 2 * i) % TEST_COUNT(columns)],
                           numbers[(task + i) % TEST_COUNT(numbers)], task);
            assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
        }
    }
    (void)sqlite3_close(db);
}

/* In our own fields, and behind its message, where the last of a field counts. */
static void plant_in_server(void)
{
    static const char append[] = "return redis.call('HSET', KEYS[1], 'quern_opts', ARGV[1], 'msg', "
                                 "redis.call('HGET', KEYS[1], 'msg') .. ARGV[2])";
    static const char varint[] = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"; /* INT64_MAX */
    static const unsigned char tags[] = {8 << 3, 12 << 3, 13 << 3, 11 << 3};
    for (size_t task = 0; task < TASK_COUNT; task++) {
        char opts[200];
        char more[16];
        const char *number = numbers[task % TEST_COUNT(numbers)];
        (void)snprintf(opts, sizeof opts, "%s %s 0 %s %zu %s %s", number, number, number, task % 4,
                       number, number);
        more[0] = (char)tags[task % TEST_COUNT(tags)];
        memcpy(more + 1, varint, sizeof varint);
        (void)test_redis_do(test_store_server(), "EVAL %s 1 asynq:{default}:t:t%d %s %b", append,
                            (int)task, opts, more, sizeof varint);
    }
}

static void planted_numbers_hinder_no_run(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    for (int task = 0; task < TASK_COUNT; task++) {
        char id[16];
        (void)snprintf(id, sizeof id, "t%d", task);
        rig_put(rig, id, payloads[(size_t)task % TEST_COUNT(payloads)]);
    }
    if (test_store_is(&rig->store, "redis")) {
        plant_in_server();
    } else {
        plant_in_file(rig);
    }
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, TASK_COUNT);
    rig_wait_reports(rig, TASK_COUNT);
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(planted_numbers_hinder_no_run),
};
TEST_MAIN_OVER_BROKERS(tests)
