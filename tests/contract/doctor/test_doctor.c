/* SPDX-License-Identifier: MIT */
/* test_doctor.c - a check of a damaged SQLite file finds and repairs.
 *
 * Each damage is planted with a bare connection that ignores our constraints. Then it must be found
 * under its invariant, repaired, and gone from the next check, with no task lost. Damage of the
 * file itself is in doctor/test_file.c. */
#include <string.h>

#include "base/text/number.h"
#include "broker/limit/limit.h"
#include "lib_doctor.h"
#include "quern/client.h"

#define MINUTE_MS INT64_C(60000)
#define FOREIGN_OWNER "11111111-2222-3333-4444-555555555555:1:2:3"

/* --- Health ------------------------------------------------------------------------------- */

static void busy_broker_is_healthy(struct contract *c)
{
    const quern_header headers[] = {{"trace", "42"}};
    contract_finish(c, contract_start(c, "retry"), QN_RETRY);
    contract_finish(c, contract_start(c, "archived"), QN_ARCHIVE);
    contract_finish(c, contract_start(c, "suspect"), QN_CRASH);
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .queue = "other",
                                      .id = "completed",
                                      .retention_ms = MINUTE_MS,
                                      .unique_ms = MINUTE_MS});
    contract_finish(c, contract_take_id(c, "other", "completed"), QN_DONE);
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .id = "scheduled",
                                      .delay_ms = MINUTE_MS,
                                      .unique_ms = MINUTE_MS,
                                      .headers = headers,
                                      .header_count = 1});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "grouped", .group = "g"});
    contract_put(c, "other", "active");
    struct qn_leased *active = contract_take_id(c, "other", "active");
    contract_put(c, "other", "lost");
    struct qn_leased *lost = contract_take_id(c, "other", "lost");
    contract_expire(c, "other");
    contract_put(c, "other", "pending");
    doctor_assert_healthy(c);
    struct doctor_report report;
    doctor_check(c, true, &report);
    assert_int_equal(report.violated + report.warned + report.repaired, 0);
    qn_leased_free(active);
    qn_leased_free(lost);
}

static void notes_report_what_is_worth_knowing(struct contract *c)
{
    contract_put(c, "unserved", "a");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "grouped", .group = "g"});
    doctor_plant(c, "CREATE TABLE app (id INTEGER); INSERT INTO app VALUES (1)");
    struct doctor_report report;
    doctor_check(c, true, &report);
    assert_int_equal(report.violated + report.warned, 0);
    doctor_assert_line(&report,
                       "note unserved/: 1 task is pending, and no worker serves the queue");
    doctor_assert_line(&report, "note default/: 1 task is aggregating");
    doctor_assert_line(&report, "note /: the file also holds 1 table of others");
    doctor_assert_line(&report, "note /: durability D1");
}

/* --- Clocks ------------------------------------------------------------------------------- */

static void delays_dated_by_a_clock_that_was_set_are_put_right(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    contract_jump(c, 60 * MINUTE_MS);
    contract_finish(c, run, QN_RETRY); /* due in a minute */
    contract_jump(c, -60 * MINUTE_MS);
    doctor_assert_mended(c, "I8 default/: 1 delayed task waits for the wall clock as it was");
    assert_int_equal(contract_inspect(c, "default", "a").at_ms, CONTRACT_NOW_MS + MINUTE_MS);
}

static void retry_of_an_older_file_that_failed_in_the_future_is_put_right(struct contract *c)
{
    contract_finish(c, contract_start(c, "a"), QN_RETRY);
    doctor_plant(c, "UPDATE quern_task SET due_boot_ms = 0, at_ms = at_ms + 3600000,"
                    " failed_at_ms = failed_at_ms + 3600000");
    doctor_assert_mended(c, "I8 default/a: its failure is dated 3600 s ahead of the clock");
    assert_int_equal(contract_inspect(c, "default", "a").at_ms, CONTRACT_NOW_MS + MINUTE_MS);
}

/* --- Tasks -------------------------------------------------------------------------------- */

static void active_task_without_a_lease_is_pending_again(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    doctor_plant(c, "UPDATE quern_task SET lease_until = 0");
    doctor_assert_mended(c, "I3 default/a: active without a lease");
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.cause, QUERN_CAUSE_BROKER_LOST);
    assert_int_equal(contract_report(c, run, QN_DONE), QN_STALE);
    qn_leased_free(run);
}

static void active_task_without_a_token_is_pending_again(struct contract *c)
{
    qn_leased_free(contract_start(c, "a"));
    doctor_plant(c, "UPDATE quern_task SET token = 0");
    doctor_assert_mended(c, "I3 default/a: active without a token");
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
}

static void active_task_of_a_missing_worker_is_pending_again(struct contract *c)
{
    contract_put(c, "default", "first");
    contract_put(c, "default", "second");
    qn_leased_free(contract_take_id(c, "default", "first"));
    doctor_plant(c, "UPDATE quern_task SET worker = 4711 WHERE state = 1");
    doctor_assert_mended(c, "I3 default/first: active, but its worker number 4711 is missing");
    /* At its old place, before what came later. */
    qn_leased_free(contract_take_id(c, "default", "first"));
}

static void marks_of_a_run_on_a_waiting_task_are_wiped(struct contract *c)
{
    contract_put(c, "default", "a");
    doctor_plant(c, "UPDATE quern_task SET lease_until = 99, worker = 1, started = 1, cancel = 2");
    doctor_assert_mended(c, "I3 default/a: not active, but with the marks of a run");
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void second_task_with_the_same_token_is_pending_again(struct contract *c)
{
    struct qn_leased *first = contract_start(c, "a");
    qn_leased_free(contract_start(c, "b"));
    doctor_plant(c, "UPDATE quern_task SET token = (SELECT token FROM quern_task WHERE id = 'a')");
    doctor_assert_mended(c, "I7 default/b: active with token");
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_PENDING);
    assert_int_equal(contract_finish(c, first, QN_DONE), QN_APPLIED);
}

static void task_in_no_state_goes_to_the_archive(struct contract *c)
{
    contract_put(c, "default", "a");
    doctor_plant(c, "UPDATE quern_task SET state = 12");
    doctor_assert_mended(c, "I1 default/a: its state is 12, which is none");
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_string_equal(view.error, "its state was 12");
}

static void aggregating_task_without_a_group_is_pending(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .group = "g"});
    doctor_plant(c, "UPDATE quern_task SET grp = NULL");
    doctor_assert_mended(c, "I6 default/a: aggregating, but in no group");
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void retries_beyond_the_limit_are_cut(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retry_max = 2});
    doctor_plant(c, "UPDATE quern_task SET retry_count = 9, crash_count = -1");
    doctor_assert_mended(c, "I7 default/a: 9 retries of 2, -1 deaths");
    assert_int_equal(contract_inspect(c, "default", "a").retry_count, 2);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
}

static void garbage_in_the_deaths_of_a_task_is_cut(struct contract *c)
{
    contract_put(c, "default", "a");
    doctor_plant(c,
                 "UPDATE quern_task SET crash_count = 3, lone = 9, life_ms = 9223372036854775807,"
                 " crashed_at_ms = -9223372036854775807, died_at_ms = 9223372036854775807");
    struct qn_leased *run = contract_take_id(c, "default", "a"); /* its level is NULL */
    assert_true(run->life_ms <= QN_DURATION_MS_MAX);
    assert_int_equal(run->level, 3);
    contract_finish(c, run, QN_GIVE_BACK);
    doctor_plant(c, "UPDATE quern_task SET level = 9223372036854775807");
    contract_finish(c, contract_take_id(c, "default", "a"), QN_GIVE_BACK);
    doctor_assert_mended(c, "I7 default/a: 0 retries of 25, 3 deaths, 9 of them alone");
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void garbage_in_a_brake_is_forgotten(struct contract *c)
{
    contract_put(c, "default", "a");
    doctor_plant(c,
                 "INSERT INTO quern_host VALUES ((SELECT no FROM quern_queue"
                 " WHERE name = 'default'), '" CONTRACT_HOST "', 9223372036854775807,"
                 " 9223372036854775807, -1, 9223372036854775807, 5, 0), (77, 'gone', 0, 1, 0, 0, 0,"
                 " 0)");
    contract_finish(c, contract_take_id(c, "default", "a"), QN_GIVE_BACK);
    doctor_assert_mended(c, "I7 default/: its brake on host " CONTRACT_HOST);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void solo_lock_that_would_be_held_for_ever_is_free(struct contract *c)
{
    doctor_plant(c, "UPDATE quern_queue SET solo_owner = 'w', solo_since_ms = 5,"
                    " solo_until_ms = 9223372036854775807 WHERE name = 'default'");
    contract_put(c, "default", "a");
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    doctor_assert_mended(c, "I7 default/: its solo lock is held");
}

static void damaged_headers_are_reported_and_do_not_hide_the_task(struct contract *c)
{
    contract_put(c, "default", "before");
    contract_put(c, "default", "damaged");
    contract_put(c, "default", "after");
    doctor_plant(c, "UPDATE quern_task SET headers = x'61626300' WHERE id = 'damaged'");
    doctor_assert_left_alone(c, "I2 default/damaged: its headers cannot be read");
    assert_int_equal(contract_state(c, "default", "damaged"), QUERN_TASK_PENDING);
    quern_inspector *inspector = NULL;
    quern_task_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_open(c->url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_tasks(inspector, NULL, &list, &err), err);
    assert_int_equal(quern_task_list_size(list), 3);
    assert_int_equal(quern_task_info_header_count(quern_task_list_at(list, 1)), 0);
    quern_task_list_free(list);
    quern_inspector_free(inspector);
}

static void blank_type_is_reported(struct contract *c)
{
    contract_put(c, "default", "a");
    doctor_plant(c, "UPDATE quern_task SET type = '  '");
    doctor_assert_left_alone(c, "I2 default/a: its type is blank or not a name");
}

/* --- Queues and counters -------------------------------------------------------------------- */

static void missing_queue_is_made_again_with_its_counts(struct contract *c)
{
    contract_put(c, "lost", "done");
    contract_finish(c, contract_take_id(c, "lost", "done"), QN_ARCHIVE);
    contract_put(c, "lost", "a");
    doctor_plant(c, "UPDATE quern_task SET queue = 77; UPDATE quern_day SET queue = 77;"
                    "DELETE FROM quern_queue WHERE name = 'lost'");
    doctor_assert_mended(c,
                         "I6 recovered-77/: 2 tasks belong to queue number 77, which is missing");
    contract_assert_counted(c, "recovered-77", 1, 1);
    contract_finish(c, contract_take_id(c, "recovered-77", "a"), QN_DONE);
}

static void queue_made_again_takes_a_free_name(struct contract *c)
{
    contract_put(c, "recovered-77", "mine");
    contract_put(c, "lost", "a");
    doctor_plant(c, "UPDATE quern_task SET queue = 77 WHERE id = 'a';"
                    "DELETE FROM quern_queue WHERE name = 'lost'");
    doctor_assert_mended(c, "I6 recovered-77/: 1 task belongs to queue number 77");
    assert_int_equal(contract_queue(c, "recovered-77").size, 1);
    assert_int_equal(contract_state(c, NULL, "a"), QUERN_TASK_PENDING);
}

static void days_of_a_missing_queue_are_removed(struct contract *c)
{
    doctor_plant(c, "INSERT INTO quern_day (queue, day, processed) VALUES (77, 1, 5)");
    doctor_assert_mended(c, "I6 /: 1 day is counted for queue number 77, which is missing");
}

static void kinds_of_limits_are_noted_again(struct contract *c)
{
    const quern_limit limits[] = {
        {.queue = "default", .scope = QUERN_LIMIT_SEMAPHORE, .name = "smtp", .count = 1},
        {.queue = "default", .scope = QUERN_LIMIT_QUEUE, .name = "", .count = 7},
        {.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_QUEUE, .name = "", .count = 8}};
    quern_error err = {0};
    struct qn_leased *runs[4];
    for (size_t i = 0; i < TEST_COUNT(limits); i++) {
        assert_ok(qn_broker_set_limit(c->broker, &limits[i], &err), err);
    }
    contract_put_many(c, "default", "a", 2);
    doctor_assert_healthy(c);
    doctor_plant(c, "UPDATE quern_queue SET limits = 1");
    doctor_assert_mended(c, "I6 default/: the kinds of its limits are noted as 1, not as 4161");
    assert_int_equal(contract_lease(c, "default", 4, runs), 1);
    contract_finish(c, runs[0], QN_DONE);
}

static void wrong_counters_are_set_right(struct contract *c)
{
    contract_finish(c, contract_start(c, "a"), QN_DONE);
    doctor_plant(c, "UPDATE quern_day SET failed = 4");
    doctor_assert_mended(c, "I5 default/: on day 2027-01-15 4 failed of 1 processed");
    contract_assert_counted(c, "default", 4, 4);
    doctor_plant(c, "UPDATE quern_queue SET failed = 9 WHERE name = 'default'");
    doctor_assert_mended(c, "I5 default/: 9 failed of 4 processed in all; the days sum to 4 of 4");
    assert_int_equal(contract_queue(c, "default").processed_total, 9);
    doctor_plant(c, "UPDATE quern_queue SET processed = 0, failed = 0 WHERE name = 'default'");
    doctor_assert_mended(c, "I5 default/: 0 failed of 0 processed in all");
    assert_int_equal(contract_queue(c, "default").processed_total, 4);
}

static void counter_that_fell_behind_is_raised(struct contract *c)
{
    contract_put_many(c, "default", "t", 5);
    doctor_plant(c, "UPDATE quern_meta SET counter = 1");
    doctor_assert_mended(c, "I7 /: the counter is 1, but");
    struct qn_leased *run = contract_take(c, "default");
    assert_true(run->token > 5);
    qn_leased_free(run);
}

/* Near its end, or below 0: what needs a number reports the damage, and the repair gives one. */
static void counter_that_cannot_count_on_is_set_right(struct contract *c)
{
    static const char *const counters[] = {"9223372036854775807", "9223372036854775800",
                                           "-9223372036854775808", "-1"};
    const quern_task task = {.type = "t"};
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(c->url, NULL, &client, &err), err);
    for (size_t i = 0; i < TEST_COUNT(counters); i++) {
        char sql[100];
        char finding[100];
        (void)snprintf(sql, sizeof sql, "UPDATE quern_meta SET counter = %s", counters[i]);
        (void)snprintf(finding, sizeof finding, "I7 /: the counter is %.8s", counters[i]);
        doctor_plant(c, sql);
        quern_status status = QUERN_OK;
        while (status == QUERN_OK) { /* some numbers may be left */
            status = quern_client_enqueue(client, &task, NULL, &err);
        }
        assert_int_equal(status, QUERN_E_CORRUPT);
        assert_non_null(strstr(err.text, "the counter in quern_meta is damaged"));
        doctor_assert_mended(c, finding);
        assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    }
    quern_client_free(client);
}

/* --- Locks ----------------------------------------------------------------------------------- */

static void locks_that_guard_no_task_are_removed(struct contract *c)
{
    quern_task task = {.type = "t", .id = "a", .unique_ms = MINUTE_MS};
    contract_enqueue(c, &task);
    doctor_assert_healthy(c);
    doctor_plant(c, "DELETE FROM quern_task");
    doctor_assert_mended(c, "names a task that does not exist");
    contract_enqueue(c, &task);
    doctor_plant(c, "UPDATE quern_task SET unique_key = 'another'");
    doctor_assert_mended(c, "names a task that has another key");
    task.id = "b";
    contract_enqueue(c, &task);
    doctor_plant(c, "UPDATE quern_task SET state = 6, at_ms = 9000000000000 WHERE id = 'b'");
    doctor_assert_mended(c, "names a completed task");
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_COMPLETED);
}

static void lock_past_its_time_is_removed(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .unique_ms = MINUTE_MS});
    contract_advance(c, 3 * MINUTE_MS);
    doctor_assert_mended(c, "expired 120 s ago");
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
}

/* --- Upkeep ----------------------------------------------------------------------------------- */

static void lapsed_leases_and_due_tasks_are_moved_where_a_worker_lives(struct contract *c)
{
    qn_leased_free(contract_start(c, "lapsed"));
    contract_enqueue(c, &(quern_task){.type = "t", .id = "due", .delay_ms = 1000});
    contract_advance(c, CONTRACT_LEASE_MS + 3000);
    struct doctor_report report;
    doctor_check(c, false, &report);
    doctor_assert_line(&report, "I8 default/: 1 lease has expired, and its task is not recovered");
    doctor_assert_mended(c, "I8 default/: 1 task is due and not pending");
    assert_int_equal(contract_state(c, "default", "lapsed"), QUERN_TASK_PENDING);
    assert_int_equal(contract_inspect(c, "default", "lapsed").cause, QUERN_CAUSE_LEASE_EXPIRED);
    assert_int_equal(contract_state(c, "default", "due"), QUERN_TASK_PENDING);
}

static void without_a_worker_nobody_is_late(struct contract *c)
{
    quern_error err = {0};
    contract_enqueue(c,
                     &(quern_task){.type = "t", .id = "due", .delay_ms = 1000, .unique_ms = 1000});
    assert_ok(qn_broker_deregister(c->broker, CONTRACT_WORKER, &err), err);
    contract_advance(c, 3 * MINUTE_MS);
    doctor_assert_healthy(c);
    doctor_plant(c, "INSERT INTO quern_worker VALUES (1, 'far', '" FOREIGN_OWNER
                    "', 'h', 1, 'active', 'default=1', 1, 0, 0, 0, -1)");
    doctor_assert_healthy(c); /* no heartbeat for long */
}

static void kept_too_long_is_a_warning_and_left_to_a_worker(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "old", .retention_ms = 1000});
    contract_finish(c, contract_take_id(c, "default", "old"), QN_DONE);
    doctor_plant(
        c, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)"
           "INSERT INTO quern_task (seq, queue, id, state, place, at_ms, retry_max, timeout_ms,"
           " enqueued_at_ms, type) SELECT 100 + i, (SELECT no FROM quern_queue"
           " WHERE name = 'other'), 'x' || i, 5, 1, 1800000000000, 1, 1, 1, 't' FROM n;"
           "UPDATE quern_meta SET counter = 100000");
    contract_advance(c, 2 * MINUTE_MS);
    doctor_assert_left_alone(c, "I8 default/: 1 completed task is past its retention");
    doctor_assert_left_alone(c, "I8 other/: the archive holds 10001 tasks, its limit is 10000");
    assert_int_equal(contract_state(c, "default", "old"), QUERN_TASK_COMPLETED);
    assert_int_equal(contract_count(c, "other", QUERN_TASK_ARCHIVED), 10001);
}

/* Limits by key and type are read from it, and leases find their tasks by it. */
static void task_without_its_lane_gets_it(struct contract *c)
{
    static const char *const ids[] = {"a", "b", "c"};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < TEST_COUNT(ids); i++) {
            contract_enqueue(c, &(quern_task){.type = "t", .id = ids[i], .limit_key = "k"});
        }
        if (round == 1) {
            doctor_plant(c, "UPDATE quern_task SET lane = iif(id = 'a', NULL, '') WHERE id < 'c'");
            doctor_assert_mended(c, "I6 default/a: without its lane");
        }
        for (size_t i = 0; i < TEST_COUNT(ids); i++) {
            contract_finish(c, contract_take(c, "default"), QN_DONE);
        }
    }
}

static void more_damages_than_one_pass_holds_are_all_mended(struct contract *c)
{
    contract_put_many(c, "default", "t", 2300);
    doctor_plant(c, "UPDATE quern_task SET state = 1, lease_until = 0");
    struct doctor_report report;
    doctor_check(c, true, &report);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 2300);
    assert_int_equal(report.repaired, 2300);
    doctor_assert_healthy(c);
    contract_finish(c, contract_take_id(c, "default", "t0000"), QN_DONE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(busy_broker_is_healthy),
    CONTRACT_TEST_ONLY("sqlite", delays_dated_by_a_clock_that_was_set_are_put_right),
    CONTRACT_TEST_ONLY("sqlite", retry_of_an_older_file_that_failed_in_the_future_is_put_right),
    CONTRACT_TEST_ONLY("sqlite", notes_report_what_is_worth_knowing),
    CONTRACT_TEST_ONLY("sqlite", active_task_without_a_lease_is_pending_again),
    CONTRACT_TEST_ONLY("sqlite", active_task_without_a_token_is_pending_again),
    CONTRACT_TEST_ONLY("sqlite", active_task_of_a_missing_worker_is_pending_again),
    CONTRACT_TEST_ONLY("sqlite", marks_of_a_run_on_a_waiting_task_are_wiped),
    CONTRACT_TEST_ONLY("sqlite", second_task_with_the_same_token_is_pending_again),
    CONTRACT_TEST_ONLY("sqlite", task_in_no_state_goes_to_the_archive),
    CONTRACT_TEST_ONLY("sqlite", aggregating_task_without_a_group_is_pending),
    CONTRACT_TEST_ONLY("sqlite", retries_beyond_the_limit_are_cut),
    CONTRACT_TEST_ONLY("sqlite", garbage_in_the_deaths_of_a_task_is_cut),
    CONTRACT_TEST_ONLY("sqlite", garbage_in_a_brake_is_forgotten),
    CONTRACT_TEST_ONLY("sqlite", solo_lock_that_would_be_held_for_ever_is_free),
    CONTRACT_TEST_ONLY("sqlite", damaged_headers_are_reported_and_do_not_hide_the_task),
    CONTRACT_TEST_ONLY("sqlite", blank_type_is_reported),
    CONTRACT_TEST_ONLY("sqlite", missing_queue_is_made_again_with_its_counts),
    CONTRACT_TEST_ONLY("sqlite", queue_made_again_takes_a_free_name),
    CONTRACT_TEST_ONLY("sqlite", days_of_a_missing_queue_are_removed),
    CONTRACT_TEST_ONLY("sqlite", kinds_of_limits_are_noted_again),
    CONTRACT_TEST_ONLY("sqlite", wrong_counters_are_set_right),
    CONTRACT_TEST_ONLY("sqlite", counter_that_fell_behind_is_raised),
    CONTRACT_TEST_ONLY("sqlite", counter_that_cannot_count_on_is_set_right),
    CONTRACT_TEST_ONLY("sqlite", locks_that_guard_no_task_are_removed),
    CONTRACT_TEST_ONLY("sqlite", lock_past_its_time_is_removed),
    CONTRACT_TEST(lapsed_leases_and_due_tasks_are_moved_where_a_worker_lives),
    CONTRACT_TEST_ONLY("sqlite", without_a_worker_nobody_is_late),
    CONTRACT_TEST_ONLY("sqlite", kept_too_long_is_a_warning_and_left_to_a_worker),
    CONTRACT_TEST_ONLY("sqlite", task_without_its_lane_gets_it),
    CONTRACT_TEST_ONLY("sqlite", more_damages_than_one_pass_holds_are_all_mended),
};
CONTRACT_MAIN(tests)
