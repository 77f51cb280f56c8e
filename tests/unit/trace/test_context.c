/* SPDX-License-Identifier: MIT */
/* test_context.c - which texts are a traceparent or a tracestate, by the rules of W3C. */
#include "trace/context.h"

#include <stdio.h>

#include "lib_test.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"
#define PARENT "00-" TRACE "-" SPAN "-01"
#define Z64 "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"

static void valid_parent_is_written_as_it_was_read(void **state)
{
    struct qn_trace_context context;
    char text[QN_TRACEPARENT_SIZE];
    char id[QN_TRACE_ID_SIZE];
    char span[QN_TRACE_SPAN_SIZE];
    (void)state;
    assert_true(qn_trace_context_parse(PARENT, &context));
    assert_true(context.sampled);
    qn_trace_context_format(&context, text);
    assert_string_equal(text, PARENT);
    qn_trace_context_format_id(&context, id);
    assert_string_equal(id, TRACE);
    qn_trace_context_format_span(context.span, span);
    assert_string_equal(span, SPAN);
}

static void other_flags_and_later_versions_are_dropped(void **state)
{
    static const struct {
        const char *text;
        const char *written;
    } cases[] = {
        {"00-" TRACE "-" SPAN "-00", "00-" TRACE "-" SPAN "-00"},
        {"00-" TRACE "-" SPAN "-ff", "00-" TRACE "-" SPAN "-01"},
        {"00-" TRACE "-" SPAN "-fe", "00-" TRACE "-" SPAN "-00"},
        {"cc-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-01"},
        {"01-" TRACE "-" SPAN "-03-what-the-future-will-be-like", "00-" TRACE "-" SPAN "-01"},
        {"00-00000000000000000000000000000001-0000000000000001-01",
         "00-00000000000000000000000000000001-0000000000000001-01"},
        {"00-00000000000000010000000000000000-" SPAN "-01",
         "00-00000000000000010000000000000000-" SPAN "-01"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qn_trace_context context;
        char text[QN_TRACEPARENT_SIZE];
        assert_true(qn_trace_context_parse(cases[i].text, &context));
        qn_trace_context_format(&context, text);
        assert_string_equal(text, cases[i].written);
    }
}

static void parent_that_breaks_a_rule_is_none(void **state)
{
    static const char *const texts[] = {
        NULL,
        "",
        "00",
        "00-ab-cd-01",
        "ff-" TRACE "-" SPAN "-01",                        /* no such version */
        "00-00000000000000000000000000000000-" SPAN "-01", /* no trace */
        "00-" TRACE "-0000000000000000-01",                /* no span */
        "00-" TRACE "-" SPAN "-01-more",                   /* not in version 0 */
        "00-" TRACE "-" SPAN "-01-",
        "01-" TRACE "-" SPAN "-01.more",
        "00-" TRACE "-" SPAN "-1",
        "00-" TRACE "-" SPAN "-0x",
        "00-" TRACE "-" SPAN "_01",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01", /* capitals */
        "0x-" TRACE "-" SPAN "-01",
        " 00-" TRACE "-" SPAN "-01",
        "00-" TRACE "-" SPAN "-01 ",
        "00-\xc3\xa9"
        "f7651916cd43dd8448eb211c80319c-" SPAN "-01",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct qn_trace_context context;
        if (qn_trace_context_parse(texts[i], &context)) {
            fail_msg("'%s' is taken for a traceparent", texts[i]);
        }
    }
}

static void states_by_the_rules(void **state)
{
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {NULL, false},
        {"", false},
        {" , ,", false},
        {"a=b", true},
        {"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", true},
        {"a=1 ,\tb=2 ,, c=3", true},
        {"fw529a3039@dt=FfYxK", true},
        {"4you@me=1", true},
        {"4you=1", false},
        {"a_-*/9=1", true},
        {"A=1", false},
        {"a@b@c=1", false},
        {"@b=1", false},
        {"a@=1", false},
        {"a@B=1", false},
        {"a@abcdefghijklmn=1", true},   /* 14 characters */
        {"a@abcdefghijklmno=1", false}, /* 15 */
        {"a=", false},
        {"=b", false},
        {"a", false},
        {"a=b=c", false},
        {"a=b c", true},
        {"a=\xc3\xa9", false},
        {"a=b\n", false},
        {"a=" Z64 Z64 Z64 Z64, true},
        {"a=" Z64 Z64 Z64 Z64 "z", false},
        {"a=" Z64 Z64 Z64 Z64 ",b=" Z64 Z64 Z64 Z64, false}, /* 512 in all */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (qn_trace_context_check_state(cases[i].text) != cases[i].valid) {
            fail_msg("tracestate '%s' is not judged right", cases[i].text);
        }
    }
}

static void state_has_32_members_at_most(void **state)
{
    char text[QN_TRACESTATE_SIZE_MAX] = "";
    (void)state;
    for (size_t count = 1; count <= 33; count++) {
        (void)snprintf(text + 4 * (count - 1), sizeof text - 4 * (count - 1), "a=b,");
        assert_int_equal(qn_trace_context_check_state(text), count <= 32);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(valid_parent_is_written_as_it_was_read),
    cmocka_unit_test(other_flags_and_later_versions_are_dropped),
    cmocka_unit_test(parent_that_breaks_a_rule_is_none),
    cmocka_unit_test(states_by_the_rules),
    cmocka_unit_test(state_has_32_members_at_most),
};

TEST_MAIN(tests)
