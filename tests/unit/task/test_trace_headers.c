/* SPDX-License-Identifier: MIT */
/* test_trace_headers.c - the headers of a task that name its trace, and quern_task.traceparent. */
#include "task/trace/trace_headers.h"

#include <stdio.h>

#include "lib_test.h"
#include "task/limits.h"
#include "task/task.h"

#define ID "0af7651916cd43dd8448eb211c80319c"
#define PARENT "00-" ID "-b7ad6b7169203331-01"
#define OTHER "00-" ID "-00000000000000ff-00"

struct desk {
    struct qn_arena arena;
    struct qn_id_source ids;
    struct qn_task task;
};

static int open_desk(void **state)
{
    static struct desk desk;
    desk = (struct desk){.task = {.id = NULL}};
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

static struct qn_trace_headers prepare(struct desk *desk, quern_task task)
{
    quern_error err;
    const struct qn_task_terms terms = {
        .now_wall_ms = 1700000000000, .payload_size_max = 1000, .ids = &desk->ids};
    task.type = "t";
    assert_int_equal(qn_task_prepare(&task, &terms, &desk->arena, &desk->task, &err), QUERN_OK);
    return (struct qn_trace_headers){desk->task.headers, desk->task.header_count};
}

static void headers_name_the_trace_in_any_case(void **state)
{
    static const quern_header own[] = {{"x", "y"}, {"TraceParent", PARENT}, {"TRACESTATE", "a=b"}};
    const struct qn_trace_headers headers = {own, 3};
    char id[QN_TRACE_ID_SIZE];
    (void)state;
    assert_string_equal(qn_trace_headers_parent(headers), PARENT);
    assert_string_equal(qn_trace_headers_state(headers), "a=b");
    assert_string_equal(qn_trace_headers_id(headers, id), ID);
}

static void state_without_parent_and_broken_values_are_none(void **state)
{
    static const quern_header alone[] = {{"tracestate", "a=b"}};
    static const quern_header broken[] = {{"traceparent", "00-ab-cd-01"}, {"tracestate", "a=b"}};
    static const quern_header half[] = {{"traceparent", PARENT}, {"tracestate", "A"}};
    static const quern_header null[] = {{"traceparent", NULL}};
    char id[QN_TRACE_ID_SIZE];
    (void)state;
    assert_null(qn_trace_headers_state((struct qn_trace_headers){alone, 1}));
    assert_null(qn_trace_headers_parent((struct qn_trace_headers){broken, 2}));
    assert_null(qn_trace_headers_state((struct qn_trace_headers){broken, 2}));
    assert_null(qn_trace_headers_id((struct qn_trace_headers){broken, 2}, id));
    assert_non_null(qn_trace_headers_parent((struct qn_trace_headers){half, 2}));
    assert_null(qn_trace_headers_state((struct qn_trace_headers){half, 2}));
    assert_null(qn_trace_headers_parent((struct qn_trace_headers){null, 1}));
    assert_null(qn_trace_headers_parent((struct qn_trace_headers){NULL, 0}));
}

static void fields_of_a_task_replace_its_headers(void **state)
{
    static const quern_header own[] = {{"Traceparent", OTHER}, {"x", "y"}, {"tracestate", "c=d"}};
    const quern_task task = {
        .headers = own, .header_count = 3, .traceparent = PARENT, .tracestate = "a=b"};
    struct qn_trace_headers headers = prepare(*state, task);
    assert_int_equal(headers.count, 3);
    assert_string_equal(headers.headers[0].name, "x");
    assert_string_equal(headers.headers[1].name, "traceparent");
    assert_string_equal(headers.headers[1].value, PARENT);
    assert_string_equal(headers.headers[2].name, "tracestate");
    assert_string_equal(headers.headers[2].value, "a=b");
    const quern_task stateless = {.headers = own, .header_count = 3, .traceparent = PARENT};
    headers = prepare(*state, stateless);
    assert_int_equal(headers.count, 2);
    assert_null(qn_trace_headers_state(headers));
}

static void fields_that_are_not_valid_change_nothing(void **state)
{
    static const quern_header own[] = {{"Traceparent", OTHER}, {"tracestate", "c=d"}};
    const quern_task task = {
        .headers = own, .header_count = 2, .traceparent = "no", .tracestate = "a=b"};
    struct qn_trace_headers headers = prepare(*state, task);
    assert_int_equal(headers.count, 2);
    assert_string_equal(headers.headers[0].name, "Traceparent");
    assert_string_equal(qn_trace_headers_state(headers), "c=d");
    headers = prepare(*state, (quern_task){.traceparent = "", .tracestate = "a=b"});
    assert_int_equal(headers.count, 0);
    headers = prepare(*state, (quern_task){.traceparent = PARENT, .tracestate = "A=b"});
    assert_int_equal(headers.count, 1);
}

static void later_version_is_stored_as_version_0(void **state)
{
    const quern_task task = {.traceparent = "7f-" ID "-b7ad6b7169203331-ff-more"};
    assert_string_equal(qn_trace_headers_parent(prepare(*state, task)), PARENT);
}

static void header_without_room_is_left_out(void **state)
{
    quern_header own[QN_HEADER_COUNT_MAX];
    char space[QN_HEADER_COUNT_MAX][4];
    for (size_t i = 0; i < QN_HEADER_COUNT_MAX; i++) {
        (void)snprintf(space[i], sizeof space[i], "h%u", (unsigned)i % 100);
        own[i] = (quern_header){space[i], "v"};
    }
    quern_task task = {.headers = own,
                       .header_count = QN_HEADER_COUNT_MAX,
                       .traceparent = PARENT,
                       .tracestate = "a=b"};
    assert_int_equal(prepare(*state, task).count, QN_HEADER_COUNT_MAX);
    assert_null(qn_trace_headers_parent(prepare(*state, task)));
    task.header_count--;
    struct qn_trace_headers headers = prepare(*state, task);
    assert_int_equal(headers.count, QN_HEADER_COUNT_MAX);
    assert_non_null(qn_trace_headers_parent(headers));
    assert_null(qn_trace_headers_state(headers));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(headers_name_the_trace_in_any_case),
    cmocka_unit_test(state_without_parent_and_broken_values_are_none),
    cmocka_unit_test_setup_teardown(fields_of_a_task_replace_its_headers, open_desk, close_desk),
    cmocka_unit_test_setup_teardown(fields_that_are_not_valid_change_nothing, open_desk,
                                    close_desk),
    cmocka_unit_test_setup_teardown(later_version_is_stored_as_version_0, open_desk, close_desk),
    cmocka_unit_test_setup_teardown(header_without_room_is_left_out, open_desk, close_desk),
};

TEST_MAIN(tests)
