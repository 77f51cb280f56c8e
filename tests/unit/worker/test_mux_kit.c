/* SPDX-License-Identifier: MIT */
/* test_mux_kit.c - quern_test_run_handler: handlers without a broker. */
#include <poll.h>
#include <string.h>

#include "lib_test.h"
#include "quern/testing.h"

static quern_outcome everything(quern_run *run, const quern_task *task, void *user)
{
    quern_error error = {0};
    *(int *)user += 1;
    if (strcmp(quern_run_task_id(run), "id") != 0 || strcmp(quern_run_queue(run), "default") != 0 ||
        quern_run_retry_count(run) != 3 || quern_run_crash_count(run) != 1 ||
        quern_run_fence(run) != 9 || quern_run_deadline_at_ms(run) != 77 ||
        quern_run_cause(run) != QUERN_CAUSE_RETRY || task->retry_max != 25 ||
        quern_run_cancelled(run) || strcmp(quern_run_cancel_reason(run), "") != 0) {
        return quern_run_fail(run, QUERN_DROP, "wrong");
    }
    if (quern_run_write_result(run, task->payload, task->payload_size, &error) != QUERN_OK ||
        quern_run_write_progress(run, 30, "a note", &error) != QUERN_OK) {
        return quern_run_fail(run, QUERN_DROP, "%s", error.text);
    }
    (void)quern_run_again_in(run, 1234);
    return quern_run_fail(run, QUERN_RETRY, "bad \xff byte");
}

static void a_handler_sees_its_run_and_its_actions_are_recorded(void **state)
{
    (void)state;
    int calls = 0;
    quern_error error = {0};
    quern_test_run *run = NULL;
    const quern_task task = {.type = "t", .id = "id", .payload = "abc", .payload_size = 3};
    const quern_test_run_options options = {.retry_count = 3,
                                            .crash_count = 1,
                                            .fence = 9,
                                            .deadline_at_ms = 77,
                                            .cause = QUERN_CAUSE_RETRY};
    assert_ok(quern_test_run_handler(everything, &task, &calls, &options, &run, &error), error);
    assert_int_equal(calls, 1);
    assert_int_equal(quern_test_run_outcome(run), QUERN_RETRY);
    assert_string_equal(quern_test_run_error(run), "bad \xef\xbf\xbd byte");
    size_t size = 0;
    assert_memory_equal(quern_test_run_result(run, &size), "abc", 3);
    assert_int_equal(size, 3);
    assert_int_equal(quern_test_run_again_in_ms(run), 1234);
    assert_int_equal(quern_test_run_progress(run), 30);
    quern_test_run_free(run);
}

static quern_outcome leaves_a_checkpoint(quern_run *run, const quern_task *task, void *user)
{
    quern_error error = {0};
    bool *refused = user;
    (void)task;
    if (quern_run_change_payload(run, "first", 5, &error) != QUERN_OK ||
        quern_run_change_payload(run, "row 7", 5, &error) != QUERN_OK ||
        quern_run_change_queue(run, "slow", &error) != QUERN_OK ||
        quern_run_change_retry_max(run, QUERN_RETRY_NEVER, &error) != QUERN_OK) {
        return QUERN_DROP;
    }
    *refused = quern_run_change_queue(run, "{odd}", &error) == QUERN_E_INVALID &&
               quern_run_change_retry_max(run, -2, &error) == QUERN_E_INVALID &&
               strstr(error.text, "not -2") != NULL;
    return quern_run_fail(run, quern_run_again_at(run, 0), "not now");
}

static void a_checkpoint_is_recorded_and_what_is_refused_changes_nothing(void **state)
{
    (void)state;
    bool refused = false;
    quern_error error = {0};
    quern_test_run *run = NULL;
    const quern_task task = {.type = "t"};
    assert_ok(quern_test_run_handler(leaves_a_checkpoint, &task, &refused, NULL, &run, &error),
              error);
    assert_true(refused);
    size_t size = 0;
    assert_string_equal(quern_test_run_payload(run, &size), "row 7");
    assert_int_equal(size, 5);
    assert_string_equal(quern_test_run_queue(run), "slow");
    assert_int_equal(quern_test_run_retry_max(run), 0);
    assert_int_equal(quern_test_run_outcome(run), QUERN_SNOOZE);
    assert_int_equal(quern_test_run_again_in_ms(run), 0);
    assert_string_equal(quern_test_run_error(run), "not now");
    quern_test_run_free(run);
}

static quern_outcome changes_nothing(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

static void without_a_checkpoint_the_task_stays_as_it_is(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_test_run *run = NULL;
    const quern_task task = {.type = "t"};
    assert_ok(quern_test_run_handler(changes_nothing, &task, NULL, NULL, &run, &error), error);
    assert_null(quern_test_run_payload(run, NULL));
    assert_null(quern_test_run_queue(run));
    assert_int_equal(quern_test_run_retry_max(run), -1);
    quern_test_run_free(run);
}

static quern_outcome expects_cancel(quern_run *run, const quern_task *task, void *user)
{
    (void)user;
    struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    bool told = poll(&cancel, 1, 0) == 1 && quern_run_cancelled(run) &&
                strcmp(quern_run_cancel_reason(run), "cancelled") == 0;
    /* The value for "none" in a task means "none" here, too, and not "the default". */
    bool view = task->retry_max == QUERN_RETRY_NEVER && task->timeout_ms == QUERN_TIMEOUT_NEVER;
    return told && view ? QUERN_DONE : QUERN_DROP;
}

static void a_run_can_be_cancelled_from_the_start(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_test_run *run = NULL;
    const quern_task task = {
        .type = "t", .retry_max = QUERN_RETRY_NEVER, .timeout_ms = QUERN_TIMEOUT_NEVER};
    const quern_test_run_options options = {.cancelled = true};
    assert_ok(quern_test_run_handler(expects_cancel, &task, NULL, &options, &run, &error), error);
    assert_int_equal(quern_test_run_outcome(run), QUERN_DONE);
    assert_string_equal(quern_test_run_error(run), "");
    assert_null(quern_test_run_result(run, NULL));
    assert_int_equal(quern_test_run_again_in_ms(run), -1);
    assert_int_equal(quern_test_run_progress(run), -1);
    quern_test_run_free(run);
}

static quern_outcome misuse(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    quern_error error = {0};
    char note[258];
    memset(note, 'n', 257);
    note[257] = '\0';
    bool refused = quern_run_write_progress(run, 101, NULL, &error) == QUERN_E_INVALID &&
                   quern_run_write_progress(run, -1, NULL, &error) == QUERN_E_INVALID &&
                   quern_run_write_progress(run, 1, note, &error) == QUERN_E_INVALID &&
                   quern_run_write_progress(run, 1, "\xff", &error) == QUERN_E_INVALID &&
                   quern_run_write_result(run, NULL, 1, &error) == QUERN_E_INVALID &&
                   quern_run_write_result(run, NULL, 0, &error) == QUERN_OK;
    return quern_run_fail(run, refused ? QUERN_ARCHIVE : QUERN_DROP, "%05000d", 1);
}

static void misuse_is_refused_and_long_errors_are_cut(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_test_run *run = NULL;
    const quern_task task = {.type = "t"};
    assert_ok(quern_test_run_handler(misuse, &task, NULL, NULL, &run, &error), error);
    assert_int_equal(quern_test_run_outcome(run), QUERN_ARCHIVE);
    assert_int_equal(strlen(quern_test_run_error(run)), 4096);
    quern_test_run_free(run);
}

static void bad_tasks_and_options_are_refused(void **state)
{
    (void)state;
    quern_error error = {0};
    quern_test_run *run = NULL;
    const quern_task task = {.type = "t"};
    const quern_task blank = {.type = " "};
    const quern_test_run_options cause = {.cause = 99};
    const quern_test_run_options negative = {.retry_count = -1};
    const quern_test_run_options reserved = {.reserved = {0, 0, 1}};
    assert_int_equal(quern_test_run_handler(misuse, &blank, NULL, NULL, &run, &error),
                     QUERN_E_INVALID);
    assert_int_equal(quern_test_run_handler(NULL, &task, NULL, NULL, &run, &error),
                     QUERN_E_INVALID);
    assert_int_equal(quern_test_run_handler(misuse, &task, NULL, &cause, &run, &error),
                     QUERN_E_INVALID);
    assert_int_equal(quern_test_run_handler(misuse, &task, NULL, &negative, &run, &error),
                     QUERN_E_INVALID);
    assert_int_equal(quern_test_run_handler(misuse, &task, NULL, &reserved, &run, &error),
                     QUERN_E_INVALID);
    assert_null(run);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_handler_sees_its_run_and_its_actions_are_recorded),
    cmocka_unit_test(a_checkpoint_is_recorded_and_what_is_refused_changes_nothing),
    cmocka_unit_test(without_a_checkpoint_the_task_stays_as_it_is),
    cmocka_unit_test(a_run_can_be_cancelled_from_the_start),
    cmocka_unit_test(misuse_is_refused_and_long_errors_are_cut),
    cmocka_unit_test(bad_tasks_and_options_are_refused),
};
TEST_MAIN(tests)
