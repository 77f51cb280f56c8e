/* SPDX-License-Identifier: MIT */
/* test_family.c - series: counting, the bounds of their number, and threads. */
#include "metrics/family.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib_test.h"

static const int64_t bounds[] = {1, 10};
static const struct qn_family_facts counter_facts = {
    .metric = {"x_total", "X.", QN_METRIC_COUNTER, false},
    .labels = {"queue", "type"},
    .label_count = 2,
    .open_label = 1};
static const struct qn_family_facts histogram_facts = {
    .metric = {"y", "Y.", QN_METRIC_HISTOGRAM, false},
    .labels = {"type"},
    .label_count = 1,
    .open_label = 0,
    .bounds = bounds,
    .bound_count = 2};
static const struct qn_family_facts bare_facts = {
    .metric = {"z_total", "Z.", QN_METRIC_COUNTER, false}};

/* The document of a family; the caller frees it. */
static char *render(struct qn_family *family)
{
    struct qn_exposition exposition;
    struct qn_buf text;
    qn_buf_init(&text, QN_EXPOSITION_SIZE_MAX);
    qn_exposition_init(&exposition, &text, QUERN_METRICS_TEXT);
    qn_family_render(family, &exposition);
    assert_int_equal(exposition.status, QUERN_OK);
    char *copy = strdup(qn_buf_text(&text));
    qn_buf_finish(&text);
    assert_non_null(copy);
    return copy;
}

static void assert_has(struct qn_family *family, const char *line)
{
    char *text = render(family);
    if (strstr(text, line) == NULL) {
        fail_msg("no %s in %s", line, text);
    }
    free(text);
}

static void add(struct qn_family *family, const char *queue, const char *type, uint64_t count)
{
    qn_family_add(family, (const char *const[]){queue, type}, count);
}

static size_t count_lines(struct qn_family *family)
{
    char *text = render(family);
    size_t count = 0;
    for (const char *at = text; *at != '\0'; at++) {
        count += *at == '\n' ? 1 : 0;
    }
    free(text);
    return count;
}

static void series_come_with_their_first_count(void **state)
{
    struct qn_family family = {0};
    quern_error err = {0};
    (void)state;
    assert_ok(qn_family_init(&family, &counter_facts, &err), err);
    char *text = render(&family);
    assert_string_equal(text, "");
    free(text);
    add(&family, "q", "a", 1);
    add(&family, "q", "b", 2);
    add(&family, "q", "a", 3);
    add(&family, "qa", "", 1); /* not the same as q and a */
    assert_has(&family, "x_total{queue=\"q\",type=\"a\"} 4\n");
    assert_has(&family, "x_total{queue=\"q\",type=\"b\"} 2\n");
    assert_has(&family, "x_total{queue=\"qa\",type=\"\"} 1\n");
    qn_family_finish(&family);
}

static void counter_without_labels_begins_at_zero(void **state)
{
    struct qn_family family = {0};
    quern_error err = {0};
    (void)state;
    assert_ok(qn_family_init(&family, &bare_facts, &err), err);
    assert_has(&family, "z_total 0\n");
    qn_family_add(&family, NULL, 5);
    assert_has(&family, "z_total 5\n");
    qn_family_finish(&family);
}

static void number_on_a_bound_is_below_it(void **state)
{
    static const int64_t numbers[] = {-5, 0, 1, 2, 10, 11, INT64_C(1000000)};
    struct qn_family family = {0};
    quern_error err = {0};
    (void)state;
    assert_ok(qn_family_init(&family, &histogram_facts, &err), err);
    for (size_t i = 0; i < TEST_COUNT(numbers); i++) {
        qn_family_observe(&family, (const char *const[]){"t"}, numbers[i]);
    }
    assert_has(&family, "y_bucket{type=\"t\",le=\"1.0\"} 3\n");
    assert_has(&family, "y_bucket{type=\"t\",le=\"10.0\"} 5\n");
    assert_has(&family, "y_bucket{type=\"t\",le=\"+Inf\"} 7\n");
    assert_has(&family, "y_sum{type=\"t\"} 1000024\n");
    assert_has(&family, "y_count{type=\"t\"} 7\n");
    qn_family_finish(&family);
}

static void series_beyond_the_bound_are_other(void **state)
{
    struct qn_family family = {0};
    quern_error err = {0};
    char name[32];
    (void)state;
    assert_ok(qn_family_init(&family, &counter_facts, &err), err);
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "type-%d", i);
        add(&family, "q", name, 1);
    }
    add(&family, "q", "type-7", 1); /* one that was there before */
    assert_int_equal(count_lines(&family), 2 + QN_SERIES_MAX + 1);
    assert_has(&family, "{queue=\"q\",type=\"type-7\"} 2\n");
    assert_has(&family, "{queue=\"q\",type=\"other\"} 4700\n");
    for (int i = 0; i < 5000; i++) { /* queues are foreign words, too, where a worker serves * */
        (void)snprintf(name, sizeof name, "queue-%d", i);
        add(&family, name, "new", 1);
    }
    assert_int_equal(count_lines(&family), 2 + 2 * QN_SERIES_MAX + 1);
    assert_has(&family, "{queue=\"queue-7\",type=\"other\"} 1\n");
    assert_has(&family, "{queue=\"other\",type=\"other\"} 4701\n");
    assert_int_equal(qn_family_lost(&family), 0);
    qn_family_finish(&family);
}

enum { THREADS = 4, ROUNDS = 20000, NAMES = 400 };

static void *count_much(void *user)
{
    struct qn_family *family = user;
    char name[32];
    for (int i = 0; i < ROUNDS; i++) {
        (void)snprintf(name, sizeof name, "type-%d", i % NAMES);
        add(family, "q", name, 1);
    }
    return NULL;
}

static void threads_lose_no_count(void **state)
{
    struct qn_family family = {0};
    quern_error err = {0};
    pthread_t threads[THREADS];
    uint64_t sum = 0;
    (void)state;
    assert_ok(qn_family_init(&family, &counter_facts, &err), err);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_much, &family), 0);
    }
    char *text = render(&family); /* while they count */
    free(text);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    text = render(&family);
    for (const char *at = strstr(text, "} "); at != NULL; at = strstr(at + 1, "} ")) {
        sum += strtoull(at + 2, NULL, 10);
    }
    free(text);
    assert_int_equal(sum, THREADS * ROUNDS);
    assert_in_range(count_lines(&family), QN_SERIES_MAX, QN_SERIES_MAX + THREADS + 3);
    qn_family_finish(&family);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(series_come_with_their_first_count),
    cmocka_unit_test(counter_without_labels_begins_at_zero),
    cmocka_unit_test(number_on_a_bound_is_below_it),
    cmocka_unit_test(series_beyond_the_bound_are_other),
    cmocka_unit_test(threads_lose_no_count),
};
TEST_MAIN(tests)
