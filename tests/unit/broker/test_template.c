/* SPDX-License-Identifier: MIT */
/* test_template.c - the task of an entry as bytes, and back. */
#include <string.h>

#include "broker/schedule/template.h"
#include "lib_test.h"
#include "task/limits.h"

static const quern_header headers[] = {{"trace", "42"}, {"empty", ""}};

static const struct qn_task full = {.type = "report",
                                    .payload = "a\0b",
                                    .payload_size = 3,
                                    .retry_max = 7,
                                    .retry = {.kind = 3, .base_ms = 20, .cap_ms = 400},
                                    .process_at_ms = 1800000000000,
                                    .delay_ms = 5,
                                    .timeout_ms = 60000,
                                    .deadline_at_ms = 1800000001000,
                                    .unique_ms = 3000,
                                    .unique_key = "asynq:{q}:unique:report:",
                                    .unique_until = 2,
                                    .on_duplicate = 3,
                                    .retention_ms = 9000,
                                    .group = "g",
                                    .limit_key = "tenant",
                                    .kill_after_ms = 10250,
                                    .cpu_ms = 60000,
                                    .memory_max = INT64_C(1) << 40,
                                    .start_by_at_ms = 1800000002000,
                                    .priority = -100,
                                    .headers = headers,
                                    .header_count = 2};

static struct qn_bytes encode(struct qn_buf *buf, const struct qn_task *task)
{
    quern_error err = {0};
    qn_buf_init(buf, 4096);
    assert_ok(qn_template_encode(buf, task, &err), err);
    return (struct qn_bytes){.data = buf->data, .size = buf->size};
}

static void every_field_comes_back(void **state)
{
    (void)state;
    struct qn_buf buf;
    struct qn_arena arena = {0};
    struct qn_task task;
    quern_error err = {0};
    struct qn_bytes bytes = encode(&buf, &full);
    assert_ok(qn_template_decode(&arena, bytes, &task, &err), err);
    assert_string_equal(task.type, "report");
    assert_int_equal(task.payload_size, 3);
    assert_memory_equal(task.payload, "a\0b", 4);
    assert_int_equal(task.retry_max, 7);
    assert_int_equal(task.retry.kind, 3);
    assert_int_equal(task.retry.base_ms, 20);
    assert_int_equal(task.retry.cap_ms, 400);
    assert_int_equal(task.process_at_ms, full.process_at_ms);
    assert_int_equal(task.delay_ms, 5);
    assert_int_equal(task.timeout_ms, 60000);
    assert_int_equal(task.deadline_at_ms, full.deadline_at_ms);
    assert_int_equal(task.unique_ms, 3000);
    assert_string_equal(task.unique_key, full.unique_key);
    assert_int_equal(task.unique_until, 2);
    assert_int_equal(task.on_duplicate, 3);
    assert_int_equal(task.retention_ms, 9000);
    assert_string_equal(task.group, "g");
    assert_string_equal(task.limit_key, "tenant");
    assert_int_equal(task.kill_after_ms, 10250);
    assert_int_equal(task.cpu_ms, 60000);
    assert_int_equal(task.memory_max, INT64_C(1) << 40);
    assert_int_equal(task.start_by_at_ms, full.start_by_at_ms);
    assert_int_equal(task.priority, -100);
    assert_int_equal(task.header_count, 2);
    assert_string_equal(task.headers[0].name, "trace");
    assert_string_equal(task.headers[0].value, "42");
    assert_string_equal(task.headers[1].value, "");
    assert_int_equal(task.state, QUERN_TASK_AGGREGATING);
    assert_null(task.id);
    qn_arena_finish(&arena);
    qn_buf_finish(&buf);
}

static void fields_that_are_zero_take_no_room(void **state)
{
    (void)state;
    struct qn_buf buf;
    struct qn_arena arena = {0};
    struct qn_task task;
    quern_error err = {0};
    struct qn_bytes bytes = encode(&buf, &(struct qn_task){.type = "t"});
    assert_int_equal(bytes.size, 7);
    assert_ok(qn_template_decode(&arena, bytes, &task, &err), err);
    assert_int_equal(task.state, QUERN_TASK_PENDING);
    assert_null(task.unique_key);
    assert_null(task.group);
    assert_int_equal(task.header_count, 0);
    qn_arena_finish(&arena);
    qn_buf_finish(&buf);
}

/* At a border of two fields what is left is a task, too: with fewer fields. */
static void bytes_cut_within_a_field_are_refused(void **state)
{
    (void)state;
    struct qn_buf buf;
    struct qn_arena arena = {0};
    struct qn_bytes bytes = encode(&buf, &full);
    size_t accepted = 0;
    for (size_t size = 0; size < bytes.size; size++) {
        char *cut = qn_arena_copy(&arena, bytes.data, size);
        struct qn_task task;
        quern_error err = {0};
        struct qn_bytes part = {.data = cut, .size = size};
        quern_status status = qn_template_decode(&arena, part, &task, &err);
        assert_true(status == QUERN_OK || status == QUERN_E_CORRUPT);
        assert_true(status == QUERN_OK || err.text[0] != '\0');
        accepted += status == QUERN_OK ? 1 : 0;
    }
    assert_int_equal(accepted, 23); /* after the type and each field but the last */
    qn_arena_finish(&arena);
    qn_buf_finish(&buf);
}

static void odd_bytes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t size;
    } cases[] = {
        {"", 0},                            /* nothing */
        {"\1", 1},                          /* no type */
        {"\2\1\1\0\0\0t", 7},               /* another version */
        {"\1\1\0\0\0\0", 6},                /* an empty type */
        {"\1\1\3\0\0\0a\0b", 9},            /* a NUL in the type */
        {"\1\1\1\0\0\0t\143\1\0\0\0x", 13}, /* a field of later */
        {"\1\1\1\0\0\0t\3\1\0\0\0x", 13},   /* a number of one byte */
        {"\1\1\1\0\0\0t\24\1\0\0\0x", 13},  /* a header without value */
        {"\1\1\377\377\377\377t", 7},       /* a size beyond the end */
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_arena arena = {0};
        struct qn_task task;
        struct qn_bytes bytes = {.data = cases[i].data, .size = cases[i].size};
        assert_int_equal(qn_template_decode(&arena, bytes, &task, NULL), QUERN_E_CORRUPT);
        qn_arena_finish(&arena);
    }
}

static void absurd_numbers_are_clamped(void **state)
{
    (void)state;
    struct qn_buf buf;
    struct qn_arena arena = {0};
    struct qn_task task;
    quern_error err = {0};
    const struct qn_task absurd = {.type = "t",
                                   .retry_max = INT64_MAX,
                                   .timeout_ms = INT64_MIN,
                                   .delay_ms = INT64_MAX,
                                   .unique_until = -5,
                                   .priority = 4000};
    struct qn_bytes bytes = encode(&buf, &absurd);
    assert_ok(qn_template_decode(&arena, bytes, &task, &err), err);
    assert_int_equal(task.retry_max, INT32_MAX);
    assert_int_equal(task.timeout_ms, 0);
    assert_true(task.delay_ms < INT64_MAX / 2);
    assert_int_equal(task.unique_until, 0);
    assert_int_equal(task.priority, 100);
    qn_arena_finish(&arena);
    qn_buf_finish(&buf);
}

static void task_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    struct qn_buf buf;
    quern_error err = {0};
    qn_buf_init(&buf, 20);
    assert_int_equal(qn_template_encode(&buf, &full, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "more than 20 bytes"));
    qn_buf_finish(&buf);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_field_comes_back),
    cmocka_unit_test(fields_that_are_zero_take_no_room),
    cmocka_unit_test(bytes_cut_within_a_field_are_refused),
    cmocka_unit_test(odd_bytes_are_refused),
    cmocka_unit_test(absurd_numbers_are_clamped),
    cmocka_unit_test(task_beyond_the_limit_is_refused),
};
TEST_MAIN(tests)
