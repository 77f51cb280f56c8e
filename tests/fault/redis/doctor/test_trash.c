/* SPDX-License-Identifier: MIT */
/* test_trash.c - what is broken in the trash of a queue on a server that is checked. */
#include "lib_doctor.h"

#include "broker/trash/trash.h"

#define TASKS 450 /* more than two pages of the check */

static void put_into_trash(const char *id)
{
    quern_error err = {0};
    doctor_put_later(id, 60000);
    assert_ok(qn_broker_operate(doctor.broker, QUERN_ACTION_TRASH, "default", id, &err), err);
}

static enum qn_trash_result restore(const char *id)
{
    quern_error err = {0};
    enum qn_trash_result result = QN_TRASH_MISSING;
    const struct qn_found item = {.id = id};
    const struct qn_trash_list list = {
        .action = QUERN_ACTION_RESTORE, .queue = "default", .items = &item, .count = 1};
    assert_ok(qn_broker_trash_act(doctor.broker, &list, &result, &err), err);
    return result;
}

static struct qn_trash_use use_now(void)
{
    quern_error err = {0};
    struct qn_trash_use use = {0};
    assert_ok(qn_broker_trash_use(doctor.broker, "default", &use, &err), err);
    return use;
}

static void entry_without_data_is_removed(void **state)
{
    (void)state;
    put_into_trash("a");
    put_into_trash("b");
    doctor_assert_healthy();
    struct qn_trash_use before = use_now();
    doctor_plant("DEL " Q "quern:trash:a");
    doctor_assert_mended("I11 default/a: it is in the trash, but its data are gone");
    assert_int_equal(use_now().count, 1);
    assert_int_equal(use_now().bytes, before.bytes / 2);
    assert_int_equal(restore("b"), QN_TRASH_DONE);
    doctor_assert_healthy();
}

static void entry_that_names_no_task_is_removed(void **state)
{
    (void)state;
    put_into_trash("a");
    doctor_plant("ZADD " Q "quern:trash 1900000000000 garbage");
    doctor_assert_mended("I11 default/: the trash lists garbage, which is no task");
    assert_int_equal(restore("a"), QN_TRASH_DONE);
}

static void bytes_that_are_wrong_are_counted_again(void **state)
{
    (void)state;
    put_into_trash("a");
    put_into_trash("b");
    struct qn_trash_use before = use_now();
    doctor_plant("SET " Q "quern:trash_bytes 268435456");
    doctor_assert_mended("I11 default/: quern:trash_bytes is 268435456, but what it lists has ");
    assert_int_equal(use_now().bytes, before.bytes);
    doctor_plant("DEL " Q "quern:trash_bytes");
    doctor_assert_mended("I11 default/: quern:trash_bytes is nothing, but what it lists has ");
    doctor_plant("SET " Q "quern:trash_bytes x");
    doctor_assert_mended("I11 default/: quern:trash_bytes is x, but what it lists has ");
    assert_int_equal(restore("a"), QN_TRASH_DONE);
    assert_int_equal(restore("b"), QN_TRASH_DONE);
    doctor_plant("SET " Q "quern:trash_bytes 7");
    doctor_assert_mended("I11 default/: quern:trash_bytes is 7, but what it lists has 0");
}

static void data_that_would_stay_for_ever_expire(void **state)
{
    (void)state;
    put_into_trash("a");
    doctor_plant("PERSIST " Q "quern:trash:a");
    doctor_assert_mended("I11 default/a: its data in the trash would stay for ever");
    assert_int_equal(restore("a"), QN_TRASH_DONE);
    assert_int_equal(test_redis_count(&doctor.redis, "TTL " T "a"), -1);
}

static void data_that_cannot_be_read_are_reported(void **state)
{
    (void)state;
    put_into_trash("a");
    doctor_plant("HSET " Q "quern:trash:a quern_trash x");
    doctor_assert_left_alone("I11 default/a: its data in the trash cannot be read");
}

static void large_trash_is_checked_page_by_page(void **state)
{
    (void)state;
    char id[16];
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(id, sizeof id, "t%03d", i);
        put_into_trash(id);
    }
    doctor_assert_healthy();
    for (int i = 0; i < TASKS; i += 3) {
        doctor_plant("DEL " Q "quern:trash:t%03d", i);
    }
    doctor_plant("SET " Q "quern:trash_bytes 1");
    doctor_check(true);
    assert_int_equal(doctor.report.violated, TASKS / 3 + 1);
    doctor_assert_healthy();
    assert_int_equal(use_now().count, TASKS - TASKS / 3);
    assert_int_equal(restore("t001"), QN_TRASH_DONE);
}

static void keys_of_another_type_are_reported(void **state)
{
    (void)state;
    doctor_plant("SET " Q "quern:trash x");
    doctor_assert_left_alone("I9 default/: quern:trash is a string and must be a zset");
    doctor_plant("DEL " Q "quern:trash");
    doctor_plant("SADD " Q "quern:trash_bytes x");
    doctor_assert_left_alone("I9 default/: quern:trash_bytes is a set and must be a string");
}

static const struct CMUnitTest tests[] = {
    DOCTOR_TEST(entry_without_data_is_removed),
    DOCTOR_TEST(entry_that_names_no_task_is_removed),
    DOCTOR_TEST(bytes_that_are_wrong_are_counted_again),
    DOCTOR_TEST(data_that_would_stay_for_ever_expire),
    DOCTOR_TEST(data_that_cannot_be_read_are_reported),
    DOCTOR_TEST(large_trash_is_checked_page_by_page),
    DOCTOR_TEST(keys_of_another_type_are_reported),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_doctor_trash", .tests = tests, .test_count = TEST_COUNT(tests)};
    return doctor_main(argc, argv, &group);
}
