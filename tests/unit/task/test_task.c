/* SPDX-License-Identifier: MIT */
/* test_task.c - the refusals of qn_task_prepare, their texts, and the defaults that it fills in. */
#include "task/task.h"

#include <string.h>

#include "base/text/number.h"
#include "base/text/str.h"
#include "base/text/utf8.h"
#include "lib_test.h"
#include "task/limits.h"
#include "task/name.h"
#include "task/retry.h"

#define NOW_MS INT64_C(1700000000000)
#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A256 A64 A64 A64 A64
#define YEARS_100_MS QN_DURATION_MS_MAX

struct desk {
    struct qn_arena arena;
    struct qn_id_source ids;
    struct qn_task task;
    quern_error err;
};

static int open_desk(void **state)
{
    static struct desk desk;
    desk = (struct desk){.task = {.id = "untouched"}};
    qn_id_source_init(&desk.ids);
    *state = &desk;
    return 0;
}

static int close_desk(void **state)
{
    struct desk *desk = *state;
    qn_arena_finish(&desk->arena);
    return 0;
}

static quern_status prepare(struct desk *desk, const quern_task *in)
{
    const struct qn_task_terms terms = {
        .now_wall_ms = NOW_MS, .payload_size_max = 1000, .ids = &desk->ids};
    return qn_task_prepare(in, &terms, &desk->arena, &desk->task, &desk->err);
}

struct refusal {
    quern_task task;
    const char *text; /* the start of the error's text */
};

static void assert_refused(struct desk *desk, const struct refusal *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        desk->err = (quern_error){0};
        quern_status status = prepare(desk, &cases[i].task);
        if (status != QUERN_E_INVALID || !qn_str_starts_with(desk->err.text, cases[i].text)) {
            fail_msg("case %zu: %s \"%s\", not \"%s\"", i, quern_status_name(status),
                     desk->err.text, cases[i].text);
        }
        assert_int_equal(desk->err.code, QUERN_E_INVALID);
        assert_false(qn_str_has_control(desk->err.text));
        assert_true(qn_utf8_valid(desk->err.text, strlen(desk->err.text)));
        assert_string_equal(desk->task.id, "untouched");
    }
}

static void names_that_break_a_rule_are_refused(void **state)
{
    static const struct refusal cases[] = {
        {{.type = NULL}, "type is missing"},
        {{.type = ""}, "type must not be empty"},
        {{.type = " \t "}, "type must not be blank"},
        {{.type = "\xe3\x80\x80"}, "type must not be blank"},
        {{.type = A256 "a"},
         "type \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\" has 257 bytes, "
         "at most 256 are allowed"},
        {{.type = "a\nb"}, "type \"a\\x0ab\" has control characters"},
        {{.type = "a\xc2\x85"}, "type \"a\\xc2\\x85\" has control characters"},
        {{.type = "a\xff"}, "type \"a\\xff\" is not valid UTF-8"},
        {{.type = "t", .queue = ""}, "queue must not be empty"},
        {{.type = "t", .queue = " "}, "queue must not be blank"},
        {{.type = "t", .queue = "a{b"}, "queue \"a{b\" must not contain { or }"},
        {{.type = "t", .queue = "}"}, "queue \"}\" must not contain { or }"},
        {{.type = "t", .queue = "a\x7f"}, "queue \"a\\x7f\" has control characters"},
        {{.type = "t", .queue = "\xed\xa0\x80"}, "queue \"\\xed\\xa0\\x80\" is not valid UTF-8"},
        {{.type = "t", .queue = A256 "a"}, "queue \"aaa"},
        {{.type = "t", .id = ""}, "id must not be empty"},
        {{.type = "t", .id = "\xc2\xa0"}, "id must not be blank"},
        {{.type = "t", .id = "a\tb"}, "id \"a\\x09b\" has control characters"},
        {{.type = "t", .id = "\x80"}, "id \"\\x80\" is not valid UTF-8"},
        {{.type = "t", .id = A256 "a"}, "id \"aaa"},
        {{.type = "t", .group = "\n"}, "group must not be blank"},
        {{.type = "t", .group = "a\x01"}, "group \"a\\x01\" has control characters"},
        {{.type = "t", .group = A256 "a"}, "group \"aaa"},
    };
    assert_refused(*state, cases, TEST_COUNT(cases));
}

static void numbers_that_break_a_rule_are_refused(void **state)
{
    static const struct refusal cases[] = {
        {{.type = "t", .payload_size = 1}, "payload is NULL, but payload_size is 1"},
        {{.type = "t", .payload = "x", .payload_size = 1001},
         "payload has 1001 bytes, at most 1000 are allowed"},
        {{.type = "t", .retry_max = -2},
         "retry_max must be from 0 to 2147483647 or "
         "QUERN_RETRY_NEVER, not -2"},
        {{.type = "t", .retry_max = INT64_C(2147483648)}, "retry_max must be"},
        {{.type = "t", .timeout_ms = -2},
         "timeout_ms must be from 0 to 100 years or "
         "QUERN_TIMEOUT_NEVER, not -2"},
        {{.type = "t", .timeout_ms = YEARS_100_MS + 1}, "timeout_ms must be"},
        {{.type = "t", .delay_ms = -1}, "delay_ms must be from 0 to 100 years, not -1"},
        {{.type = "t", .delay_ms = YEARS_100_MS + 1}, "delay_ms must be"},
        {{.type = "t", .delay_ms = INT64_MAX}, "delay_ms must be"},
        {{.type = "t", .process_at_ms = -1}, "process_at_ms must be a moment from 1970"},
        {{.type = "t", .process_at_ms = NOW_MS + YEARS_100_MS + 1}, "process_at_ms must be"},
        {{.type = "t", .delay_ms = 1, .process_at_ms = 1},
         "delay_ms and process_at_ms must not both be given"},
        {{.type = "t", .deadline_at_ms = -1}, "deadline_at_ms must be a moment from now"},
        {{.type = "t", .deadline_at_ms = INT64_MAX}, "deadline_at_ms must be"},
        {{.type = "t", .deadline_at_ms = NOW_MS},
         "deadline_at_ms 1700000000000 has already passed (it is 1700000000000)"},
        {{.type = "t", .deadline_at_ms = 1}, "deadline_at_ms 1 has already passed"},
        {{.type = "t", .kill_after_ms = -1}, "kill_after_ms must be from 0 to 100 years, not -1"},
        {{.type = "t", .kill_after_ms = YEARS_100_MS + 1}, "kill_after_ms must be"},
        {{.type = "t", .cpu_ms = -1}, "cpu_ms must be from 0 to 100 years, not -1"},
        {{.type = "t", .cpu_ms = YEARS_100_MS + 1}, "cpu_ms must be"},
        {{.type = "t", .memory_max = -1}, "memory_max must be 0 or at least 1048576 (1 MiB)"},
        {{.type = "t", .memory_max = 1048575}, "memory_max must be 0 or at least 1048576 (1 MiB)"},
        {{.type = "t", .start_within_ms = -1},
         "start_within_ms must be from 0 to 100 years, not -1"},
        {{.type = "t", .start_within_ms = YEARS_100_MS + 1}, "start_within_ms must be"},
        {{.type = "t", .priority = 101}, "priority must be from -100 to 100, not 101"},
        {{.type = "t", .priority = -101}, "priority must be"},
        {{.type = "t", .reserved = 1}, "reserved must be 0, not 1"},
        {{.type = "t", .unique_ms = 999},
         "unique_ms must be 0, or from 1 s (1000) to 100 years, "
         "not 999"},
        {{.type = "t", .unique_ms = -1}, "unique_ms must be"},
        {{.type = "t", .unique_ms = YEARS_100_MS + 1}, "unique_ms must be"},
        {{.type = "t", .retention_ms = -1}, "retention_ms must be from 0 to 100 years, not -1"},
        {{.type = "t", .retention_ms = INT64_MAX}, "retention_ms must be"},
        {{.type = "t", .retry = {.kind = 9}}, "retry: kind 9 is unknown"},
        {{.type = "t", .retry = QUERN_BACKOFF_FIXED(-1)}, "retry: base_ms must"},
    };
    assert_refused(*state, cases, TEST_COUNT(cases));
}

static void names_with_marks_of_direction_are_refused(void **state)
{
#define TURNED "a\xe2\x80\xaetxt"
#define SHOWN "\"a\\xe2\\x80\\xaetxt\" has marks that change the direction of text"
    static const struct refusal cases[] = {
        {{.type = TURNED}, "type " SHOWN},
        {{.type = "t", .queue = TURNED}, "queue " SHOWN},
        {{.type = "t", .id = TURNED}, "id " SHOWN},
        {{.type = "t", .group = TURNED}, "group " SHOWN},
        {{.type = "\xd8\x9c"}, "type \"\\xd8\\x9c\" has marks"},
        {{.type = "\xe2\x80\x8e"}, "type \"\\xe2\\x80\\x8e\" has marks"},
        {{.type = "\xe2\x81\xa6"}, "type \"\\xe2\\x81\\xa6\" has marks"},
    };
#undef TURNED
#undef SHOWN
    assert_refused(*state, cases, sizeof cases / sizeof cases[0]);
    /* Right-to-left letters themselves, and a joiner of emoji, are no such marks. */
    const quern_task fine = {.type = "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xe2\x80\x8d"};
    struct desk *desk = *state;
    assert_int_equal(prepare(desk, &fine), QUERN_OK);
    /* Tasks of other programs are served: the rule for existing names is the weaker one. */
    assert_int_equal(qn_name_check_queue("a\xe2\x80\xae", NULL), QUERN_OK);
}

static void headers_that_break_a_rule_are_refused(void **state)
{
    static char long_value[QN_HEADER_VALUE_SIZE_MAX + 2];
    memset(long_value, 'x', sizeof long_value - 1);
    static quern_header many[QN_HEADER_COUNT_MAX + 1];
    const quern_header no_name[] = {{"a", "1"}, {NULL, "2"}};
    const quern_header empty_name[] = {{"", "1"}};
    const quern_header long_name[] = {{A256 "a", "1"}};
    const quern_header long_values[] = {{"a", long_value}};
    const quern_header blank_name[] = {{" ", "1"}};
    const quern_header control_name[] = {{"a\x1b[31m", "1"}};
    const quern_header turned_name[] = {{"a\xe2\x80\xae"
                                         "b",
                                         "1"}};
    const quern_header bad_name[] = {{"\xff", "1"}};
    const quern_header bad_value[] = {{"a", "\xc3("}};
    const quern_header twice[] = {{"a", "1"}, {"b", NULL}, {"a", NULL}};
    const struct refusal cases[] = {
        {{.type = "t", .header_count = 1}, "headers is NULL, but header_count is 1"},
        {{.type = "t", .headers = many, .header_count = 65}, "65 headers, at most 64 are allowed"},
        {{.type = "t", .headers = no_name, .header_count = 2}, "header 1 has no name"},
        {{.type = "t", .headers = empty_name, .header_count = 1}, "header 0 has no name"},
        {{.type = "t", .headers = long_name, .header_count = 1}, "header name \"aaa"},
        {{.type = "t", .headers = blank_name, .header_count = 1}, "header name must not be blank"},
        {{.type = "t", .headers = control_name, .header_count = 1},
         "header name \"a\\x1b[31m\" has control characters"},
        {{.type = "t", .headers = turned_name, .header_count = 1},
         "header name \"a\\xe2\\x80\\xaeb\" has marks that change the direction of text"},
        {{.type = "t", .headers = long_values, .header_count = 1},
         "the value of header \"a\" has 8193 bytes, at most 8192 are allowed"},
        {{.type = "t", .headers = bad_name, .header_count = 1},
         "header name \"\\xff\" is not valid UTF-8"},
        {{.type = "t", .headers = bad_value, .header_count = 1}, "header \"a\" is not valid UTF-8"},
        {{.type = "t", .headers = twice, .header_count = 3}, "header \"a\" is given twice"},
    };
    assert_refused(*state, cases, TEST_COUNT(cases));
}

static void zeroes_become_the_defaults(void **state)
{
    struct desk *desk = *state;
    const quern_task in = {.type = "email:welcome"};
    assert_ok(prepare(desk, &in), desk->err);
    const struct qn_task *task = &desk->task;
    assert_string_equal(task->type, "email:welcome");
    assert_string_equal(task->queue, "default");
    assert_int_equal(strlen(task->id), 36);
    assert_null(task->payload);
    assert_int_equal(task->retry_max, 25);
    assert_int_equal(task->retry.kind, QN_BACKOFF_DEFAULT);
    assert_int_equal(task->timeout_ms, 1800000);
    assert_int_equal(task->deadline_at_ms, 0);
    assert_int_equal(task->process_at_ms, 0);
    assert_int_equal(task->unique_ms, 0);
    assert_null(task->unique_key);
    assert_int_equal(task->retention_ms, 0);
    assert_null(task->group);
    assert_int_equal(task->header_count, 0);
    assert_int_equal(task->state, QUERN_TASK_PENDING);
}

static void what_is_at_the_limit_is_taken(void **state)
{
    struct desk *desk = *state;
    static char value[QN_HEADER_VALUE_SIZE_MAX + 1];
    memset(value, 'x', sizeof value - 1);
    static char names[QN_HEADER_COUNT_MAX][8];
    static char payload[1000];
    quern_header headers[QN_HEADER_COUNT_MAX];
    for (size_t i = 0; i < QN_HEADER_COUNT_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "h%zu", i);
        headers[i] = (quern_header){.name = names[i], .value = i % 2 == 0 ? value : NULL};
    }
    const quern_task in = {.type = A256,
                           .queue = A256,
                           .id = A256,
                           .group = A256,
                           .payload = payload,
                           .payload_size = sizeof payload,
                           .retry_max = INT32_MAX,
                           .delay_ms = YEARS_100_MS,
                           .timeout_ms = YEARS_100_MS,
                           .deadline_at_ms = NOW_MS + 1,
                           .unique_ms = YEARS_100_MS,
                           .retention_ms = YEARS_100_MS,
                           .start_within_ms = YEARS_100_MS,
                           .kill_after_ms = YEARS_100_MS,
                           .cpu_ms = YEARS_100_MS,
                           .memory_max = 1048576,
                           .headers = headers,
                           .header_count = QN_HEADER_COUNT_MAX};
    assert_ok(prepare(desk, &in), desk->err);
    assert_int_equal(desk->task.unique_ms, 2 * YEARS_100_MS);
    assert_int_equal(desk->task.start_by_at_ms, NOW_MS + 2 * YEARS_100_MS);
    assert_int_equal(desk->task.header_count, QN_HEADER_COUNT_MAX);
    assert_string_equal(desk->task.headers[1].name, "h1");
    assert_string_equal(desk->task.headers[1].value, "");
    assert_string_equal(desk->task.headers[2].value, value);
    assert_string_equal(desk->task.id, A256);
    assert_ptr_equal(desk->task.payload, payload);
    assert_int_equal(desk->task.payload_size, sizeof payload);
}

static void never_means_none(void **state)
{
    struct desk *desk = *state;
    const quern_task in = {
        .type = "t", .retry_max = QUERN_RETRY_NEVER, .timeout_ms = QUERN_TIMEOUT_NEVER};
    assert_ok(prepare(desk, &in), desk->err);
    assert_int_equal(desk->task.retry_max, 0);
    assert_int_equal(desk->task.timeout_ms, 0);
}

static void time_to_start_begins_when_the_task_is_due(void **state)
{
    struct desk *desk = *state;
    const struct {
        quern_task in;
        int64_t start_by_at_ms;
    } cases[] = {
        {{.type = "t"}, 0},
        {{.type = "t", .start_within_ms = 1}, NOW_MS + 1},
        {{.type = "t", .start_within_ms = 500, .delay_ms = 60000}, NOW_MS + 60500},
        {{.type = "t", .start_within_ms = 500, .process_at_ms = NOW_MS + 7}, NOW_MS + 507},
        {{.type = "t", .start_within_ms = 500, .process_at_ms = NOW_MS - 9000}, NOW_MS + 500},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_ok(prepare(desk, &cases[i].in), desk->err);
        assert_int_equal(desk->task.start_by_at_ms, cases[i].start_by_at_ms);
    }
}

static void deadline_takes_the_place_of_the_default_timeout(void **state)
{
    struct desk *desk = *state;
    quern_task in = {.type = "t", .deadline_at_ms = NOW_MS + 5000};
    assert_ok(prepare(desk, &in), desk->err);
    assert_int_equal(desk->task.timeout_ms, 0);
    assert_int_equal(desk->task.deadline_at_ms, NOW_MS + 5000);
    in.timeout_ms = 7;
    assert_ok(prepare(desk, &in), desk->err);
    assert_int_equal(desk->task.timeout_ms, 7);
}

static void delay_and_group_decide_where_it_is_stored(void **state)
{
    struct desk *desk = *state;
    static const struct {
        quern_task task;
        int64_t process_at_ms;
        quern_task_state state;
    } cases[] = {
        {{.type = "t", .delay_ms = 5}, NOW_MS + 5, QUERN_TASK_SCHEDULED},
        {{.type = "t", .process_at_ms = NOW_MS + 1}, NOW_MS + 1, QUERN_TASK_SCHEDULED},
        {{.type = "t", .process_at_ms = NOW_MS}, 0, QUERN_TASK_PENDING},
        {{.type = "t", .process_at_ms = 1}, 0, QUERN_TASK_PENDING},
        {{.type = "t", .group = "g"}, 0, QUERN_TASK_AGGREGATING},
        {{.type = "t", .group = "g", .process_at_ms = 1}, 0, QUERN_TASK_AGGREGATING},
        {{.type = "t", .group = "g", .delay_ms = 1}, NOW_MS + 1, QUERN_TASK_SCHEDULED},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_ok(prepare(desk, &cases[i].task), desk->err);
        assert_int_equal(desk->task.process_at_ms, cases[i].process_at_ms);
        assert_int_equal(desk->task.state, cases[i].state);
    }
}

static void lock_lives_until_after_the_task_is_due(void **state)
{
    struct desk *desk = *state;
    quern_task in = {.type = "t", .queue = "q", .unique_ms = 1000};
    assert_ok(prepare(desk, &in), desk->err);
    assert_int_equal(desk->task.unique_ms, 1000);
    assert_string_equal(desk->task.unique_key, "asynq:{q}:unique:t:");
    in.delay_ms = 5000;
    in.payload = "";
    assert_ok(prepare(desk, &in), desk->err);
    assert_int_equal(desk->task.unique_ms, 6000);
    assert_string_equal(desk->task.unique_key,
                        "asynq:{q}:unique:t:d41d8cd98f00b204e9800998ecf8427e");
    in.delay_ms = 0;
    in.process_at_ms = NOW_MS + 700;
    assert_ok(prepare(desk, &in), desk->err);
    assert_int_equal(desk->task.unique_ms, 1700);
    in.process_at_ms = 1;
    assert_ok(prepare(desk, &in), desk->err);
    assert_int_equal(desk->task.unique_ms, 1000);
}

static void unique_key_takes_the_place_of_type_and_payload(void **state)
{
    struct desk *desk = *state;
    quern_task in = {.type = "t",
                     .queue = "q",
                     .delay_ms = 5000,
                     .unique_ms = 1000,
                     .unique_key = "a:b",
                     .unique_until = QUERN_UNIQUE_UNTIL_ENDED,
                     .on_duplicate = QUERN_ON_DUPLICATE_DEBOUNCE};
    assert_ok(prepare(desk, &in), desk->err);
    assert_string_equal(desk->task.unique_key, "asynq:{q}:unique:a:b:custom");
    assert_int_equal(desk->task.unique_ms, 6000);
    assert_int_equal(desk->task.unique_span_ms, 1000);
    assert_int_equal(desk->task.unique_until, QUERN_UNIQUE_UNTIL_ENDED);
    assert_int_equal(desk->task.on_duplicate, QUERN_ON_DUPLICATE_DEBOUNCE);
    /* No type and payload of a Go task make this name. */
    in = (quern_task){.type = "a:b:custom", .queue = "q", .unique_ms = 1000};
    assert_ok(prepare(desk, &in), desk->err);
    assert_string_equal(desk->task.unique_key, "asynq:{q}:unique:a:b:custom:");
}

static void policies_that_break_a_rule_are_refused(void **state)
{
    struct desk *desk = *state;
    static const struct {
        quern_task task;
        const char *text;
    } cases[] = {
        {{.unique_key = "k"}, "unique_key needs unique_ms"},
        {{.unique_until = 1}, "unique_until needs unique_ms"},
        {{.on_duplicate = 1}, "on_duplicate needs unique_ms"},
        {{.unique_ms = 1000, .unique_until = 5},
         "unique_until must be one of QUERN_UNIQUE_UNTIL_*, not 5"},
        {{.unique_ms = 1000, .unique_until = -1},
         "unique_until must be one of QUERN_UNIQUE_UNTIL_*, not -1"},
        {{.unique_ms = 1000, .on_duplicate = 4},
         "on_duplicate must be one of QUERN_ON_DUPLICATE_*, not 4"},
        {{.unique_ms = 1000, .unique_key = ""}, "unique_key must not be empty"},
        {{.unique_ms = 1000,
          .unique_until = QUERN_UNIQUE_UNTIL_EXPIRED,
          .on_duplicate = QUERN_ON_DUPLICATE_REPLACE},
         "on_duplicate must be FAIL or IGNORE with QUERN_UNIQUE_UNTIL_EXPIRED"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_task in = cases[i].task;
        in.type = "t";
        assert_int_equal(prepare(desk, &in), QUERN_E_INVALID);
        assert_string_equal(desk->err.text, cases[i].text);
    }
}

static void retry_policy_of_the_task_has_its_defaults(void **state)
{
    struct desk *desk = *state;
    const quern_task in = {.type = "t", .retry = {.kind = QN_BACKOFF_EXPONENTIAL}};
    assert_ok(prepare(desk, &in), desk->err);
    assert_int_equal(desk->task.retry.kind, QN_BACKOFF_EXPONENTIAL);
    assert_int_equal(desk->task.retry.base_ms, 1000);
    assert_int_equal(desk->task.retry.cap_ms, 3600000);
}

static void names_are_shown_whole_when_they_can_be(void **state)
{
    struct desk *desk = *state;
    assert_int_equal(qn_name_check_queue("gr\xc3\xbc\xc3\x9f"
                                         "e{",
                                         &desk->err),
                     QUERN_E_INVALID);
    assert_string_equal(desk->err.text, "queue \"gr\xc3\xbc\xc3\x9f"
                                        "e{\" must not contain { or }");
    assert_ok(qn_name_check_queue("gr\xc3\xbc\xc3\x9f"
                                  "e",
                                  &desk->err),
              desk->err);
    assert_ok(qn_name_check("type", "a{b}", &desk->err), desk->err);
    assert_int_equal(qn_name_check("worker", NULL, &desk->err), QUERN_E_INVALID);
    assert_string_equal(desk->err.text, "worker is missing");
}

static void attempt_ends_at_its_timeout_or_the_deadline(void **state)
{
    (void)state;
    static const struct {
        int64_t timeout_ms;
        int64_t deadline_at_ms;
        int64_t ends_at_ms;
    } cases[] = {
        {0, 0, 0},
        {500, 0, NOW_MS + 500},
        {0, NOW_MS + 9, NOW_MS + 9},
        {500, NOW_MS + 501, NOW_MS + 500},
        {500, NOW_MS + 499, NOW_MS + 499},
        {500, NOW_MS - 5, NOW_MS - 5},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct qn_task task = {.timeout_ms = cases[i].timeout_ms,
                                     .deadline_at_ms = cases[i].deadline_at_ms};
        assert_int_equal(qn_task_run_deadline_ms(&task, NOW_MS), cases[i].ends_at_ms);
    }
}

#define DESK_TEST(test) cmocka_unit_test_setup_teardown(test, open_desk, close_desk)
static const struct CMUnitTest tests[] = {
    DESK_TEST(names_that_break_a_rule_are_refused),
    DESK_TEST(numbers_that_break_a_rule_are_refused),
    DESK_TEST(names_with_marks_of_direction_are_refused),
    DESK_TEST(headers_that_break_a_rule_are_refused),
    DESK_TEST(zeroes_become_the_defaults),
    DESK_TEST(what_is_at_the_limit_is_taken),
    DESK_TEST(never_means_none),
    DESK_TEST(time_to_start_begins_when_the_task_is_due),
    DESK_TEST(deadline_takes_the_place_of_the_default_timeout),
    DESK_TEST(delay_and_group_decide_where_it_is_stored),
    DESK_TEST(lock_lives_until_after_the_task_is_due),
    DESK_TEST(unique_key_takes_the_place_of_type_and_payload),
    DESK_TEST(policies_that_break_a_rule_are_refused),
    DESK_TEST(retry_policy_of_the_task_has_its_defaults),
    DESK_TEST(names_are_shown_whole_when_they_can_be),
    DESK_TEST(attempt_ends_at_its_timeout_or_the_deadline),
};

TEST_MAIN(tests)
