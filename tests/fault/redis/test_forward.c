/* SPDX-License-Identifier: MIT */
/* test_forward.c - forward and arm on data of Go's and on damaged data. */
#include "lib_doctor.h"

static const char *const queue = "default";

static size_t forward(int64_t *ret_next_due_at_ms)
{
    size_t moved = 0;
    quern_error err = {0};
    assert_ok(qn_broker_forward(doctor.broker, (struct qn_upkeep){{&queue, 1}, 100}, &moved,
                                ret_next_due_at_ms, &err),
              err);
    return moved;
}

/* --- Forward ---------------------------------------------------------------------------- */

/* Go gives whole seconds and knows nothing of quern:due. */
static void task_that_go_scheduled_is_due_at_its_second(void **state)
{
    (void)state;
    int64_t next_due_at_ms = 0;
    doctor_put("a");
    doctor_plant("DEL " Q "pending");
    doctor_plant("HSET " T "a state scheduled");
    doctor_plant("ZADD " Q "scheduled 1800000002 a");
    doctor_turn_to(1999);
    assert_int_equal(forward(&next_due_at_ms), 0);
    doctor_turn_to(2000);
    assert_int_equal(forward(&next_due_at_ms), 1);
    assert_true(next_due_at_ms == INT64_MAX);
    assert_string_equal(test_redis_do(&doctor.redis, "HGET " T "a pending_since"),
                        "1800000002000000001");
    doctor_assert_runs("a");
}

static void index_that_go_made_stale_is_not_believed(void **state)
{
    (void)state;
    int64_t next_due_at_ms = 0;
    doctor_put_later("a", 1500);
    doctor_plant("ZADD " Q "scheduled 1800000050 a"); /* another moment */
    doctor_turn_to(3000);
    assert_int_equal(forward(&next_due_at_ms), 0);
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "quern:due"), 0);
    doctor_turn_to(50000);
    assert_int_equal(forward(&next_due_at_ms), 1);
}

static void due_task_of_a_group_goes_there_with_its_name(void **state)
{
    (void)state;
    int64_t next_due_at_ms = 0;
    doctor_put_later("a", 1500);
    doctor_plant("HSET " T "a group g");
    doctor_turn_to(1500);
    assert_int_equal(forward(&next_due_at_ms), 1);
    assert_int_equal(test_redis_count(&doctor.redis, "ZSCORE " Q "g:g a"), 1800000001);
    assert_int_equal(test_redis_count(&doctor.redis, "SISMEMBER " Q "groups g"), 1);
    assert_string_equal(test_redis_do(&doctor.redis, "HGET " T "a state"), "aggregating");
}

/* Its forwarder reads the name from our hash, but does not list it. */
static void group_of_a_task_that_go_moved_there_is_listed(void **state)
{
    (void)state;
    int64_t next_due_at_ms = 0;
    doctor_put_later("a", 1500);
    doctor_put_later("b", 1500);
    doctor_plant("HSET " T "a group g state aggregating");
    doctor_plant("ZADD " Q "g:g 1800000002 a");
    doctor_plant("HSET " T "b group h state aggregating"); /* it has left the group again */
    doctor_plant("DEL " Q "scheduled");
    doctor_turn_to(3000);
    assert_int_equal(forward(&next_due_at_ms), 0);
    assert_string_equal(test_redis_do(&doctor.redis, "SMEMBERS " Q "groups"), "g\n");
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "quern:due"), 0);
}

static void due_ids_without_a_task_and_of_running_ones_go(void **state)
{
    (void)state;
    int64_t next_due_at_ms = 0;
    doctor_start("active");
    doctor_plant("ZADD " Q "retry 1700000000 active 1700000000 ghost");
    doctor_plant("HSET " T "ghost state retry");
    assert_int_equal(forward(&next_due_at_ms), 0);
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "retry " T "ghost"), 0);
    doctor_assert_healthy();
}

/* Queue "bad" has a key of a wrong type, "default" a task that is due. */
static void assert_default_is_forwarded(const char *key)
{
    const char *queues[] = {"bad", "default"};
    size_t count = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    test_redis_empty(&doctor.redis);
    doctor_turn_to(0);
    doctor_put_later("a", 1000);
    doctor_put_later("b", 5000);
    doctor_plant("HSET asynq:{bad}:t:x msg m state scheduled group g");
    doctor_plant("ZADD asynq:{bad}:scheduled 1800000000 x");
    doctor_plant("ZADD asynq:{bad}:quern:due 1800000000000 x");
    doctor_plant("DEL asynq:{bad}:%s", key);
    doctor_plant("SET asynq:{bad}:%s x", key);
    doctor_turn_to(1000);
    assert_ok(qn_broker_forward(doctor.broker, (struct qn_upkeep){{queues, 2}, 100}, &count,
                                &next_due_at_ms, &err),
              err);
    assert_int_equal(count, 1);
    assert_true(next_due_at_ms < INT64_MAX);
    doctor_assert_runs("a");
}

static void queue_of_a_wrong_type_does_not_stop_the_others(void **state)
{
    (void)state;
    static const char *const keys[] = {"scheduled", "retry", "pending", "quern:due", "lease"};
    static const char *const queues[] = {"bad", "default"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        size_t count = 0;
        quern_error err = {0};
        assert_default_is_forwarded(keys[i]);
        /* Recovery reports the damage. */
        assert_int_equal(qn_broker_recover(doctor.broker, (struct qn_upkeep){{queues, 2}, 100},
                                           NULL, &count, &err),
                         QUERN_E_CORRUPT);
        assert_non_null(strstr(err.text, "WRONGTYPE"));
    }
    assert_default_is_forwarded("groups");
    assert_default_is_forwarded("g:g");
}

/* It is no task any more; the key stays for doctor. */
static void due_id_whose_key_is_no_hash_stops_no_other(void **state)
{
    (void)state;
    int64_t next_due_at_ms = 0;
    doctor_put_later("b", 1000);
    doctor_plant("ZADD " Q "scheduled 1800000000 a");
    doctor_plant("SET " T "a x");
    doctor_turn_to(1000);
    assert_int_equal(forward(&next_due_at_ms), 1);
    assert_true(next_due_at_ms == INT64_MAX);
    assert_string_equal(test_redis_do(&doctor.redis, "GET " T "a"), "x");
    doctor_assert_runs("b");
}

/* A user without a required command gets an error. */
static void refused_command_is_no_damage(void **state)
{
    (void)state;
    char url[256];
    size_t moved = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    struct qn_broker *poor = NULL;
    doctor_put_later("a", 1000);
    doctor_turn_to(1000);
    doctor_plant("ACL SETUSER poor on >secret ~* &* +@all -llen");
    (void)snprintf(url, sizeof url, "redis-socket://poor:secret@%s", doctor.redis.socket_path);
    assert_ok(qn_broker_open(url, NULL, &poor, &err), err);
    assert_int_equal(qn_broker_forward(poor, (struct qn_upkeep){{&queue, 1}, 100}, &moved,
                                       &next_due_at_ms, &err),
                     QUERN_E_BROKER);
    assert_non_null(strstr(err.text, "NOPERM"));
    qn_broker_close(poor);
}

/* --- Arm -------------------------------------------------------------------------------- */

static bool arm(const char *const *queues, size_t queue_count, int64_t *ret_next_due_at_ms)
{
    bool work = false;
    quern_error err = {0};
    assert_ok(qn_broker_arm(doctor.broker, (struct qn_names){queues, queue_count}, &work,
                            ret_next_due_at_ms, &err),
              err);
    return work;
}

static void queue_of_a_wrong_type_does_not_stop_arming_the_others(void **state)
{
    (void)state;
    const char *queues[] = {"bad", "default"};
    int64_t next_due_at_ms = 0;
    doctor_plant("SET asynq:{bad}:scheduled x");
    assert_false(arm(queues, 2, &next_due_at_ms));
    assert_true(next_due_at_ms == INT64_MAX);
    doctor_put_later("a", 1000);
    assert_false(arm(queues, 2, &next_due_at_ms));
    assert_true(next_due_at_ms < INT64_MAX);
    doctor_put("b");
    assert_true(arm(queues, 2, &next_due_at_ms));
    size_t recovered = 0;
    quern_error err = {0};
    assert_int_equal(qn_broker_recover(doctor.broker, (struct qn_upkeep){{queues, 2}, 100}, NULL,
                                       &recovered, &err),
                     QUERN_E_CORRUPT); /* this reports the damage */
    assert_non_null(strstr(err.text, "WRONGTYPE"));
}

/* Looks at the queue as a worker does each second; whether that wakes it. */
static bool recover_finds_news(void)
{
    size_t recovered = 0;
    struct qn_wakeup wakeup = {0};
    quern_error err = {0};
    assert_ok(qn_broker_recover(doctor.broker, (struct qn_upkeep){{&queue, 1}, 100}, NULL,
                                &recovered, &err),
              err);
    assert_ok(qn_broker_wait(doctor.broker, 20, &wakeup, &err), err);
    return wakeup.work;
}

static void delayed_task_after_the_last_that_was_known_is_found_by_recovery(void **state)
{
    (void)state;
    int64_t next_due_at_ms = 0;
    doctor_put_later("a", 500);
    assert_false(arm(&queue, 1, &next_due_at_ms));
    doctor_plant("DEL " Q "scheduled " Q "quern:due"); /* another worker moved it */
    assert_true(recover_finds_news());                 /* returned, and no longer armed */
    test_pause_ms(800);
    assert_false(recover_finds_news());
    doctor_plant("ZADD " Q "scheduled 1800000030 a");
    assert_true(recover_finds_news());
}

static const struct CMUnitTest tests[] = {
    DOCTOR_TEST(task_that_go_scheduled_is_due_at_its_second),
    DOCTOR_TEST(index_that_go_made_stale_is_not_believed),
    DOCTOR_TEST(due_task_of_a_group_goes_there_with_its_name),
    DOCTOR_TEST(group_of_a_task_that_go_moved_there_is_listed),
    DOCTOR_TEST(due_ids_without_a_task_and_of_running_ones_go),
    DOCTOR_TEST(queue_of_a_wrong_type_does_not_stop_the_others),
    DOCTOR_TEST(due_id_whose_key_is_no_hash_stops_no_other),
    DOCTOR_TEST(refused_command_is_no_damage),
    DOCTOR_TEST(queue_of_a_wrong_type_does_not_stop_arming_the_others),
    DOCTOR_TEST(delayed_task_after_the_last_that_was_known_is_found_by_recovery),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_forward", .tests = tests, .test_count = TEST_COUNT(tests)};
    return doctor_main(argc, argv, &group);
}
