/* SPDX-License-Identifier: MIT */
/* test_entries.c - a check of a damaged SQLite file finds entries of schedules that are damaged,
 * and those that are due while no scheduler runs. */
#include "lib_doctor.h"
#include "lib_schedule.h"

static void schedule_in_use_is_healthy(struct contract *c)
{
    (void)schedule_put(c, "e");
    (void)schedule_take(c->broker, "a");
    assert_int_equal(schedule_tick(c, "e", SCHEDULE_LAST_S + 60), QN_TICKED);
    doctor_assert_healthy(c);
}

static void entry_that_cannot_be_read_is_found_and_costs_no_other(struct contract *c)
{
    (void)schedule_put(c, "bad");
    (void)schedule_put(c, "good");
    (void)schedule_take(c->broker, "a");
    doctor_plant(c, "UPDATE quern_entry SET task = x'0102' WHERE name = 'bad'");
    doctor_assert_left_alone(c, "I10 default/: entry bad: its definition cannot be read");
    assert_int_equal(schedule_tick(c, "good", SCHEDULE_LAST_S + 60), QN_TICKED);
}

static void last_tick_ahead_of_the_clock_is_found(struct contract *c)
{
    (void)schedule_put(c, "e");
    (void)schedule_take(c->broker, "a");
    doctor_plant(c, "UPDATE quern_entry SET last_s = last_s + 864000");
    doctor_assert_left_alone(c, "I8 default/: entry e: its last tick lies ");
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_RESET), QUERN_OK);
    doctor_assert_healthy(c);
}

static void due_entries_without_a_scheduler_are_found(struct contract *c)
{
    (void)schedule_put(c, "e");
    doctor_assert_left_alone(c, "I8 default/: 1 entry of the schedule is due, and no scheduler");
    (void)schedule_take(c->broker, "a");
    doctor_assert_healthy(c);
    contract_advance(c, SCHEDULE_LEASE_MS + 1000);
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    doctor_assert_left_alone(c, "I8 default/: 1 entry of the schedule is due, and no scheduler");
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_OK);
    doctor_assert_healthy(c);
}

static void entries_of_a_missing_queue_are_recovered(struct contract *c)
{
    (void)schedule_put(c, "e");
    (void)schedule_take(c->broker, "a");
    doctor_plant(c, "UPDATE quern_entry SET queue = 99");
    doctor_assert_mended(c, "I6 recovered-99/: 1 entry of a schedule belongs to queue number 99");
}

static void history_of_a_missing_queue_is_removed(struct contract *c)
{
    (void)schedule_put(c, "e");
    (void)schedule_take(c->broker, "a");
    assert_int_equal(schedule_tick(c, "e", SCHEDULE_LAST_S + 60), QN_TICKED);
    doctor_plant(c, "UPDATE quern_tick SET queue = 99");
    doctor_assert_mended(c, "I6 /: 1 tick is in the history of queue number 99");
}

static void counter_behind_a_revision_is_raised(struct contract *c)
{
    (void)schedule_put(c, "e");
    (void)schedule_take(c->broker, "a");
    doctor_plant(c, "UPDATE quern_entry SET revision = 1000000");
    doctor_assert_mended(c, "I7 /: the counter is ");
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("sqlite", schedule_in_use_is_healthy),
    CONTRACT_TEST_ONLY("sqlite", entry_that_cannot_be_read_is_found_and_costs_no_other),
    CONTRACT_TEST_ONLY("sqlite", last_tick_ahead_of_the_clock_is_found),
    CONTRACT_TEST_ONLY("sqlite", due_entries_without_a_scheduler_are_found),
    CONTRACT_TEST_ONLY("sqlite", entries_of_a_missing_queue_are_recovered),
    CONTRACT_TEST_ONLY("sqlite", history_of_a_missing_queue_is_removed),
    CONTRACT_TEST_ONLY("sqlite", counter_behind_a_revision_is_raised),
};
CONTRACT_MAIN(tests)
