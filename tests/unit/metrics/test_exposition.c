/* SPDX-License-Identifier: MIT */
/* test_exposition.c - documents in both formats, byte by byte. */
#include "metrics/exposition.h"

#include <stdint.h>
#include <string.h>

#include "lib_test.h"

#define NONE ((struct qn_metric_labels){NULL, 0})

static const struct qn_metric counter = {"x_things_total", "Things.", QN_METRIC_COUNTER, false};
static const struct qn_metric gauge = {"x_size_bytes", "Its\nsize \\ \"it\".", QN_METRIC_GAUGE,
                                       false};
static const struct qn_metric odd_gauge = {"x_now_total", "Now.", QN_METRIC_GAUGE, false};
static const struct qn_metric info = {"x_build_info", "What it is.", QN_METRIC_INFO, false};
static const struct qn_metric histogram = {"x_wait_seconds", "Waits.", QN_METRIC_HISTOGRAM, true};

static void write_all(struct qn_exposition *exposition)
{
    static const int64_t bounds[] = {50000, 2500000000, 10000000000};
    static const uint64_t counts[] = {1, 0, 2, 4};
    const struct qn_metric_label labels[] = {{"queue", "a"}, {"type", "b\\c\"d\ne"}};
    const struct qn_metric_buckets buckets = {bounds, counts, 3, 1250000000};
    qn_exposition_family(exposition, &counter);
    qn_exposition_sample(exposition, (struct qn_metric_labels){labels, 2}, 7);
    qn_exposition_created(exposition, (struct qn_metric_labels){labels, 2}, 1500);
    qn_exposition_family(exposition, &gauge);
    qn_exposition_sample(exposition, NONE, -3);
    qn_exposition_family(exposition, &odd_gauge);
    qn_exposition_sample(exposition, NONE, 0);
    qn_exposition_family(exposition, &info);
    qn_exposition_sample(exposition, (struct qn_metric_labels){labels, 1}, 1);
    qn_exposition_family(exposition, &histogram);
    qn_exposition_histogram(exposition, (struct qn_metric_labels){labels, 1}, &buckets);
    qn_exposition_created(exposition, (struct qn_metric_labels){labels, 1}, 2000);
    qn_exposition_end(exposition);
}

#define LABELS "{queue=\"a\",type=\"b\\\\c\\\"d\\ne\"}"
#define BUCKETS                                                                                    \
    "x_wait_seconds_bucket{queue=\"a\",le=\"0.00005\"} 1\n"                                        \
    "x_wait_seconds_bucket{queue=\"a\",le=\"2.5\"} 1\n"                                            \
    "x_wait_seconds_bucket{queue=\"a\",le=\"10.0\"} 3\n"                                           \
    "x_wait_seconds_bucket{queue=\"a\",le=\"+Inf\"} 7\n"                                           \
    "x_wait_seconds_sum{queue=\"a\"} 1.25\n"                                                       \
    "x_wait_seconds_count{queue=\"a\"} 7\n"

static void check(quern_metrics_format format, const char *expected)
{
    struct qn_exposition exposition;
    struct qn_buf text;
    qn_buf_init(&text, QN_EXPOSITION_SIZE_MAX);
    qn_exposition_init(&exposition, &text, format);
    write_all(&exposition);
    assert_int_equal(exposition.status, QUERN_OK);
    assert_string_equal(qn_buf_text(&text), expected);
    qn_buf_finish(&text);
}

static void text_has_neither_units_nor_times_of_creation(void **state)
{
    (void)state;
    check(QUERN_METRICS_TEXT,
          "# HELP x_things_total Things.\n# TYPE x_things_total counter\n"
          "x_things_total" LABELS " 7\n"
          "# HELP x_size_bytes Its\\nsize \\\\ \"it\".\n# TYPE x_size_bytes gauge\n"
          "x_size_bytes -3\n"
          "# HELP x_now_total Now.\n# TYPE x_now_total gauge\nx_now_total 0\n"
          "# HELP x_build_info What it is.\n# TYPE x_build_info gauge\n"
          "x_build_info{queue=\"a\"} 1\n"
          "# HELP x_wait_seconds Waits.\n# TYPE x_wait_seconds histogram\n" BUCKETS);
}

static void openmetrics_names_counters_without_total_and_ends(void **state)
{
    (void)state;
    check(QUERN_METRICS_OPENMETRICS,
          "# HELP x_things Things.\n# TYPE x_things counter\n"
          "x_things_total" LABELS " 7\nx_things_created" LABELS " 1.5\n"
          "# HELP x_size_bytes Its\\nsize \\\\ \\\"it\\\".\n# TYPE x_size_bytes gauge\n"
          "# UNIT x_size_bytes bytes\nx_size_bytes -3\n"
          "# HELP x_now_total Now.\n# TYPE x_now_total gauge\nx_now_total 0\n"
          "# HELP x_build What it is.\n# TYPE x_build info\nx_build_info{queue=\"a\"} 1\n"
          "# HELP x_wait_seconds Waits.\n# TYPE x_wait_seconds histogram\n"
          "# UNIT x_wait_seconds seconds\n" BUCKETS "x_wait_seconds_created{queue=\"a\"} 2\n"
          "# EOF\n");
}

static void numbers_are_exact(void **state)
{
    static const struct {
        int64_t number;
        bool is_time;
        const char *text;
    } cases[] = {
        {0, false, "0"},
        {0, true, "0"},
        {1, true, "0.000000001"},
        {-1, true, "-0.000000001"},
        {1000000000, true, "1"},
        {1200000000, true, "1.2"},
        {INT64_MAX, false, "9223372036854775807"},
        {INT64_MIN, false, "-9223372036854775808"},
        {INT64_MIN, true, "-9223372036.854775808"},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct qn_metric metric = {"x", "X.", QN_METRIC_GAUGE, cases[i].is_time};
        char expected[128];
        struct qn_exposition exposition;
        struct qn_buf text;
        qn_buf_init(&text, QN_EXPOSITION_SIZE_MAX);
        qn_exposition_init(&exposition, &text, QUERN_METRICS_TEXT);
        qn_exposition_family(&exposition, &metric);
        qn_exposition_sample(&exposition, NONE, cases[i].number);
        (void)snprintf(expected, sizeof expected, "# HELP x X.\n# TYPE x gauge\nx %s\n",
                       cases[i].text);
        assert_string_equal(qn_buf_text(&text), expected);
        qn_buf_finish(&text);
    }
}

static void value_that_is_not_utf8_is_cleaned(void **state)
{
    const struct qn_metric_label label = {"queue", "a\xff\"z"};
    struct qn_exposition exposition;
    struct qn_buf text;
    (void)state;
    qn_buf_init(&text, QN_EXPOSITION_SIZE_MAX);
    qn_exposition_init(&exposition, &text, QUERN_METRICS_TEXT);
    qn_exposition_family(&exposition, &odd_gauge);
    qn_exposition_sample(&exposition, (struct qn_metric_labels){&label, 1}, 1);
    assert_non_null(strstr(qn_buf_text(&text), "x_now_total{queue=\"a\xef\xbf\xbd\\\"z\"} 1\n"));
    qn_buf_finish(&text);
}

static void full_buffer_is_a_status(void **state)
{
    struct qn_exposition exposition;
    struct qn_buf text;
    (void)state;
    qn_buf_init(&text, 100);
    qn_exposition_init(&exposition, &text, QUERN_METRICS_OPENMETRICS);
    write_all(&exposition);
    assert_int_equal(exposition.status, QUERN_E_FULL);
    qn_buf_finish(&text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(text_has_neither_units_nor_times_of_creation),
    cmocka_unit_test(openmetrics_names_counters_without_total_and_ends),
    cmocka_unit_test(numbers_are_exact),
    cmocka_unit_test(value_that_is_not_utf8_is_cleaned),
    cmocka_unit_test(full_buffer_is_a_status),
};
TEST_MAIN(tests)
