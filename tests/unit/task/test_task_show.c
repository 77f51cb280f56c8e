/* SPDX-License-Identifier: MIT */
/* test_task_show.c - a task as a program sees it is one that it could enqueue again. */
#include <string.h>

#include "lib_test.h"
#include "task/task.h"

#define NOW_MS INT64_C(1700000000000)

static void shown_task_would_be_stored_the_same(void **state)
{
    (void)state;
    struct qn_arena arena = {0};
    quern_error err;
    const struct qn_task_terms terms = {.now_wall_ms = NOW_MS, .payload_size_max = 1000};
    static const quern_header header = {.name = "trace", .value = "1"};
    const quern_task cases[] = {
        {.type = "bare",
         .id = "own",
         .retry_max = QUERN_RETRY_NEVER,
         .timeout_ms = QUERN_TIMEOUT_NEVER},
        {.type = "full",
         .payload = "body",
         .payload_size = 4,
         .id = "own",
         .queue = "mail",
         .retry_max = 7,
         .delay_ms = 60000,
         .timeout_ms = 5000,
         .deadline_at_ms = NOW_MS + 90000,
         .retention_ms = 3000,
         .group = "batch",
         .headers = &header,
         .header_count = 1,
         .unique_ms = 8000,
         .unique_until = QUERN_UNIQUE_UNTIL_STARTED,
         .on_duplicate = QUERN_ON_DUPLICATE_REPLACE,
         .limit_key = "tenant",
         .priority = 9},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_task made;
        assert_int_equal(qn_task_prepare(&cases[i], &terms, &arena, &made, &err), QUERN_OK);
        quern_task shown = qn_task_show(&made);
        assert_int_equal(shown.priority, cases[i].priority);
        shown.unique_ms = cases[i].unique_ms; /* a stored lock lives for the delay, too */
        struct qn_task again;
        assert_int_equal(qn_task_prepare(&shown, &terms, &arena, &again, &err), QUERN_OK);
        assert_string_equal(again.id, made.id);
        assert_string_equal(again.type, made.type);
        assert_string_equal(again.queue, made.queue);
        assert_int_equal(again.payload_size, made.payload_size);
        assert_int_equal(again.state, made.state);
        assert_int_equal(again.retry_max, made.retry_max);
        assert_int_equal(again.process_at_ms, made.process_at_ms);
        assert_int_equal(again.timeout_ms, made.timeout_ms);
        assert_int_equal(again.deadline_at_ms, made.deadline_at_ms);
        assert_int_equal(again.retention_ms, made.retention_ms);
        assert_int_equal(again.header_count, made.header_count);
        assert_int_equal(again.unique_ms, made.unique_ms);
        assert_int_equal(again.unique_until, made.unique_until);
        assert_int_equal(again.on_duplicate, made.on_duplicate);
        assert_int_equal(again.priority, made.priority);
        assert_true(made.group == NULL ? again.group == NULL
                                       : strcmp(again.group, made.group) == 0);
        assert_true(made.limit_key == NULL ? again.limit_key == NULL
                                           : strcmp(again.limit_key, made.limit_key) == 0);
    }
    qn_arena_finish(&arena);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(shown_task_would_be_stored_the_same),
};

TEST_MAIN(tests)
