/* SPDX-License-Identifier: MIT */
/* test_source.c - ids of traces and spans, and the traces that are recorded. */
#include "trace/source.h"

#include "lib_test.h"

enum { COUNT = 20000 };

static void span_below_a_parent_keeps_its_trace_and_flag(void **state)
{
    struct qn_trace_source source;
    struct qn_trace_context context;
    (void)state;
    qn_trace_source_init(&source, -1);
    for (int sampled = 0; sampled < 2; sampled++) {
        const struct qn_trace_context parent = {7, 8, 9, sampled == 1};
        qn_trace_source_next(&source, &parent, &context);
        assert_true(context.trace_high == 7 && context.trace_low == 8);
        assert_true(context.span != 9 && context.span != 0);
        assert_int_equal(context.sampled, sampled);
    }
    qn_trace_source_finish(&source);
}

static size_t count_sampled(int32_t ppm)
{
    struct qn_trace_source source;
    struct qn_trace_context context;
    size_t count = 0;
    qn_trace_source_init(&source, ppm);
    qn_random_init_seed(&source.random, 1);
    for (size_t i = 0; i < COUNT; i++) {
        qn_trace_source_next(&source, NULL, &context);
        count += context.sampled ? 1 : 0;
    }
    qn_trace_source_finish(&source);
    return count;
}

static void part_of_new_traces_is_recorded(void **state)
{
    (void)state;
    assert_int_equal(count_sampled(-1), 0);
    assert_int_equal(count_sampled(QN_SAMPLE_PPM_MAX), COUNT);
    size_t quarter = count_sampled(QN_SAMPLE_PPM_MAX / 4);
    assert_true(quarter > COUNT / 5 && quarter < COUNT / 3);
}

static void derived_context_is_the_same_each_time(void **state)
{
    static const uint64_t seed[2] = {3, 0};
    struct qn_trace_source source;
    struct qn_trace_context first;
    struct qn_trace_context second;
    (void)state;
    qn_trace_source_init(&source, QN_SAMPLE_PPM_MAX);
    qn_trace_source_derive(&source, seed, &first);
    qn_trace_source_derive(&source, seed, &second);
    assert_true(first.trace_high == 3 && first.trace_low != 0 && first.span != 0);
    assert_true(second.trace_high == first.trace_high && second.trace_low == first.trace_low);
    assert_true(second.span == first.span && second.sampled && first.sampled);
    qn_trace_source_finish(&source);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(span_below_a_parent_keeps_its_trace_and_flag),
    cmocka_unit_test(part_of_new_traces_is_recorded),
    cmocka_unit_test(derived_context_is_the_same_each_time),
};

TEST_MAIN(tests)
