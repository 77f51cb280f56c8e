/* SPDX-License-Identifier: MIT */
/* test_entries.c - entries of schedulers on a server that is checked. */
#include "lib_doctor.h"

#include "broker/schedule/schedule.h"
#include "lib_task.h"

static void put(const char *name)
{
    struct qn_schedule_entry entry = {.name = name,
                                      .task = test_task(NULL),
                                      .origin = "cli",
                                      .cron = "* * * * *",
                                      .zone = "",
                                      .misfire = QN_MISFIRE_ONCE,
                                      .misfire_max = 1};
    struct qn_put one = {.entry = &entry, .expected = QN_REVISION_ANY};
    assert_int_equal(qn_schedule_put(doctor.broker, &one, 1, NULL), QUERN_OK);
}

static bool count_good(const struct qn_schedule_entry *entry, void *user)
{
    size_t *count = user;
    *count += entry->fault == NULL ? 1 : 0;
    return true;
}

static size_t good_entries(void)
{
    size_t count = 0;
    const struct qn_entry_filter all = {0};
    assert_int_equal(qn_schedule_list(doctor.broker, &all, count_good, &count, NULL), QUERN_OK);
    return count;
}

static void entry_without_a_row_starts_over(void **state)
{
    (void)state;
    put("a");
    put("b");
    doctor_assert_healthy();
    doctor_plant("HDEL " Q "quern:ticks a");
    doctor_assert_mended("I10 default/: entry a: it has no row in quern:ticks");
    assert_int_equal(good_entries(), 2);
    doctor_plant("HSET " Q "quern:ticks b garbage");
    doctor_assert_mended("I10 default/: entry b: its row in quern:ticks has the value garbage");
    assert_int_equal(good_entries(), 2);
    doctor_plant("DEL " Q "quern:ticks");
    doctor_assert_mended("I10 default/: entry a: it has no row in quern:ticks");
    assert_int_equal(good_entries(), 2);
}

static void row_without_a_definition_is_removed(void **state)
{
    (void)state;
    put("a");
    put("b");
    doctor_plant("HDEL " Q "quern:entries a");
    doctor_assert_mended("I10 default/: entry a: it has a row in quern:ticks, but no definition");
    assert_int_equal(test_redis_count(&doctor.redis, "HEXISTS " Q "quern:ticks a"), 0);
    doctor_plant("HSET " Q "quern:ticks %s x", "");
    assert_int_equal(good_entries(), 1);
}

static void row_of_the_queue_that_cannot_be_read_is_replaced(void **state)
{
    (void)state;
    put("a");
    (void)test_redis_do(&doctor.redis, "HSET " Q "quern:ticks %s x", "");
    doctor_assert_mended("I10 default/: the row of the queue in quern:ticks has the value x");
}

static void definition_that_cannot_be_read_is_reported(void **state)
{
    (void)state;
    put("a");
    put("b");
    doctor_plant("HSET " Q "quern:entries a garbage");
    doctor_assert_left_alone("I10 default/: entry a: its definition cannot be read");
    assert_int_equal(good_entries(), 1);
    put("a");
    doctor_assert_healthy();
}

static void queue_that_schedulers_do_not_find_is_listed_again(void **state)
{
    (void)state;
    put("a");
    doctor_plant("SREM asynq:quern:schedules default");
    assert_int_equal(good_entries(), 0);
    doctor_assert_mended("I10 default/: it has entries, but is not in asynq:quern:schedules");
    assert_int_equal(good_entries(), 1);
}

static void last_tick_far_ahead_is_a_warning(void **state)
{
    (void)state;
    put("a");
    doctor_plant("HSET " Q "quern:ticks a %s", "1 9000000000 0 0");
    doctor_assert_left_alone("I8 default/: entry a: its last tick lies ");
}

static void keys_of_another_type_are_reported(void **state)
{
    (void)state;
    put("a");
    doctor_plant("DEL " Q "quern:ticks");
    doctor_plant("SET " Q "quern:ticks x");
    doctor_assert_left_alone("I9 default/: quern:ticks is a string and must be a hash");
    doctor_plant("DEL asynq:quern:schedules");
    doctor_plant("SET asynq:quern:schedules x");
    doctor_assert_left_alone("I9 /: asynq:quern:schedules is a string and must be a set");
}

static const struct CMUnitTest tests[] = {
    DOCTOR_TEST(entry_without_a_row_starts_over),
    DOCTOR_TEST(row_without_a_definition_is_removed),
    DOCTOR_TEST(row_of_the_queue_that_cannot_be_read_is_replaced),
    DOCTOR_TEST(definition_that_cannot_be_read_is_reported),
    DOCTOR_TEST(queue_that_schedulers_do_not_find_is_listed_again),
    DOCTOR_TEST(last_tick_far_ahead_is_a_warning),
    DOCTOR_TEST(keys_of_another_type_are_reported),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_doctor_entries", .tests = tests, .test_count = TEST_COUNT(tests)};
    return doctor_main(argc, argv, &group);
}
