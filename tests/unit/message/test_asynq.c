/* SPDX-License-Identifier: MIT */
/* test_asynq.c - asynq's TaskMessage byte by byte: golden bytes (docs/protocol/asynq.md), both
 * ways, unknown fields, wrong texts and wrong bytes. */
#include "message/asynq/asynq.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/text/str.h"
#include "lib_hex.h"
#include "lib_test.h"

static const char *const simple_hex =
    "0a0a656d61696c3a73656e6412087b22746f223a317d1a2431313131313131312d323232322d333333332d343434"
    "342d353535353535353535353535220764656661756c74281940880e";
static const char *const whole_hex =
    "0a01741a026964220171280330013a04626f6f6d403c4880e2cfaa0652136173796e713a7b717d3a756e69717565"
    "3a743a5881e2cfaa0660901c6882e2cfaa067201677a050a016b1200";
/* 16 as varint 300, 17 as bytes "hi", 18 as fixed64, 19 as fixed32. */
static const char *const unknown_hex = "8001ac02"
                                       "8a01026869"
                                       "91010102030405060708"
                                       "9d0101020304";

static struct qn_bytes encode_task(const struct qn_asynq_task *task)
{
    struct qn_bytes bytes = {0};
    assert_ok(qn_asynq_task_encode(&arena, task, &bytes, &err), err);
    return bytes;
}

static struct qn_asynq_task decode_task(struct qn_bytes bytes)
{
    struct qn_asynq_task task = {0};
    assert_ok(qn_asynq_task_decode(&arena, bytes.data, bytes.size, &task, &err), err);
    return task;
}

static void simple_task_has_its_golden_bytes(void **state)
{
    (void)state;
    const struct qn_asynq_task task = {.type = "email:send",
                                       .payload = "{\"to\":1}",
                                       .payload_size = 8,
                                       .id = "11111111-2222-3333-4444-555555555555",
                                       .queue = "default",
                                       .retry_max = 25,
                                       .timeout_ms = 1800000};
    test_assert_hex(encode_task(&task), simple_hex);
    struct qn_asynq_task read = decode_task(test_from_hex(&arena, simple_hex));
    assert_string_equal(read.type, task.type);
    assert_int_equal(read.payload_size, 8);
    assert_memory_equal(read.payload, task.payload, 8);
    assert_string_equal(read.id, task.id);
    assert_string_equal(read.queue, task.queue);
    assert_int_equal(read.retry_max, 25);
    assert_int_equal(read.timeout_ms, 1800000);
    assert_string_equal(read.error, "");
    assert_string_equal(read.unique_key, "");
    assert_string_equal(read.group, "");
    assert_null(read.headers);
    assert_int_equal(read.header_count + read.unknown_count, 0);
}

static void task_with_every_field_has_its_golden_bytes(void **state)
{
    (void)state;
    const quern_header headers[] = {{"k", NULL}};
    const struct qn_asynq_task task = {.type = "t",
                                       .id = "id",
                                       .queue = "q",
                                       .retry_max = 3,
                                       .retry_count = 1,
                                       .error = "boom",
                                       .timeout_ms = 60000,
                                       .deadline_at_ms = 1700000000000,
                                       .unique_key = "asynq:{q}:unique:t:",
                                       .failed_at_ms = 1700000001000,
                                       .retention_ms = 3600000,
                                       .completed_at_ms = 1700000002000,
                                       .group = "g",
                                       .headers = headers,
                                       .header_count = 1};
    test_assert_hex(encode_task(&task), whole_hex);
    struct qn_asynq_task read = decode_task(test_from_hex(&arena, whole_hex));
    assert_null(read.payload);
    assert_int_equal(read.retry_count, 1);
    assert_string_equal(read.error, "boom");
    assert_int_equal(read.deadline_at_ms, 1700000000000);
    assert_string_equal(read.unique_key, "asynq:{q}:unique:t:");
    assert_int_equal(read.failed_at_ms, 1700000001000);
    assert_int_equal(read.retention_ms, 3600000);
    assert_int_equal(read.completed_at_ms, 1700000002000);
    assert_string_equal(read.group, "g");
    assert_int_equal(read.header_count, 1);
    assert_string_equal(read.headers[0].name, "k");
    assert_string_equal(read.headers[0].value, "");
    test_assert_hex(encode_task(&read), whole_hex);
}

static void unknown_fields_survive_a_change(void **state)
{
    (void)state;
    char hex[400];
    (void)snprintf(hex, sizeof hex, "%s%s", unknown_hex, simple_hex);
    struct qn_asynq_task task = decode_task(test_from_hex(&arena, hex));
    assert_int_equal(task.unknown_count, 4);
    task.retry_max = 26;
    struct qn_bytes bytes = encode_task(&task);
    char expected[400];
    (void)snprintf(expected, sizeof expected, "%s%s", simple_hex, unknown_hex);
    char *retry = strstr(expected, "281940880e");
    retry[3] = 'a';
    test_assert_hex(bytes, expected);
    task = decode_task(bytes);
    assert_int_equal(task.retry_max, 26);
    assert_int_equal(task.unknown_count, 4);
}

static void parts_of_a_second_are_rounded_for_safety(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        int64_t up_ms;
        int64_t down_ms;
    } cases[] = {
        {0, 0, 0},
        {1, 1000, 0},
        {999, 1000, 0},
        {1000, 1000, 1000},
        {1001, 2000, 1000},
        {1500, 2000, 1000},
        {1800000, 1800000, 1800000},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct qn_asynq_task task = {.timeout_ms = cases[i].ms,
                                           .deadline_at_ms = cases[i].ms,
                                           .retention_ms = cases[i].ms,
                                           .failed_at_ms = cases[i].ms,
                                           .completed_at_ms = cases[i].ms};
        struct qn_asynq_task read = decode_task(encode_task(&task));
        assert_int_equal(read.timeout_ms, cases[i].up_ms);
        assert_int_equal(read.deadline_at_ms, cases[i].up_ms);
        assert_int_equal(read.retention_ms, cases[i].up_ms);
        assert_int_equal(read.failed_at_ms, cases[i].down_ms);
        assert_int_equal(read.completed_at_ms, cases[i].down_ms);
    }
}

static void seconds_beyond_all_time_mean_for_ever(void **state)
{
    (void)state;
    struct qn_asynq_task task = decode_task(test_from_hex(&arena, "48ffffffffffffffff7f"));
    assert_true(task.deadline_at_ms > INT64_MAX / 2);
    task = decode_task(encode_task(&task));
    assert_true(task.deadline_at_ms > INT64_MAX / 2);
    task = decode_task(test_from_hex(&arena, "4080808080808080808001"));
    assert_true(task.timeout_ms < INT64_MIN / 2);
    assert_true(decode_task(encode_task(&task)).timeout_ms < INT64_MIN / 2);
}

static void text_of_an_error_is_cleaned_and_others_are_refused(void **state)
{
    (void)state;
    struct qn_asynq_task task = {.type = "t", .error = "exit \xff\xfe 1"};
    struct qn_asynq_task read = decode_task(encode_task(&task));
    assert_string_equal(read.error, "exit \xef\xbf\xbd\xef\xbf\xbd 1");
    const quern_header bad_name[] = {{"\xff", "v"}};
    const quern_header bad_value[] = {{"k", "\xc3"}};
    const struct qn_asynq_task cases[] = {
        {.type = "\xff"},
        {.id = "\xff"},
        {.queue = "\xff"},
        {.unique_key = "\xed\xa0\x80"},
        {.group = "\xc0\x80"},
        {.headers = bad_name, .header_count = 1},
        {.headers = bad_value, .header_count = 1},
        {.retry_max = INT64_C(1) << 31},
        {.retry_count = -(INT64_C(1) << 31) - 1},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_bytes bytes = {.size = 77};
        assert_int_equal(qn_asynq_task_encode(&arena, &cases[i], &bytes, &err), QUERN_E_INVALID);
        assert_int_equal(err.code, QUERN_E_INVALID);
        assert_int_equal(bytes.size, 77);
    }
}

static void bytes_that_are_no_task_are_corrupt(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "ff",                       /* a tag that does not end */
        "0a05616263",               /* a text that is cut off */
        "0a01ff",                   /* a type that is not UTF-8 */
        "3a01ff",                   /* an error that is not UTF-8: Go refuses it too */
        "0a03610062",               /* a type with a NUL */
        "1a0100",                   /* an id that is a NUL */
        "7a040a0261",               /* an entry that is cut off */
        "7a030a01ff",               /* a header that is not UTF-8 */
        "7a0412020061",             /* a header's value with a NUL */
        "08",                       /* a number without its value */
        "0b",                       /* a group that does not end */
        "0c",                       /* the end of a group that did not begin */
        "8b010b8c01",               /* groups that end in the wrong order */
        "80ffffffffffffffffff7f00", /* a tag of more than 64 bits */
        "00",                       /* field 0 */
        "80000a",                   /* field 0, written long */
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_bytes bytes = test_from_hex(&arena, cases[i]);
        struct qn_asynq_task task = {.payload_size = 77};
        quern_status status = qn_asynq_task_decode(&arena, bytes.data, bytes.size, &task, &err);
        if (status != QUERN_E_CORRUPT) {
            fail_msg("%s: %s", cases[i], quern_status_name(status));
        }
        assert_int_equal(err.code, QUERN_E_CORRUPT);
        assert_int_equal(task.payload_size, 77);
    }
}

/* Go passes over what it does not expect; the last value of a field, or header, counts. */
static void what_go_passes_over_is_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        const char *type;
        const char *again;
    } cases[] = {
        {"0a017483010a02787884011a0178", "t", "0a01741a0178"}, /* an unknown group */
        {"830193010884019401"
         "0a0174",
         "t", NULL}, /* crossed: Go refuses it */
        {"8301930194018401"
         "0a0174",
         "t", "0a0174"},                                 /* a group in a group */
        {"0b13140c0a0174", "t", "0a0174"},               /* groups of known numbers */
        {"0a01740801", "t", "0a0174"},                   /* a type that is a number */
        {"0a01742a0105", "t", "0a0174"},                 /* a number that is a text */
        {"0a01741a01616d01020304", "t", "0a01741a0161"}, /* a moment of four bytes */
        {"0a01740a0175", "u", "0a0175"},                 /* a field that comes twice */
        {"0a01747a060a016112017a7a060a016112017b", "t", "0a01747a060a016112017b"},
        {"0a01747a0a0a016112017a230801247a00", "t", "0a01747a060a016112017a7a040a001200"},
        {"0a01747a050a01610801", "t", "0a01747a050a01611200"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_bytes bytes = test_from_hex(&arena, cases[i].hex);
        struct qn_asynq_task task;
        quern_status status = qn_asynq_task_decode(&arena, bytes.data, bytes.size, &task, &err);
        if ((status == QUERN_OK) != (cases[i].again != NULL)) {
            fail_msg("%s: %s", cases[i].hex, quern_status_name(status));
        }
        if (status == QUERN_OK) {
            assert_string_equal(task.type, cases[i].type);
            test_assert_hex(encode_task(&task), cases[i].again);
        }
    }
}

static void nul_in_an_errors_text_is_replaced(void **state)
{
    (void)state;
    assert_string_equal(decode_task(test_from_hex(&arena, "3a03610062")).error, "a\xef\xbf\xbd"
                                                                                "b");
}

static void empty_message_is_an_empty_task(void **state)
{
    (void)state;
    struct qn_asynq_task task = decode_task((struct qn_bytes){.data = "", .size = 0});
    assert_string_equal(task.type, "");
    assert_int_equal(encode_task(&task).size, 0);
}

static void map_entries_may_lack_their_fields(void **state)
{
    (void)state;
    struct qn_asynq_task task = decode_task(test_from_hex(&arena, "7a030a016b7a0312017a"));
    assert_int_equal(task.header_count, 2);
    assert_string_equal(task.headers[0].name, "k");
    assert_string_equal(task.headers[0].value, "");
    assert_string_equal(task.headers[1].name, "");
    assert_string_equal(task.headers[1].value, "z");
    test_assert_hex(encode_task(&task), "7a050a016b12007a050a0012017a");
}

static void few_bytes_cannot_claim_much_memory(void **state)
{
    (void)state;
    const size_t size = (size_t)4 << 20;
    unsigned char *data = qn_arena_alloc(&arena, size);
    for (size_t i = 0; i < size; i += 2) {
        data[i] = 0x7a; /* an empty header */
        data[i + 1] = 0;
    }
    struct qn_asynq_task task;
    assert_int_equal(qn_asynq_task_decode(&arena, data, size, &task, &err), QUERN_E_CORRUPT);
    assert_non_null(strstr(err.text, "too many fields"));
    /* As many as anyone sends are no trouble. */
    static quern_header headers[5000];
    static char names[5000][8];
    for (size_t i = 0; i < TEST_COUNT(headers); i++) {
        (void)snprintf(names[i], sizeof names[i], "%zu", i);
        headers[i] = (quern_header){.name = names[i], .value = "v"};
    }
    const struct qn_asynq_task many = {.headers = headers, .header_count = TEST_COUNT(headers)};
    assert_int_equal(decode_task(encode_task(&many)).header_count, TEST_COUNT(headers));
}

/* Golden messages with random damage: either an error, or a message that can be written again. */
static void damaged_bytes_never_do_harm(void **state)
{
    (void)state;
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    const char *const golden[] = {simple_hex, whole_hex, unknown_hex};
    for (int i = 0; i < 20000; i++) {
        struct qn_bytes bytes = test_from_hex(&arena, golden[i % 3]);
        unsigned char *data = qn_arena_copy(&arena, bytes.data, bytes.size);
        for (uint64_t changes = 1 + qn_random_below(&random, 4); changes > 0; changes--) {
            data[qn_random_below(&random, bytes.size)] = (unsigned char)qn_random_next(&random);
        }
        size_t size = bytes.size - qn_random_below(&random, 3);
        struct qn_asynq_task task;
        if (qn_asynq_task_decode(&arena, data, size, &task, &err) == QUERN_OK) {
            struct qn_asynq_task again = decode_task(encode_task(&task));
            assert_string_equal(again.type, task.type);
            assert_int_equal(again.header_count, task.header_count);
        }
        qn_arena_reset(&arena);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, hex_start, hex_finish)
static const struct CMUnitTest tests[] = {
    TEST(simple_task_has_its_golden_bytes),
    TEST(task_with_every_field_has_its_golden_bytes),
    TEST(unknown_fields_survive_a_change),
    TEST(parts_of_a_second_are_rounded_for_safety),
    TEST(seconds_beyond_all_time_mean_for_ever),
    TEST(text_of_an_error_is_cleaned_and_others_are_refused),
    TEST(bytes_that_are_no_task_are_corrupt),
    TEST(what_go_passes_over_is_left_out),
    TEST(nul_in_an_errors_text_is_replaced),
    TEST(empty_message_is_an_empty_task),
    TEST(map_entries_may_lack_their_fields),
    TEST(few_bytes_cannot_claim_much_memory),
    TEST(damaged_bytes_never_do_harm),
};

TEST_MAIN(tests)
