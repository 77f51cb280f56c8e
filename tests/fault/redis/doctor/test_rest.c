/* SPDX-License-Identifier: MIT */
/* test_rest.c - locks, groups, queues, counters and settings of a server that is
 * checked; and checks of a queue that is busy. */
#include "lib_doctor.h"

#include <pthread.h>
#include <stdatomic.h>

/* --- Locks --------------------------------------------------------------------------------- */

static void locks_that_end_by_themselves_are_left_alone(void **state)
{
    (void)state;
    doctor_plant("SET " Q "unique:t:9 gone EX 3600");
    doctor_check(true);
    doctor_assert_line("lock default/gone: the lock " Q
                       "unique:t:9 names a task that does not exist; it ends in 3600 s");
    assert_int_equal(doctor.report.violated + doctor.report.repaired, 0);
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "unique:t:9"), 1);
}

static void locks_without_end_that_guard_no_task_are_removed(void **state)
{
    (void)state;
    doctor_plant("SET " Q "unique:t:9 gone");
    doctor_assert_mended("I4 default/gone: the lock " Q
                         "unique:t:9 names a task that does not exist");
    doctor_put_unique("a", 60000);
    doctor_assert_healthy();
    doctor_plant("SET " Q "unique:t:8 a"); /* asynq: the id was taken, after the lock was */
    doctor_assert_mended("I4 default/a: the lock " Q
                         "unique:t:8 names a task that has another key");
    assert_int_equal(test_redis_count(&doctor.redis, "EXISTS " Q "unique:t:1"), 1);
    assert_int_equal(doctor_finish(doctor.broker, doctor_lease(doctor.broker), QN_DONE),
                     QN_APPLIED);
    doctor_plant("SET " Q "unique:t:1 a");
    doctor_assert_mended("I4 default/a: the lock " Q "unique:t:1 names a completed task");
}

/* --- Groups -------------------------------------------------------------------------------- */

static void lost_name_of_a_group_is_listed_again(void **state)
{
    (void)state;
    doctor_put_grouped("a");
    doctor_plant("SREM " Q "groups g");
    doctor_assert_mended("I6 default/: the group g has 1 task, but is not in groups");
    assert_int_equal(test_redis_count(&doctor.redis, "SISMEMBER " Q "groups g"), 1);
    doctor_assert_line("note default/: 1 task is aggregating");
}

static void forgotten_aggregation_sets_are_groups_again(void **state)
{
    (void)state;
    doctor_put_grouped("a");
    doctor_plant("RENAME " Q "g:g " Q "g:g:11111111-2222-3333-4444-555555555555");
    doctor_plant("SREM " Q "groups g");
    doctor_assert_mended(
        "I6 default/: the set g:11111111-2222-3333-4444-555555555555 of the group g");
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "g:g"), 1);
    doctor_plant("RENAME " Q "g:g " Q "g:g:11111111-2222-3333-4444-555555555555");
    doctor_plant("ZADD " Q "aggregation_sets 1800000120 " Q
                 "g:g:11111111-2222-3333-4444-555555555555");
    doctor_assert_healthy(); /* a worker is at work there */
    doctor_turn_to(421000);
    doctor_assert_mended("I8 default/: 1 aggregation set has expired");
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "g:g"), 1);
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "aggregation_sets"), 0);
}

static void damaged_group_ends_no_check(void **state)
{
    (void)state;
    static const char *const set = Q "g:g:11111111-2222-3333-4444-555555555555";
    doctor_put_grouped("a");
    doctor_plant("RENAME " Q "g:g %s", set);
    doctor_plant("SET " Q "g:g x");
    doctor_assert_left_alone(
        "I6 default/: the set g:11111111-2222-3333-4444-555555555555 of the group g");
    doctor_plant("ZADD " Q "aggregation_sets 1800000120 %s", set);
    doctor_turn_to(421000);
    doctor_assert_left_alone("I9 default/: g:g is a string and must be a zset");
    doctor_plant("DEL " Q "g:g %s", set);
    doctor_plant("SET %s x", set);
    doctor_check(true);
    doctor_assert_line("I9 default/: g:g:11111111-2222-3333-4444-555555555555 is a string");
}

/* --- Queues and counters ------------------------------------------------------------------- */

static void stale_due_moments_go(void **state)
{
    (void)state;
    doctor_put_later("a", 1500);
    doctor_plant("ZADD " Q "scheduled 1800000009 a"); /* as Go would reschedule it */
    doctor_plant("ZADD " Q "quern:due 1800000005500 gone");
    doctor_assert_mended("I8 default/gone: in quern:due, but not delayed until then");
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "quern:due"), 0);
}

static void wrong_counters_are_set_right(void **state)
{
    (void)state;
    doctor_end("a", QN_DONE);
    doctor_assert_healthy();
    doctor_plant("INCRBY " Q "failed:2027-01-15 4");
    doctor_plant("EXPIRE " Q "failed:2027-01-15 1000");
    doctor_assert_mended("I5 default/: on day 2027-01-15 4 failed of 1 processed");
    assert_int_equal(test_redis_count(&doctor.redis, "GET " Q "processed"), 4);
    doctor_plant("SET " Q "failed 9");
    doctor_assert_mended("I5 default/: 9 failed of 4 processed in all; the days sum to 4 of 4");
    doctor_plant("PERSIST " Q "processed:2027-01-15");
    doctor_assert_mended("I5 default/: the counter processed:2027-01-15 never expires");
}

/* No counter is written there any more. */
static void counter_that_is_no_number_begins_anew(void **state)
{
    (void)state;
    static const char *const garbage[] = {"x", "", "1.5", "nan", "99999999999999999999"};
    doctor_end("a", QN_ARCHIVE);
    for (size_t i = 0; i < TEST_COUNT(garbage); i++) {
        doctor_plant("SET " Q "processed %s", garbage[i]);
        doctor_assert_mended("I5 default/: the counter processed has the value ");
        assert_int_equal(test_redis_count(&doctor.redis, "GET " Q "processed"), 1);
        doctor_plant("SET " Q "processed:2027-01-15 %s KEEPTTL", garbage[i]);
        doctor_assert_mended("I5 default/: the counter processed:2027-01-15 has the value ");
        assert_int_equal(test_redis_count(&doctor.redis, "GET " Q "processed:2027-01-15"), 1);
    }
}

static void forgotten_queue_is_listed_again(void **state)
{
    (void)state;
    doctor_put("a");
    doctor_plant("DEL asynq:queues");
    doctor_assert_mended("I6 default/: it has tasks, but is not in asynq:queues");
    doctor_assert_runs("a");
    doctor_plant("SET asynq:{gone}:processed 5");
    doctor_check(true);
    doctor_assert_line("note gone/: was removed; some of its keys without tasks are left");
    assert_int_equal(test_redis_count(&doctor.redis, "SISMEMBER asynq:queues gone"), 0);
}

static void keys_of_the_wrong_type_are_reported(void **state)
{
    (void)state;
    doctor_put("a");
    doctor_plant("SET " Q "retry x");
    doctor_assert_left_alone("I9 default/: retry is a string and must be a zset");
    doctor_plant("DEL " Q "retry");
    doctor_plant("SET " Q "g:g x");
    doctor_assert_left_alone("I9 default/: g:g is a string and must be a zset");
    doctor_plant("DEL " Q "g:g");
    doctor_plant("MSET " Q "failed 5 " Q "processed 5");
    doctor_plant("SET " Q "failed:2027-01-15 5 EX 1000");
    doctor_plant("HSET " Q "processed:2027-01-15 a b");
    doctor_plant("EXPIRE " Q "processed:2027-01-15 1000");
    doctor_assert_left_alone("I9 default/: processed:2027-01-15 is a hash and must be a string");
    doctor_plant("DEL " Q "processed:2027-01-15 " Q "failed:2027-01-15 " Q "processed " Q "failed");
    doctor_plant("DEL " T "a");
    doctor_plant("SET " T "a x");
    doctor_assert_mended("I9 default/a: its key is a string, not a hash");
    assert_string_equal(test_redis_do(&doctor.redis, "GET " Q "quern:odd:a"), "x");
}

/* The rest is checked and repaired, and our worker is known by the keys that are left. */
static void registry_of_another_type_ends_no_check(void **state)
{
    (void)state;
    static const struct {
        const char *key, *type;
    } registries[] = {
        {"asynq:queues", "set"},
        {"asynq:servers", "zset"},
        {"asynq:workers", "zset"},
        {"asynq:quern:workers", "hash"},
    };
    doctor_put("sound");
    for (size_t i = 0; i < TEST_COUNT(registries); i++) {
        const char *key = registries[i].key;
        char line[128];
        doctor_put("lost");
        doctor_plant("DEL " Q "pending");
        doctor_plant("RPUSH " Q "pending sound");
        doctor_plant("COPY %s saved REPLACE", key);
        doctor_plant("DEL %s", key);
        doctor_plant("RPUSH %s x", key);
        doctor_check(false);
        (void)snprintf(line, sizeof line, "I9 /: %s is a list and must be a %s", key,
                       registries[i].type);
        doctor_assert_line(line);
        doctor_assert_line("I2 default/lost: ");
        assert_int_equal(doctor.report.violated, 2);
        assert_null(strstr(doctor.report.lines, "no worker serves the queue"));
        doctor_check(true);
        assert_int_equal(doctor.report.repaired, 1);
        doctor_plant("DEL %s", key);
        doctor_plant("COPY saved %s", key);
        doctor_assert_healthy();
        doctor_plant("DEL saved " T "lost " Q "pending");
        doctor_plant("RPUSH " Q "pending sound");
    }
}

/* The fence that is wanted there has no place. */
static void meta_of_the_wrong_type_is_reported_beside_runs(void **state)
{
    (void)state;
    doctor_start("a");
    doctor_plant("SET " Q "quern:meta x");
    doctor_assert_left_alone("I9 default/: quern:meta is a string and must be a hash");
    assert_int_equal(doctor.report.violated, 1);
}

static void late_work_that_a_damaged_key_hinders_ends_no_check(void **state)
{
    (void)state;
    doctor_start("lapsed");
    doctor_put_later("due", 1000);
    doctor_plant("SET " Q "pending x");
    doctor_turn_to(DOCTOR_LEASE_MS + 3000);
    doctor_assert_left_alone("I8 default/: 1 task is due and not pending");
    doctor_assert_left_alone("I8 default/: 1 lease has expired, and its task is not recovered");
}

static void late_work_is_done_where_a_worker_lives(void **state)
{
    (void)state;
    quern_error err = {0};
    doctor_start("lapsed");
    doctor_put_later("due", 1000);
    doctor_turn_to(DOCTOR_LEASE_MS + 3000);
    doctor_check(false);
    doctor_assert_line("I8 default/: 1 lease has expired, and its task is not recovered");
    doctor_assert_mended("I8 default/: 1 task is due and not pending");
    assert_int_equal(test_redis_count(&doctor.redis, "LLEN " Q "pending"), 2);
    assert_ok(qn_broker_deregister(doctor.broker, "w", &err), err);
    doctor_put_later("unserved", 1000);
    doctor_check(true);
    assert_int_equal(doctor.report.violated + doctor.report.warned, 0);
    doctor_assert_line("note default/: 2 tasks are pending, and no worker serves the queue");
}

static void many_damages_are_all_mended(void **state)
{
    (void)state;
    char id[16];
    for (int i = 0; i < 1500; i++) {
        (void)snprintf(id, sizeof id, "t%04d", i);
        doctor_put(id);
    }
    doctor_plant("EVAL %s 0",
                 "local p = redis.call('LRANGE', '" Q "pending', 0, -1)"
                 "for i = 1, #p do redis.call('HSET', '" T "' .. p[i], 'state', 'active') end"
                 " redis.call('RENAME', '" Q "pending', '" Q "active')");
    doctor_check(true);
    assert_int_equal(doctor.report.repaired, 1500);
    doctor_assert_healthy();
    assert_int_equal(test_redis_count(&doctor.redis, "LLEN " Q "pending"), 1500);
}

/* All hashes were evicted, say. */
static void many_ids_without_a_task_all_go(void **state)
{
    (void)state;
    doctor_plant("EVAL %s 0", "for i = 1, 1500 do redis.call('LPUSH', '" Q "pending', i) end");
    doctor_put("a");
    doctor_check(true);
    assert_int_equal(doctor.report.repaired, 1500);
    doctor_assert_healthy();
    assert_int_equal(test_redis_count(&doctor.redis, "LLEN " Q "pending"), 1);
    doctor_assert_runs("a");
}

/* --- The server ---------------------------------------------------------------------------- */

static void dangerous_settings_are_reported(void **state)
{
    (void)state;
    doctor_check(false);
    doctor_assert_line("note /: durability D1");
    bool old = *test_redis_do(&doctor.redis, "CONFIG GET hash-max-listpack-value") == '\0';
    doctor_assert_line(old ? "note /: hash-max-ziplist-value is 64" /* before Redis 7.0 */
                           : "note /: hash-max-listpack-value is 64");
    doctor_plant("CONFIG SET maxmemory 100mb");
    doctor_plant("CONFIG SET maxmemory-policy allkeys-lru");
    doctor_check(false);
    doctor_assert_line(
        "server /: maxmemory-policy allkeys-lru lets the server evict tasks and locks");
    doctor_plant("CONFIG SET maxmemory-policy noeviction");
    doctor_plant("CONFIG SET maxmemory 0");
    doctor_plant("CONFIG SET appendonly no");
    doctor_check(false);
    doctor_assert_line("server /: durability D0");
    doctor_plant("CONFIG SET appendonly yes");
    doctor_assert_healthy();
}

/* A worker's user may not ask everything, but check and repair all the same. */
static void user_with_few_rights_may_repair(void **state)
{
    (void)state;
    quern_error err = {0};
    char url[200];
    doctor_plant("ACL SETUSER few on >pw ~asynq:* resetchannels &asynq:cancel &asynq:quern "
                 "&__redis__:invalidate -@all +@read +@write +eval +evalsha +script|load +publish "
                 "+subscribe +ping +hello +time +wait "
                 "+select -@dangerous +info +role +client|setname +client|id +client|tracking "
                 "+client|trackinginfo");
    doctor_put("a");
    doctor_plant("DEL " Q "pending");
    qn_broker_close(doctor.broker);
    (void)snprintf(url, sizeof url, "redis-socket://few:pw@%s", doctor.redis.socket_path);
    assert_ok(qn_broker_open(url, NULL, &doctor.broker, &err), err);
    doctor_check(true);
    doctor_assert_line("I2 default/a: its state is pending, but it is nowhere");
    assert_int_equal(doctor.report.repaired, 1);
    doctor_assert_runs("a");
}

/* --- Life ---------------------------------------------------------------------------------- */

static atomic_bool enough;

static void *work(void *user)
{
    struct qn_broker *own = user;
    static const enum qn_outcome_kind kinds[] = {QN_DONE, QN_RETRY, QN_SNOOZE, QN_ARCHIVE,
                                                 QN_GIVE_BACK};
    char id[24];
    for (unsigned i = 0; !atomic_load(&enough); i++) {
        struct qn_task task = test_task(id);
        (void)snprintf(id, sizeof id, "t%u", i);
        doctor_put_task(own, &task);
        struct qn_leased *run = doctor_lease(own);
        if (run != NULL) {
            (void)doctor_finish(own, run, kinds[i % TEST_COUNT(kinds)]);
        }
    }
    return NULL;
}

static void busy_queue_raises_no_false_alarm(void **state)
{
    (void)state;
    pthread_t thread;
    struct qn_broker *own = doctor_open();
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, work, own), 0);
    for (int i = 0; i < 30; i++) {
        doctor_check(i % 2 == 0);
        assert_int_equal(doctor.report.violated + doctor.report.warned, 0);
    }
    atomic_store(&enough, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    qn_broker_close(own);
}

static const struct CMUnitTest tests[] = {
    DOCTOR_TEST(locks_that_end_by_themselves_are_left_alone),
    DOCTOR_TEST(locks_without_end_that_guard_no_task_are_removed),
    DOCTOR_TEST(lost_name_of_a_group_is_listed_again),
    DOCTOR_TEST(forgotten_aggregation_sets_are_groups_again),
    DOCTOR_TEST(damaged_group_ends_no_check),
    DOCTOR_TEST(stale_due_moments_go),
    DOCTOR_TEST(wrong_counters_are_set_right),
    DOCTOR_TEST(counter_that_is_no_number_begins_anew),
    DOCTOR_TEST(forgotten_queue_is_listed_again),
    DOCTOR_TEST(keys_of_the_wrong_type_are_reported),
    DOCTOR_TEST(registry_of_another_type_ends_no_check),
    DOCTOR_TEST(meta_of_the_wrong_type_is_reported_beside_runs),
    DOCTOR_TEST(late_work_that_a_damaged_key_hinders_ends_no_check),
    DOCTOR_TEST(late_work_is_done_where_a_worker_lives),
    DOCTOR_TEST(many_damages_are_all_mended),
    DOCTOR_TEST(many_ids_without_a_task_all_go),
    DOCTOR_TEST(dangerous_settings_are_reported),
    DOCTOR_TEST(user_with_few_rights_may_repair),
    DOCTOR_TEST(busy_queue_raises_no_false_alarm),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_doctor_rest", .tests = tests, .test_count = TEST_COUNT(tests)};
    return doctor_main(argc, argv, &group);
}
