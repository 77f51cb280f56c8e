/* SPDX-License-Identifier: MIT */
/* test_trash.c - a check finds what is broken in the trash of an SQLite file, and repairs it: no
 * deleted task is lost before its day is over, and none stays for ever. */
#include <string.h>

#include "lib_doctor.h"
#include "quern/search.h"

static void delete_two(struct contract *c)
{
    quern_error err = {0};
    contract_enqueue(
        c, &(quern_task){
               .type = "t", .id = "a", .payload = "data", .payload_size = 4, .delay_ms = 60000});
    contract_put(c, "default", "b");
    for (const char *id = "ab"; *id != '\0'; id++) {
        const char name[2] = {*id, '\0'};
        assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_TRASH, "default", name, &err), err);
    }
    doctor_assert_healthy(c);
}

static quern_matching restore_all(struct contract *c)
{
    quern_error err = {0};
    quern_matching matching = {0};
    const quern_search search = {.in_trash = 1};
    quern_inspector *inspector = contract_open_inspector(c);
    assert_ok(
        quern_inspector_act_matching(inspector, QUERN_ACTION_RESTORE, &search, &matching, &err),
        err);
    quern_inspector_free(inspector);
    return matching;
}

static void deleted_task_that_no_trash_lists_is_listed_for_a_day(struct contract *c)
{
    delete_two(c);
    doctor_plant(c, "DELETE FROM quern_trash WHERE seq ="
                    " (SELECT seq FROM quern_task WHERE id = 'a')");
    doctor_assert_mended(c, "I11 default/a: it is deleted, but no trash lists it");
    assert_int_equal(restore_all(c).done, 2);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_SCHEDULED);
    doctor_assert_healthy(c);
}

static void list_of_a_task_that_is_gone_or_alive_is_shortened(struct contract *c)
{
    delete_two(c);
    doctor_plant(c, "DELETE FROM quern_task WHERE id = 'a'");
    doctor_assert_mended(c, "I11 default/: the trash lists a task that does not exist");
    doctor_plant(c, "UPDATE quern_task SET queue = -queue WHERE id = 'b'");
    doctor_assert_mended(c, "I11 default/b: the trash lists a task that is not deleted");
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_PENDING);
    assert_int_equal(restore_all(c).matched, 0);
}

static void task_in_the_list_of_another_queue_is_in_its_own(struct contract *c)
{
    delete_two(c);
    contract_put(c, "other", "c");
    doctor_plant(c, "UPDATE quern_trash SET queue = (SELECT no FROM quern_queue WHERE name ="
                    " 'other') WHERE seq = (SELECT seq FROM quern_task WHERE id = 'b')");
    doctor_assert_mended(c, "I11 default/b: the trash of another queue lists it");
    assert_int_equal(restore_all(c).done, 2);
}

static void use_of_the_trash_is_counted_again(struct contract *c)
{
    delete_two(c);
    doctor_plant(c, "UPDATE quern_queue SET trash_count = 250000, trash_bytes = 7");
    doctor_assert_mended(c, "I11 default/: its trash is noted as 250000 tasks with 7 bytes, not as "
                            "2 with 1028");
    doctor_plant(c, "UPDATE quern_trash SET size = 9223372036854775807");
    struct doctor_report report;
    doctor_check(c, true, &report);
    doctor_assert_healthy(c);
    assert_int_equal(restore_all(c).done, 2);
}

static void task_that_would_stay_in_the_trash_for_years_goes_after_a_day(struct contract *c)
{
    delete_two(c);
    doctor_plant(c, "UPDATE quern_trash SET until_ms = until_ms + 31536000000");
    doctor_assert_mended(c, "I11 default/a: it is kept in the trash for 8784 hours more");
    contract_advance(c, QN_TRASH_MS + 1);
    assert_int_equal(restore_all(c).done, 0);
}

static void trash_of_a_missing_queue_comes_with_it(struct contract *c)
{
    delete_two(c);
    doctor_plant(c, "UPDATE quern_task SET queue = -77; UPDATE quern_trash SET queue = 77;"
                    "DELETE FROM quern_queue WHERE name = 'default'");
    doctor_assert_mended(c, "I6 recovered-77/: 2 tasks belong to queue number 77");
    assert_int_equal(restore_all(c).done, 2);
    contract_finish(c, contract_take_id(c, "recovered-77", "b"), QN_DONE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("sqlite", deleted_task_that_no_trash_lists_is_listed_for_a_day),
    CONTRACT_TEST_ONLY("sqlite", list_of_a_task_that_is_gone_or_alive_is_shortened),
    CONTRACT_TEST_ONLY("sqlite", task_in_the_list_of_another_queue_is_in_its_own),
    CONTRACT_TEST_ONLY("sqlite", use_of_the_trash_is_counted_again),
    CONTRACT_TEST_ONLY("sqlite", task_that_would_stay_in_the_trash_for_years_goes_after_a_day),
    CONTRACT_TEST_ONLY("sqlite", trash_of_a_missing_queue_comes_with_it),
};
CONTRACT_MAIN(tests)
