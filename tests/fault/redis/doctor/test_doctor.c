/* SPDX-License-Identifier: MIT */
/* test_doctor.c - damaged tasks on Redis are found and repaired.
 *
 * Each damage is planted with plain commands, many of them as the known bugs of asynq's scripts
 * cause it. Then it must be found under its invariant, repaired, and gone from the next check; and
 * the task still runs. */
#include "lib_doctor.h"

/* --- Ids without a task -------------------------------------------------------------------- */

static void ids_without_a_hash_go(void **state)
{
    (void)state;
    doctor_plant("LPUSH " Q "pending a");
    doctor_assert_mended("I2 default/a: in pending, but there is no task");
    doctor_plant("ZADD " Q "scheduled 1800000000 b");
    doctor_plant("ZADD " Q "quern:due 1799999999500 b");
    doctor_assert_mended("I2 default/b: in scheduled, but there is no task");
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "quern:due"), 0);
    doctor_put("c");
    doctor_assert_runs("c");
}

/* asynq's dequeue makes this of an id whose hash was evicted. */
static void stub_of_a_ghost_goes(void **state)
{
    (void)state;
    doctor_plant("LPUSH " Q "active a");
    doctor_plant("ZADD " Q "lease 1800000030 a");
    doctor_plant("HSET " T "a state active");
    doctor_assert_mended("I2 default/a: in active, but there is no task");
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " T "a " Q "active " Q "lease"), 0);
    doctor_plant("HSET " T "b result 42");
    doctor_assert_mended("I2 default/b: its hash has no message");
}

/* --- Tasks that are nowhere
 * ------------------------------------------------------------- */

/* asynq's scripts take the id out of active before they find that the lease is missing. */
static void active_task_in_no_container_is_pending_again(void **state)
{
    (void)state;
    doctor_start("a");
    doctor_plant("LREM " Q "active 0 a");
    doctor_plant("ZREM " Q "lease a");
    doctor_put("later");
    doctor_assert_mended("I2 default/a: its state is active, but it is nowhere");
    struct qn_leased *run = doctor_lease(doctor.broker); /* before what came later */
    assert_non_null(run);
    assert_string_equal(run->task.id, "a");
    assert_int_equal(run->cause, QUERN_CAUSE_BROKER_LOST);
    assert_int_equal(doctor_finish(doctor.broker, run, QN_DONE), QN_APPLIED);
    doctor_assert_runs("later");
}

static void pending_task_in_no_list_comes_back(void **state)
{
    (void)state;
    doctor_put("a");
    doctor_plant("DEL " Q "pending");
    doctor_assert_mended("I2 default/a: its state is pending, but it is nowhere");
    doctor_assert_runs("a");
}

static void delayed_task_in_no_zset_comes_back_at_its_time(void **state)
{
    (void)state;
    quern_error err = {0};
    const char *queue = "default";
    size_t moved = 0;
    int64_t next_due_at_ms = 0;
    doctor_put_later("a", 1500);
    doctor_plant("DEL " Q "scheduled");
    doctor_assert_mended("I2 default/a: its state is scheduled, but it is nowhere");
    assert_ok(qn_broker_forward(doctor.broker, (struct qn_upkeep){{&queue, 1}, 9}, &moved,
                                &next_due_at_ms, &err),
              err);
    assert_int_equal(moved, 0);
    doctor_turn_to(1500);
    assert_ok(qn_broker_forward(doctor.broker, (struct qn_upkeep){{&queue, 1}, 9}, &moved,
                                &next_due_at_ms, &err),
              err);
    assert_int_equal(moved, 1);
    doctor_assert_runs("a");
}

static void failed_task_in_no_zset_comes_back(void **state)
{
    (void)state;
    doctor_end("a", QN_RETRY);
    doctor_plant("DEL " Q "retry " Q "quern:due");
    doctor_assert_mended("I2 default/a: its state is retry, but it is nowhere");
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "retry"), 1);
}

/* asynq's inspector trims the archive without deleting the hashes. */
static void trimmed_leftover_is_in_the_archive_again(void **state)
{
    (void)state;
    doctor_end("a", QN_ARCHIVE);
    doctor_turn_to(5000);
    doctor_plant("ZREM " Q "archived a");
    doctor_assert_mended("I2 default/a: its state is archived, but it is nowhere");
    assert_int_equal(test_redis_count(&doctor.redis, "ZSCORE " Q "archived a"),
                     DOCTOR_NOW_MS / 1000);
}

static void completed_task_in_no_zset_keeps_its_retention(void **state)
{
    (void)state;
    struct qn_task task = test_task("a");
    task.retention_ms = 60000;
    doctor_put_task(doctor.broker, &task);
    assert_int_equal(doctor_finish(doctor.broker, doctor_lease(doctor.broker), QN_DONE),
                     QN_APPLIED);
    doctor_plant("DEL " Q "completed");
    doctor_assert_mended("I2 default/a: its state is completed, but it is nowhere");
    assert_int_equal(test_redis_count(&doctor.redis, "ZSCORE " Q "completed a"),
                     DOCTOR_NOW_MS / 1000 + 60);
}

static void grouped_task_in_no_group_comes_back(void **state)
{
    (void)state;
    doctor_put_grouped("a");
    doctor_plant("DEL " Q "g:g " Q "groups");
    doctor_assert_mended("I2 default/a: its state is aggregating, but it is nowhere");
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "g:g"), 1);
    assert_int_equal(test_redis_count(&doctor.redis, "SISMEMBER " Q "groups g"), 1);
}

/* --- Leases -------------------------------------------------------------------------------- */

static void active_task_without_a_lease_is_pending_again(void **state)
{
    (void)state;
    doctor_start("a");
    doctor_plant("ZREM " Q "lease a");
    doctor_assert_mended("I3 default/a: active without a lease");
    doctor_assert_runs("a");
}

static void lease_of_a_task_that_is_not_in_active_goes(void **state)
{
    (void)state;
    doctor_start("a");
    doctor_plant("LREM " Q "active 0 a");
    doctor_assert_mended("I3 default/a: has a lease, but is not in active");
    doctor_assert_runs("a");
    doctor_put("b");
    doctor_plant("ZADD " Q "lease 1800000030 b");
    doctor_assert_mended("I3 default/b: pending, but with a lease");
    doctor_assert_runs("b");
}

static void fence_that_fell_behind_is_raised(void **state)
{
    (void)state;
    doctor_start("a");
    doctor_plant("HSET " Q "quern:meta fence 5");
    doctor_assert_mended("I7 default/: the last fence has the value 5");
}

static void garbage_in_place_of_fence_brake_or_solo_lock_goes(void **state)
{
    (void)state;
    static const char *const fences[] = {"x", "nan", "-5", "99999999999999999999"};
    static const char *const rows[] = {"x", "12", "-1 a"};
    doctor_start("a");
    for (size_t i = 0; i < TEST_COUNT(fences); i++) {
        doctor_plant("HSET " Q "quern:meta fence %s", fences[i]);
        doctor_assert_mended("I7 default/: the last fence has the value ");
        assert_true(test_redis_count(&doctor.redis, "HGET " Q "quern:meta fence") >=
                    DOCTOR_NOW_MS * 1000);
    }
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        doctor_plant("HSET " Q "quern:meta h:there %s", rows[i]);
        doctor_assert_mended("I9 default/: the brake on host there has the value ");
        doctor_plant("HSET " Q "quern:meta solo %s", rows[i]);
        doctor_assert_mended("I9 default/: the solo lock has the value ");
    }
    assert_int_equal(test_redis_count(&doctor.redis, "HEXISTS " Q "quern:meta h:there"), 0);
    assert_int_equal(test_redis_count(&doctor.redis, "HEXISTS " Q "quern:meta solo"), 0);
}

/* --- Two places ---------------------------------------------------------------------------- */

static void task_in_two_places_stays_where_its_state_says(void **state)
{
    (void)state;
    doctor_put("a");
    doctor_plant("ZADD " Q "retry 1800000100 a");
    doctor_assert_mended("I1 default/a: in pending and retry");
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "retry"), 0);
    doctor_assert_runs("a");
    doctor_start("b");
    doctor_plant("LPUSH " Q "pending b");
    doctor_assert_mended("I1 default/b: in active and pending");
    assert_int_equal(test_redis_count(&doctor.redis, "LLEN " Q "pending"), 0);
}

static void task_twice_in_a_list_is_there_once(void **state)
{
    (void)state;
    doctor_put("a");
    doctor_put("b");
    doctor_plant("LPUSH " Q "pending a");
    doctor_assert_mended("I1 default/a: 2 times in pending");
    doctor_assert_runs("a");
    doctor_assert_runs("b");
}

/* asynq's archive script dies of too many old tasks, after it has moved the id. */
static void state_follows_the_place(void **state)
{
    (void)state;
    doctor_end("a", QN_ARCHIVE);
    doctor_plant("HSET " T "a state active");
    doctor_assert_mended("I2 default/a: its state is active, but it is in archived");
    assert_string_equal(test_redis_do(&doctor.redis, "HGET " T "a state"), "archived");
    doctor_put("b");
    doctor_plant("HSET " T "b state floating");
    doctor_assert_mended("I2 default/b: its state is floating, but it is in pending");
    doctor_assert_runs("b");
    doctor_put("c");
    doctor_plant("HDEL " T "c state");
    doctor_plant("DEL " Q "pending");
    doctor_assert_mended("I2 default/c: its state is missing, but it is nowhere");
    assert_string_equal(test_redis_do(&doctor.redis, "HGET " T "c state"), "archived");
}

/* --- Messages ------------------------------------------------------------------------------ */

static void message_that_cannot_be_read_is_kept_apart(void **state)
{
    (void)state;
    doctor_put_unique("a", 0);
    doctor_put("b");
    doctor_plant("HSET " T "a msg %b", "\x0a\x7f garbage", (size_t)10);
    doctor_assert_mended("I2 default/a: its message cannot be read");
    assert_int_equal(test_redis_count(&doctor.redis, "HSTRLEN " Q "quern:corrupt a"), 10);
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " T "a " Q "unique:t:1"), 0);
    doctor_assert_line("note default/: 1 message that could not be read is kept in quern:corrupt");
    doctor_assert_runs("b");
}

static void message_of_another_task_is_kept_apart(void **state)
{
    (void)state;
    doctor_put("a");
    doctor_put("b");
    doctor_plant("EVAL %s 0",
                 "redis.call('HSET', '" T "a', 'msg', redis.call('HGET', '" T "b', 'msg'))");
    doctor_assert_mended("I2 default/a: its message cannot be read: message of task: is of task b");
    doctor_assert_runs("b");
}

static void retries_beyond_the_limit_are_cut(void **state)
{
    (void)state;
    doctor_put("a");
    doctor_plant("EVAL %s 0", "local m = redis.call('HGET', '" T "a', 'msg')"
                              "redis.call('HSET', '" T "a', 'msg', m .. '\\48\\200\\1')");
    doctor_assert_mended("I7 default/a: 200 retries of 25");
    struct qn_leased *run = doctor_lease(doctor.broker);
    assert_non_null(run);
    assert_int_equal(run->retry_count, 25);
    assert_int_equal(doctor_finish(doctor.broker, run, QN_RETRY), QN_ARCHIVED);
}

static const struct CMUnitTest tests[] = {
    DOCTOR_TEST(ids_without_a_hash_go),
    DOCTOR_TEST(stub_of_a_ghost_goes),
    DOCTOR_TEST(active_task_in_no_container_is_pending_again),
    DOCTOR_TEST(pending_task_in_no_list_comes_back),
    DOCTOR_TEST(delayed_task_in_no_zset_comes_back_at_its_time),
    DOCTOR_TEST(failed_task_in_no_zset_comes_back),
    DOCTOR_TEST(trimmed_leftover_is_in_the_archive_again),
    DOCTOR_TEST(completed_task_in_no_zset_keeps_its_retention),
    DOCTOR_TEST(grouped_task_in_no_group_comes_back),
    DOCTOR_TEST(active_task_without_a_lease_is_pending_again),
    DOCTOR_TEST(lease_of_a_task_that_is_not_in_active_goes),
    DOCTOR_TEST(fence_that_fell_behind_is_raised),
    DOCTOR_TEST(garbage_in_place_of_fence_brake_or_solo_lock_goes),
    DOCTOR_TEST(task_in_two_places_stays_where_its_state_says),
    DOCTOR_TEST(task_twice_in_a_list_is_there_once),
    DOCTOR_TEST(state_follows_the_place),
    DOCTOR_TEST(message_that_cannot_be_read_is_kept_apart),
    DOCTOR_TEST(message_of_another_task_is_kept_apart),
    DOCTOR_TEST(retries_beyond_the_limit_are_cut),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_doctor", .tests = tests, .test_count = TEST_COUNT(tests)};
    return doctor_main(argc, argv, &group);
}
