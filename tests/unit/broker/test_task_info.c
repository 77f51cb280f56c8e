/* SPDX-License-Identifier: MIT */
/* test_task_info.c - the snapshot of a task owns all it shows. */
#include <string.h>

#include "broker/task_info.h"
#include "lib_test.h"

/* Copies an info whose every pointer is to memory that is wiped afterwards. */
static quern_task_info *copy_of_wiped(void)
{
    char id[] = "id-1";
    char queue[] = "mail";
    char type[] = "email:welcome";
    char payload[] = {'a', '\0', 'b'};
    char result[] = {'\0', 'r'};
    char group[] = "batch";
    char error[] = "broken pipe";
    char worker[] = "worker-1";
    char note[] = "half way";
    char name[] = "trace";
    char value[] = "42";
    quern_header headers[] = {{.name = name, .value = value}, {.name = name, .value = NULL}};
    struct quern_task_info info = {.task = {.id = id,
                                            .queue = queue,
                                            .type = type,
                                            .payload = payload,
                                            .payload_size = sizeof payload,
                                            .retry_max = 7,
                                            .timeout_ms = 1000,
                                            .deadline_at_ms = 2000,
                                            .start_by_at_ms = 2500,
                                            .priority = -7,
                                            .retention_ms = 3000,
                                            .group = group,
                                            .headers = headers,
                                            .header_count = 2,
                                            .state = QUERN_TASK_RETRY},
                                   .result = result,
                                   .result_size = sizeof result,
                                   .retry_count = 3,
                                   .crash_count = 2,
                                   .error = error,
                                   .failed_at_ms = 11,
                                   .at_ms = 12,
                                   .enqueued_at_ms = 13,
                                   .started_at_ms = 14,
                                   .completed_at_ms = 15,
                                   .cause = QUERN_CAUSE_RETRY,
                                   .fence = 16,
                                   .worker = worker,
                                   .orphaned = true,
                                   .progress = 50,
                                   .progress_note = note};
    quern_task_info *copy = qn_task_info_copy(&info);
    memset(id, 'x', sizeof id - 1);
    memset(queue, 'x', sizeof queue - 1);
    memset(type, 'x', sizeof type - 1);
    memset(payload, 'x', sizeof payload);
    memset(result, 'x', sizeof result);
    memset(group, 'x', sizeof group - 1);
    memset(error, 'x', sizeof error - 1);
    memset(worker, 'x', sizeof worker - 1);
    memset(note, 'x', sizeof note - 1);
    memset(name, 'x', sizeof name - 1);
    memset(value, 'x', sizeof value - 1);
    headers[0] = (quern_header){0};
    return copy;
}

static void snapshot_outlives_what_it_was_made_of(void **state)
{
    (void)state;
    quern_task_info *info = copy_of_wiped();
    assert_non_null(info);
    assert_string_equal(quern_task_info_id(info), "id-1");
    assert_string_equal(quern_task_info_queue(info), "mail");
    assert_string_equal(quern_task_info_type(info), "email:welcome");
    assert_string_equal(quern_task_info_group(info), "batch");
    assert_string_equal(quern_task_info_error(info), "broken pipe");
    assert_string_equal(quern_task_info_worker(info), "worker-1");
    assert_string_equal(quern_task_info_progress_note(info), "half way");
    size_t size = 0;
    assert_memory_equal(quern_task_info_payload(info, &size), "a\0b\0", 4);
    assert_int_equal(size, 3);
    assert_memory_equal(quern_task_info_result(info, &size), "\0r\0", 3);
    assert_int_equal(size, 2);
    assert_int_equal(quern_task_info_header_count(info), 2);
    assert_string_equal(quern_task_info_headers(info)[0].name, "trace");
    assert_string_equal(quern_task_info_headers(info)[0].value, "42");
    assert_string_equal(quern_task_info_headers(info)[1].name, "trace");
    assert_null(quern_task_info_headers(info)[1].value);
    quern_task_info_free(info);
}

static void moment_of_a_state_is_shown_under_its_own_name(void **state)
{
    (void)state;
    const struct {
        quern_task_state state;
        int64_t moments[4]; /* due, archived, expires, grouped */
    } rows[] = {
        {QUERN_TASK_PENDING, {0}},
        {QUERN_TASK_ACTIVE, {0}},
        {QUERN_TASK_SCHEDULED, {12}},
        {QUERN_TASK_RETRY, {12}},
        {QUERN_TASK_ARCHIVED, {0, 12}},
        {QUERN_TASK_COMPLETED, {0, 0, 12}},
        {QUERN_TASK_AGGREGATING, {0, 0, 0, 12}},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const struct quern_task_info info = {.task.state = rows[i].state, .at_ms = 12};
        assert_int_equal(quern_task_info_due_at_ms(&info), rows[i].moments[0]);
        assert_int_equal(quern_task_info_archived_at_ms(&info), rows[i].moments[1]);
        assert_int_equal(quern_task_info_expires_at_ms(&info), rows[i].moments[2]);
        assert_int_equal(quern_task_info_grouped_at_ms(&info), rows[i].moments[3]);
    }
}

static void each_accessor_reads_its_own_field(void **state)
{
    (void)state;
    quern_task_info *info = copy_of_wiped();
    assert_non_null(info);
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_RETRY);
    assert_int_equal(quern_task_info_retry_max(info), 7);
    assert_int_equal(quern_task_info_retry_count(info), 3);
    assert_int_equal(quern_task_info_crash_count(info), 2);
    assert_int_equal(quern_task_info_failed_at_ms(info), 11);
    assert_int_equal(quern_task_info_timeout_ms(info), 1000);
    assert_int_equal(quern_task_info_deadline_at_ms(info), 2000);
    assert_int_equal(quern_task_info_start_by_at_ms(info), 2500);
    assert_int_equal(quern_task_info_priority(info), -7);
    assert_int_equal(quern_task_info_retention_ms(info), 3000);
    assert_int_equal(quern_task_info_due_at_ms(info), 12);
    assert_int_equal(quern_task_info_archived_at_ms(info), 0);
    assert_int_equal(quern_task_info_expires_at_ms(info), 0);
    assert_int_equal(quern_task_info_grouped_at_ms(info), 0);
    assert_int_equal(quern_task_info_enqueued_at_ms(info), 13);
    assert_int_equal(quern_task_info_started_at_ms(info), 14);
    assert_int_equal(quern_task_info_completed_at_ms(info), 15);
    assert_int_equal(quern_task_info_cause(info), QUERN_CAUSE_RETRY);
    assert_int_equal(quern_task_info_fence(info), 16);
    assert_true(quern_task_info_orphaned(info));
    assert_int_equal(quern_task_info_progress(info), 50);
    quern_task_info_free(info);
}

static void missing_texts_read_as_empty(void **state)
{
    (void)state;
    const struct quern_task_info bare = {.task = {.id = "a", .queue = "q", .type = "t"}};
    quern_task_info *info = qn_task_info_copy(&bare);
    assert_non_null(info);
    assert_string_equal(quern_task_info_error(info), "");
    assert_string_equal(quern_task_info_group(info), "");
    assert_string_equal(quern_task_info_worker(info), "");
    assert_string_equal(quern_task_info_progress_note(info), "");
    assert_int_equal(quern_task_info_header_count(info), 0);
    size_t size = 99;
    assert_null(quern_task_info_result(info, &size));
    assert_int_equal(size, 0);
    assert_string_equal(quern_task_info_payload(info, NULL), "");
    quern_task_info_free(info);
    quern_task_info_free(NULL);
}

static void empty_result_is_not_a_missing_one(void **state)
{
    (void)state;
    const struct quern_task_info empty = {.task = {.id = "a", .queue = "q", .type = "t"},
                                          .result = ""};
    quern_task_info *info = qn_task_info_copy(&empty);
    assert_non_null(info);
    size_t size = 99;
    assert_non_null(quern_task_info_result(info, &size));
    assert_int_equal(size, 0);
    quern_task_info_free(info);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(snapshot_outlives_what_it_was_made_of),
    cmocka_unit_test(moment_of_a_state_is_shown_under_its_own_name),
    cmocka_unit_test(each_accessor_reads_its_own_field),
    cmocka_unit_test(missing_texts_read_as_empty),
    cmocka_unit_test(empty_result_is_not_a_missing_one),
};
TEST_MAIN(tests)
