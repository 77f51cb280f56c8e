/* SPDX-License-Identifier: MIT */
/* test_fields.c - a task to asynq's message and our fields, and back: exact values, unknown fields,
 * Go's messages, and the cost of damaged fields. */
#include "base/text/number.h"
#include "broker/redis/schema/task_fields.h"

#include <string.h>

#include "lib_hex.h"
#include "lib_test.h"
#include "task/retry.h"

static const struct qn_task plain = {.id = "a",
                                     .queue = "default",
                                     .type = "t",
                                     .retry_max = 25,
                                     .timeout_ms = 60000,
                                     .state = QUERN_TASK_PENDING};

static struct qn_bytes encode(const struct qn_task *task)
{
    struct qn_bytes bytes = {0};
    assert_ok(qn_task_fields_encode(&arena, task, &bytes, &err), err);
    return bytes;
}

static struct qn_task decode(struct qn_bytes bytes, const struct qn_task_fields_opts *opts)
{
    struct qn_asynq_task message;
    struct qn_task task = {0};
    const struct qn_stored_task stored = {"default", "a", bytes, opts};
    assert_ok(qn_task_fields_decode(&arena, &stored, &message, &task, &err), err);
    return task;
}

/* The fields that enqueue stores and the lease reads: the message, and quern_opts where there are
 * any. */
static struct qn_task through_redis(const struct qn_task *task)
{
    char text[QN_FIELD_SIZE + 32] = "1800000000000 ";
    struct qn_task_fields_opts opts;
    size_t head = strlen(text);
    size_t size = qn_task_fields_opts_write(task, text + head);
    qn_task_fields_opts_read(text, head + size, &opts);
    return decode(encode(task), size > 0 ? &opts : NULL);
}

static quern_status decode_as(const char *queue, const char *id)
{
    const struct qn_stored_task stored = {queue, id, encode(&plain), NULL};
    struct qn_asynq_task message;
    struct qn_task task;
    return qn_task_fields_decode(&arena, &stored, &message, &task, &err);
}

/* --- Rows ----------------------------------------------------------------------------- */

static void plain_task_needs_no_field(void **state)
{
    (void)state;
    char text[QN_FIELD_SIZE];
    assert_int_equal(qn_task_fields_opts_write(&plain, text), 0);
}

static void what_the_message_cannot_hold_is_in_the_field(void **state)
{
    (void)state;
    struct qn_task tasks[] = {plain, plain, plain, plain, plain, plain, plain};
    char text[QN_FIELD_SIZE];
    tasks[0].timeout_ms = 1500;
    tasks[1].retention_ms = 1;
    tasks[2].deadline_at_ms = 1800000000000; /* whole, but the lease script wants to see it */
    tasks[3].retry.kind = QN_BACKOFF_FIXED;
    tasks[4].state = QUERN_TASK_SCHEDULED;
    tasks[5].state = QUERN_TASK_AGGREGATING;
    tasks[6].start_by_at_ms = 1800000000000;
    for (size_t i = 0; i < TEST_COUNT(tasks); i++) {
        assert_true(qn_task_fields_opts_write(&tasks[i], text) > 0);
    }
}

static void largest_numbers_fit_a_field(void **state)
{
    (void)state;
    struct qn_task task = plain;
    char text[QN_FIELD_SIZE];
    task.timeout_ms = task.deadline_at_ms = task.retention_ms = INT64_MAX;
    task.start_by_at_ms = INT64_MAX;
    task.retry = (quern_retry_policy)QUERN_BACKOFF_EXPONENTIAL(INT64_MAX, INT64_MAX);
    size_t size = qn_task_fields_opts_write(&task, text);
    assert_true(size > 0 && size < QN_FIELD_SIZE - 32);
    assert_int_equal(size, strlen(text));
}

static void rows_are_read_word_by_word(void **state)
{
    (void)state;
    const char *past_text = "2 1800000000001 1800000000002 1800000000003 5 1800000000000000004";
    const char *run_text = "1 1800000000005 1800000000000000006 1800000000007 host:1:w w";
    struct qn_task_fields_past past;
    struct qn_task_fields_run run;
    qn_task_fields_past_read(past_text, strlen(past_text), &past);
    assert_int_equal(past.crash_count, 2);
    assert_int_equal(past.crashed_at_ms, 1800000000001);
    assert_int_equal(past.failed_at_ms, 1800000000002);
    assert_int_equal(past.ended_at_ms, 1800000000003);
    assert_int_equal(past.cause, QUERN_CAUSE_CHILD_DIED);
    assert_int_equal(past.since_ns, 1800000000000000004);
    assert_int_equal(past.level, 2);
    static const struct {
        const char *text;
        int64_t level;
    } levels[] = {{"0 0 0 0 0 0", 0},
                  {"9 1 0 0 5 0 0 9 100 2", 4},
                  {"9 1 0 0 5 0 0 9 100 2 0", 0},
                  {"9 1 0 0 5 0 0 9 100 2 3", 3},
                  {"9 1 0 0 5 0 0 9 100 2 99999999999", 4}};
    for (size_t i = 0; i < TEST_COUNT(levels); i++) {
        qn_task_fields_past_read(levels[i].text, strlen(levels[i].text), &past);
        assert_int_equal(past.level, levels[i].level);
    }
    qn_task_fields_run_read(run_text, strlen(run_text), &run);
    assert_int_equal(run.started, 1);
    assert_int_equal(run.started_at_ms, 1800000000005);
    assert_int_equal(run.since_ns, 1800000000000000006);
    assert_int_equal(run.until_ms, 1800000000007);
    assert_int_equal(run.worker_id_size, 10);
    assert_memory_equal(run.worker_id, "host:1:w w", 10);
}

static void damaged_rows_are_zeros_not_errors(void **state)
{
    (void)state;
    const char *const texts[] = {"", " ", "x", "-1", "1e9 y", "99999999999999999999 7"};
    const int64_t firsts[] = {0, 0, 0, 0, 1, INT32_MAX};
    const int64_t seconds[] = {0, 0, 0, 0, 0, 7};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct qn_task_fields_past past;
        qn_task_fields_past_read(texts[i], strlen(texts[i]), &past);
        assert_int_equal(past.crash_count, firsts[i]);
        assert_int_equal(past.crashed_at_ms, seconds[i]);
        assert_int_equal(past.since_ns, 0);
    }
    struct qn_task_fields_opts opts;
    qn_task_fields_opts_read("1 2 3 4 77 6 7", 14, &opts);
    assert_int_equal(opts.retry.kind, QN_BACKOFF_DEFAULT);
    assert_int_equal(opts.retry.cap_ms, 7);
}

/* --- Messages ------------------------------------------------------------------------- */

static void task_survives_the_round_trip(void **state)
{
    (void)state;
    const quern_header headers[] = {{.name = "trace", .value = "a1"}};
    struct qn_task task = plain;
    task.payload = "x\0y";
    task.payload_size = 3;
    task.timeout_ms = 1500;
    task.deadline_at_ms = 1800000000001;
    task.start_by_at_ms = 1700000000003;
    task.retention_ms = 999;
    task.retry = (quern_retry_policy)QUERN_BACKOFF_EXPONENTIAL(250, 4750);
    task.unique_key = "asynq:{default}:unique:t:";
    task.group = "g";
    task.headers = headers;
    task.header_count = 1;
    struct qn_task back = through_redis(&task);
    assert_string_equal(back.id, "a");
    assert_string_equal(back.queue, "default");
    assert_string_equal(back.type, "t");
    assert_int_equal(back.payload_size, 3);
    assert_memory_equal(back.payload, "x\0y", 3);
    assert_int_equal(back.retry_max, 25);
    assert_int_equal(back.timeout_ms, 1500);
    assert_int_equal(back.deadline_at_ms, 1800000000001);
    assert_int_equal(back.start_by_at_ms, 1700000000003);
    assert_int_equal(back.retention_ms, 999);
    assert_memory_equal(&back.retry, &task.retry, sizeof task.retry);
    assert_string_equal(back.unique_key, task.unique_key);
    assert_string_equal(back.group, "g");
    assert_int_equal(back.header_count, 1);
    assert_string_equal(back.headers[0].value, "a1");
}

static void no_time_out_survives_and_go_never_sees_its_end(void **state)
{
    (void)state;
    struct qn_task task = plain;
    struct qn_asynq_task message;
    task.timeout_ms = 0;
    struct qn_bytes bytes = encode(&task);
    assert_ok(qn_asynq_task_decode(&arena, bytes.data, bytes.size, &message, &err), err);
    assert_true(message.timeout_ms > QN_DURATION_MS_MAX);
    assert_true(message.timeout_ms / 1000 <= INT64_MAX / 1000000000); /* Go's durations are ns */
    assert_int_equal(through_redis(&task).timeout_ms, 0);
    task.retry.kind = QN_BACKOFF_FIXED; /* with the field */
    assert_int_equal(through_redis(&task).timeout_ms, 0);
}

static void deadline_alone_means_no_time_out(void **state)
{
    (void)state;
    struct qn_task task = plain;
    task.timeout_ms = 0;
    task.deadline_at_ms = 1800000000000;
    struct qn_task back = through_redis(&task);
    assert_int_equal(back.timeout_ms, 0);
    assert_int_equal(back.deadline_at_ms, 1800000000000);
}

static void message_of_go_without_limits_has_30_minutes(void **state)
{
    (void)state;
    /* type "t", id "a", queue "default", retry 25 */
    struct qn_bytes bytes = test_from_hex(&arena, "0a01741a0161220764656661756c742819");
    assert_int_equal(decode(bytes, NULL).timeout_ms, 30 * 60 * 1000);
}

static void negative_numbers_of_go_are_harmless(void **state)
{
    (void)state;
    const struct qn_asynq_task message = {.type = "t",
                                          .id = "a",
                                          .queue = "default",
                                          .retry_max = -3,
                                          .timeout_ms = -5000,
                                          .deadline_at_ms = -62135596800000,
                                          .retention_ms = -1000};
    struct qn_bytes bytes = {0};
    assert_ok(qn_asynq_task_encode(&arena, &message, &bytes, &err), err);
    struct qn_task task = decode(bytes, NULL);
    assert_int_equal(task.retry_max, 0);
    assert_int_equal(task.timeout_ms, 0);
    assert_int_equal(task.deadline_at_ms, 1); /* past */
    assert_int_equal(task.retention_ms, 0);
}

static void what_go_has_changed_is_right(void **state)
{
    (void)state;
    const struct qn_task_fields_opts opts = {.timeout_ms = 1500, .retention_ms = 700};
    struct qn_task task = plain;
    task.timeout_ms = 90000;
    task.retention_ms = 1000;
    struct qn_task back = decode(encode(&task), &opts);
    assert_int_equal(back.timeout_ms, 90000);
    assert_int_equal(back.retention_ms, 700);
}

static void message_of_another_task_is_corrupt(void **state)
{
    (void)state;
    assert_int_equal(decode_as("default", "a"), QUERN_OK);
    assert_int_equal(decode_as("default", "b"), QUERN_E_CORRUPT);
    assert_int_equal(decode_as("other", "a"), QUERN_E_CORRUPT);
}

static void broken_bytes_are_corrupt(void **state)
{
    (void)state;
    const char *const broken[] = {"ff", "0a05", "0a02c3281a0161220764656661756c74"};
    for (size_t i = 0; i < TEST_COUNT(broken); i++) {
        const struct qn_stored_task stored = {"default", "a", test_from_hex(&arena, broken[i]),
                                              NULL};
        struct qn_asynq_task message;
        struct qn_task task;
        assert_int_equal(qn_task_fields_decode(&arena, &stored, &message, &task, &err),
                         QUERN_E_CORRUPT);
    }
}

static void fields_that_we_do_not_know_survive(void **state)
{
    (void)state;
    const char *hex = "0a01741a0161220764656661756c742819403c"
                      "8001ac02"; /* field 16 */
    struct qn_bytes bytes = test_from_hex(&arena, hex);
    struct qn_asynq_task message;
    struct qn_task task;
    const struct qn_stored_task stored = {"default", "a", bytes, NULL};
    assert_ok(qn_task_fields_decode(&arena, &stored, &message, &task, &err), err);
    message.retry_count = 1;
    assert_ok(qn_asynq_task_encode(&arena, &message, &bytes, &err), err);
    test_assert_hex(bytes, "0a01741a0161220764656661756c7428193001403c"
                           "8001ac02");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, hex_start, hex_finish)
static const struct CMUnitTest tests[] = {
    TEST(plain_task_needs_no_field),
    TEST(what_the_message_cannot_hold_is_in_the_field),
    TEST(largest_numbers_fit_a_field),
    TEST(rows_are_read_word_by_word),
    TEST(damaged_rows_are_zeros_not_errors),
    TEST(task_survives_the_round_trip),
    TEST(no_time_out_survives_and_go_never_sees_its_end),
    TEST(deadline_alone_means_no_time_out),
    TEST(message_of_go_without_limits_has_30_minutes),
    TEST(negative_numbers_of_go_are_harmless),
    TEST(what_go_has_changed_is_right),
    TEST(message_of_another_task_is_corrupt),
    TEST(broken_bytes_are_corrupt),
    TEST(fields_that_we_do_not_know_survive),
};
TEST_MAIN(tests)
