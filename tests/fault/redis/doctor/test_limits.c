/* SPDX-License-Identifier: MIT */
/* test_limits.c - limits, tasks that wait aside for them, and the runs that they count, on a server
 * that is checked. */
#include "lib_doctor.h"

#include "broker/limit/limit.h"
#include "task/limits.h"

#define LANE Q "quern:lane:k\x1ft"
#define RUNS Q "quern:limit:runs"
#define NOT_IN_LANE "waits aside for a limit or its turn, but is in no lane"

static void put(const char *id, const char *key)
{
    struct qn_task task = test_task(id);
    task.limit_key = key;
    doctor_put_task(doctor.broker, &task);
}

/* From "b0000" on. */
static void put_waiting(int count)
{
    static struct qn_task tasks[QN_BATCH_MAX];
    static char ids[QN_BATCH_MAX][16];
    quern_status results[QN_BATCH_MAX];
    quern_error err = {0};
    for (int i = 0; i < count;) {
        size_t size = 0;
        for (; size < QN_BATCH_MAX && i < count; size++, i++) {
            (void)snprintf(ids[size], sizeof ids[size], "b%04d", i);
            tasks[size] = test_task(ids[size]);
            tasks[size].limit_key = "k";
        }
        const struct qn_enqueue enqueue = {(struct qn_stamp){0}, tasks, size, results};
        assert_ok(qn_broker_enqueue(doctor.broker, &enqueue, &err), err);
    }
}

/* "a" runs and has the only place of its key; so many others wait, from "b0000" on. */
static struct qn_leased *fill_key(int count)
{
    const quern_limit limit = {
        .queue = "default", .scope = QUERN_LIMIT_KEY, .name = "k", .count = 1};
    quern_error err = {0};
    assert_ok(qn_broker_set_limit(doctor.broker, &limit, &err), err);
    put("a", "k");
    put_waiting(count);
    struct qn_leased *run = doctor_lease(doctor.broker);
    assert_string_equal(run->task.id, "a");
    assert_null(doctor_lease(doctor.broker));
    doctor_assert_healthy();
    return run;
}

/* All that wait still run, in their order, one at a time; of very many the first ones. */
static void assert_all_run(struct qn_leased *run, int count)
{
    assert_int_equal(doctor_finish(doctor.broker, run, QN_DONE), QN_APPLIED);
    for (int i = 0; i < count && i < 12; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "b%04d", i);
        run = doctor_lease(doctor.broker);
        assert_non_null(run);
        assert_string_equal(run->task.id, id);
        if (i == 0) {
            assert_null(doctor_lease(doctor.broker));
        }
        assert_int_equal(doctor_finish(doctor.broker, run, QN_DONE), QN_APPLIED);
    }
    size_t left = QN_BATCH_MAX;
    quern_error err = {0};
    const quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_SCHEDULED};
    while (count > 12 && left == QN_BATCH_MAX) {
        assert_ok(qn_broker_operate_all(
                      doctor.broker, &(struct qn_bulk){QUERN_ACTION_DELETE, &filter, QN_BATCH_MAX},
                      &left, &err),
                  err);
    }
    assert_null(doctor_lease(doctor.broker));
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "scheduled " Q "quern:lanes"), 0);
    doctor_assert_healthy();
}

static const int counts[] = {1, 12, 5000};

/* So many commands, each with the number of its turn in place of each #; in one script. */
static void plant_many(const char *command, int count)
{
    char script[256];
    (void)snprintf(script, sizeof script,
                   "for i = 0, %d do local words = {} for word in string.gmatch("
                   "string.gsub(ARGV[1], '#', string.format('%%04d', i)), '%%S+') do "
                   "words[#words + 1] = word end redis.call(unpack(words)) end",
                   count - 1);
    assert_string_equal(test_redis_do(&doctor.redis, "EVAL %s 0 %s", script, command), "(nil)");
}

/* --- Lanes ----------------------------------------------------------------------------- */

static void task_that_its_lane_has_lost_comes_back(void **state)
{
    (void)state;
    struct qn_leased *run = fill_key(2);
    doctor_plant("ZREM " LANE " b0000");
    doctor_assert_mended("I8 default/b0000: " NOT_IN_LANE);
    doctor_plant("ZREM " Q "quern:lanes k\x1ft");
    doctor_assert_mended(": " NOT_IN_LANE);
    doctor_plant("HSET " T "b0000 quern_aside garbage");
    doctor_assert_mended("I8 default/b0000: " NOT_IN_LANE);
    doctor_plant("ZADD " LANE " 1 b0000"); /* the garbage has cost its place */
    doctor_plant("HSET " T "b0000 quern_aside %s", "1 k\x1ft");
    assert_all_run(run, 2);
}

static void plant_another_type(const char *key)
{
    doctor_plant("DEL %s", key);
    doctor_plant("SET %s x", key);
}

static void lost_or_damaged_lanes_are_made_again(void **state)
{
    static const char *const keys[] = {LANE, Q "quern:lanes"};
    (void)state;
    for (size_t i = 0; i + 1 < TEST_COUNT(counts) * TEST_COUNT(keys); i++) {
        int count = counts[i / TEST_COUNT(keys)];
        const char *key = keys[i % TEST_COUNT(keys)];
        struct qn_leased *run = fill_key(count);
        doctor_plant("DEL %s", key);
        doctor_assert_mended(": " NOT_IN_LANE);
        plant_another_type(key);
        doctor_check(false);
        assert_int_equal(doctor.report.violated, 1);
        assert_int_equal(doctor.report.warned, count);
        doctor_assert_mended(": " NOT_IN_LANE);
        assert_all_run(run, count);
    }
}

static void lists_of_the_wrong_type_are_removed(void **state)
{
    static const char *const keys[] = {"quern:lanes", "quern:lanes:idle", "quern:limit:runs"};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        char line[128];
        doctor_plant("DEL " Q "%s", keys[i]);
        doctor_plant("HSET " Q "%s a b", keys[i]);
        (void)snprintf(line, sizeof line, "I9 default/: %s is a hash and must be a %s", keys[i],
                       i == 1 ? "string" : "zset");
        put("x", NULL);
        doctor_assert_mended(line);
        doctor_assert_runs("x");
    }
    doctor_plant("ZADD " Q "quern:lanes 0 k\x1ft");
    doctor_plant("SET " LANE " x");
    put("x", NULL);
    doctor_assert_mended("I9 default/: the lane of the key k and the type t is a string");
    doctor_assert_runs("x");
}

/* As Go's DeleteTask and ArchiveTask leave them behind, and with hashes of other states. */
static void stale_entries_of_lanes_are_removed(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        struct qn_leased *run = fill_key(1);
        plant_many("ZADD " LANE " 1 c#", counts[i]);
        doctor_check(false);
        doctor_assert_line(": in the lane of the key k and the type t, but it does "
                           "not wait there");
        assert_int_equal(doctor.report.warned, counts[i]);
        doctor_check(true);
        assert_int_equal(doctor.report.repaired, counts[i]);
        assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " LANE), 1);
        assert_all_run(run, 1);
    }
    put("x", NULL);
    doctor_plant("ZADD " Q "quern:lanes 0 k\x1ft");
    doctor_assert_mended("I8 default/: the lane of the key k and the type t has no tasks");
    doctor_plant("ZADD " LANE " 1 x");
    doctor_plant("ZADD " Q "quern:lanes 0 k\x1ft");
    doctor_assert_mended("I8 default/x: in the lane of the key k and the type t");
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "quern:lanes " LANE), 0);
    doctor_assert_runs("x");
}

static void many_lanes_are_read_in_pages(void **state)
{
    (void)state;
    struct qn_leased *run = fill_key(0);
    plant_many("ZADD " Q "quern:lanes 0 #\x1ft", 1000);
    plant_many("ZADD " Q "quern:lane:#\x1ft 1 gone", 1000);
    doctor_check(true);
    assert_int_equal(doctor.report.repaired, 1000);
    assert_all_run(run, 0);
}

/* Or they would be put ahead for ever, and no lease would look there. */
static void lanes_and_limits_that_no_lease_looks_at_are_noted_again(void **state)
{
    (void)state;
    struct qn_leased *run = fill_key(3);
    doctor_plant("HDEL " Q "quern:meta limits");
    doctor_assert_mended("I9 default/: it has limits, or tasks that wait aside, but quern:meta "
                         "says nothing of them");
    doctor_plant("HSET " Q "quern:meta limits 1");
    doctor_assert_mended("I9 default/: it has limits, or tasks that wait aside, but quern:meta "
                         "says no more than 1 of them");
    assert_all_run(run, 3);
}

/* A task that is deleted by quern leaves no entry behind. */
static void deleted_and_archived_tasks_leave_their_lane(void **state)
{
    (void)state;
    quern_error err = {0};
    static const quern_action actions[] = {QUERN_ACTION_DELETE, QUERN_ACTION_ARCHIVE};
    struct qn_leased *run = fill_key(2);
    for (int i = 0; i < 2; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "b%04d", i);
        assert_ok(qn_broker_operate(doctor.broker, actions[i], "default", id, &err), err);
    }
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "quern:lanes " LANE), 0);
    doctor_assert_healthy();
    assert_int_equal(doctor_finish(doctor.broker, run, QN_DONE), QN_APPLIED);
    assert_null(doctor_lease(doctor.broker));
}

/* --- Counted runs ---------------------------------------------------------------------- */

static void runs_that_ended_are_counted_no_more(void **state)
{
    (void)state;
    struct qn_leased *run = fill_key(1);
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        plant_many("ZADD " RUNS " 0 ic#\x1ft\x1fk 0 2t\x1f"
                   "c# 0 3k\x1f"
                   "c#",
                   counts[i]);
        doctor_check(false);
        doctor_assert_line(": counted as a run by the limits of types and keys, "
                           "but it does not run");
        assert_int_equal(doctor.report.warned, counts[i]);
        doctor_check(true);
        assert_int_equal(doctor.report.repaired, counts[i]);
        assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " RUNS), 4);
    }
    doctor_plant("ZADD " RUNS " 0 3k\x1fgone");
    doctor_assert_mended("I8 default/gone: counted by a limit, but it does not run");
    doctor_plant("ZADD " RUNS " 0 x");
    doctor_assert_mended("I8 default/: quern:limit:runs has an entry that is no run");
    assert_all_run(run, 1);
}

static void runs_that_are_not_counted_are_counted_again(void **state)
{
    (void)state;
    struct qn_leased *run = fill_key(1);
    doctor_plant("ZREM " RUNS " ia\x1ft\x1fk 2t\x1f"
                 "a 3k\x1f"
                 "a");
    doctor_assert_mended("I8 default/a: runs, but the limits of types and keys do not count it");
    assert_null(doctor_lease(doctor.broker));
    doctor_plant("ZREM " RUNS " %s", "ia\x1ft\x1fk");
    doctor_assert_mended("I8 default/a: runs, but the limits of types and keys do not count it");
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " RUNS), 4);
    assert_all_run(run, 1);
}

/* --- Limits ---------------------------------------------------------------------------- */

static void limits_of_all_kinds_are_healthy(void **state)
{
    static const quern_limit limits[] = {
        {.scope = QUERN_LIMIT_QUEUE, .name = "", .count = 9},
        {.scope = QUERN_LIMIT_QUEUE, .name = "", .count = 9, .period_ms = 1000, .burst = 3},
        {.scope = QUERN_LIMIT_TYPE, .name = "*", .count = 9},
        {.scope = QUERN_LIMIT_TYPE, .name = "t", .count = 9, .period_ms = 1000},
        {.scope = QUERN_LIMIT_KEY, .name = "k", .count = 9},
        {.scope = QUERN_LIMIT_SEMAPHORE, .name = "a", .count = 9},
        {.scope = QUERN_LIMIT_SEMAPHORE, .name = "b", .count = 9},
    };
    static const char *const queues[] = {"default", QUERN_ALL_QUEUES};
    (void)state;
    quern_error err = {0};
    for (size_t i = 0; i < TEST_COUNT(limits) * TEST_COUNT(queues); i++) {
        quern_limit limit = limits[i % TEST_COUNT(limits)];
        limit.queue = queues[i / TEST_COUNT(limits)];
        if (i < TEST_COUNT(limits) || limit.scope != QUERN_LIMIT_SEMAPHORE) {
            assert_ok(qn_broker_set_limit(doctor.broker, &limit, &err), err);
        }
    }
    put("a", "k");
    struct qn_leased *run = doctor_lease(doctor.broker);
    doctor_assert_healthy();
    assert_int_equal(doctor_finish(doctor.broker, run, QN_DONE), QN_APPLIED);
    doctor_assert_healthy();
}

static void limits_that_cannot_be_read_are_removed(void **state)
{
    static const struct {
        const char *field;
        const char *value;
        const char *line;
    } rows[] = {
        {"1r", "ten", "the limit of the queue has the value \"ten\""},
        {"1s", "100 1000", "the limit of the queue has the value \"100 1000\""},
        {"2r:t", "-1", "the limit of the type t has the value \"-1\""},
        {"2s:*", "1 2 3 4", "the limit of the type * has the value \"1 2 3 4\""},
        {"3r:k", "x", "the limit of the key k has the value \"x\""},
        {"3s:k", "x", "the limit of the key k has the value \"x\""},
        {"4", "smtp", "a semaphore has the value \"smtp\""},
    };
    (void)state;
    struct qn_leased *run = fill_key(1);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        char line[256];
        (void)snprintf(line, sizeof line, "I9 default/: %s, which limits nothing: set it again",
                       rows[i].line);
        doctor_plant("HSET " Q "quern:limit:set %s %s", rows[i].field, rows[i].value);
        doctor_assert_mended(line);
    }
    assert_all_run(run, 1);
}

static const struct CMUnitTest tests[] = {
    DOCTOR_TEST(task_that_its_lane_has_lost_comes_back),
    DOCTOR_TEST(lost_or_damaged_lanes_are_made_again),
    DOCTOR_TEST(lists_of_the_wrong_type_are_removed),
    DOCTOR_TEST(stale_entries_of_lanes_are_removed),
    DOCTOR_TEST(many_lanes_are_read_in_pages),
    DOCTOR_TEST(lanes_and_limits_that_no_lease_looks_at_are_noted_again),
    DOCTOR_TEST(deleted_and_archived_tasks_leave_their_lane),
    DOCTOR_TEST(runs_that_ended_are_counted_no_more),
    DOCTOR_TEST(runs_that_are_not_counted_are_counted_again),
    DOCTOR_TEST(limits_of_all_kinds_are_healthy),
    DOCTOR_TEST(limits_that_cannot_be_read_are_removed),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_doctor_limits", .tests = tests, .test_count = TEST_COUNT(tests)};
    return doctor_main(argc, argv, &group);
}
