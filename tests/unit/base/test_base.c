/* SPDX-License-Identifier: MIT */
/* test_base.c - the small things of src/base: errors, log, clock, random numbers, options of any
 * size, lists, names of statuses. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory/list.h"
#include "base/memory/sized.h"
#include "base/random.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "lib_test.h"
#include "quern/testing.h"
#include "quern/version.h"
#include "task/limits.h"

static void error_is_set_cut_and_clean(void **state)
{
    (void)state;
    quern_error err = {0};
    assert_int_equal(qn_error_set(&err, QUERN_E_BUSY, "open %s: %d", "file", 5), QUERN_E_BUSY);
    assert_int_equal(err.code, QUERN_E_BUSY);
    assert_string_equal(err.text, "open file: 5");
    char text[300];
    memset(text, 'a', sizeof text);
    memcpy(text + 250, "\xc3\xa4", 3);
    (void)qn_error_set(&err, QUERN_E_INVALID, "%s", text);
    assert_int_equal(strlen(err.text), 250);
    (void)qn_error_set(&err, QUERN_E_INVALID, "bad \xff byte");
    assert_true(qn_utf8_valid(err.text, strlen(err.text)));
    assert_int_equal(qn_error_set(NULL, QUERN_E_FULL, "not wanted"), QUERN_E_FULL);
}

static void error_may_be_built_from_its_own_text(void **state)
{
    (void)state;
    quern_error err = {0};
    (void)qn_error_set(&err, QUERN_E_BUSY, "locked");
    (void)qn_error_set(&err, QUERN_E_TIMEOUT, "open: %s", err.text);
    assert_string_equal(err.text, "open: locked");
    qn_error_prefix(&err, "task %d", 17);
    assert_string_equal(err.text, "task 17: open: locked");
    assert_int_equal(err.code, QUERN_E_TIMEOUT);
    for (int i = 0; i < 100; i++) {
        qn_error_prefix(&err, "prefix");
    }
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    qn_error_prefix(NULL, "not wanted");
    assert_int_equal(qn_error_nomem(&err), QUERN_E_NOMEM);
    assert_string_equal(err.text, "out of memory");
}

static void every_status_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = QUERN_OK; i <= QUERN_E_DENIED; i++) {
        for (int j = QUERN_OK; j < i; j++) {
            assert_string_not_equal(quern_status_name((quern_status)i),
                                    quern_status_name((quern_status)j));
        }
    }
    assert_string_equal(quern_status_name(QUERN_E_DUPLICATE), "duplicate");
    assert_string_equal(quern_status_name((quern_status)999), "unknown status");
    assert_string_equal(quern_version(), QUERN_VERSION);
}

static void remember_line(quern_log_level level, const char *line, void *user)
{
    (void)snprintf(user, 2000, "%d %s", (int)level, line);
}

static void log_gives_lines_to_the_sink(void **state)
{
    (void)state;
    char seen[2000] = "";
    struct qn_log log;
    qn_log_init(&log, remember_line, seen);
    qn_log_write(&log, QUERN_LOG_WARN, "queue %s is paused", "mail");
    assert_string_equal(seen, "2 msg=\"queue mail is paused\"");
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    qn_log_write(&log, QUERN_LOG_INFO, "%s", text);
    assert_int_equal(strlen(seen), strlen("1 msg=") + 1023);
    qn_log_finish(&log);
    qn_log_init(&log, NULL, NULL);
    qn_log_write(&log, QUERN_LOG_ERROR, "no sink");
    qn_log_finish(&log);
}

static void system_clock_moves_forward(void **state)
{
    (void)state;
    const struct quern_clock *clock = qn_clock_system();
    int64_t boot_ms = qn_clock_boot_ms(clock);
    int64_t mono_ns = qn_clock_mono_ns();
    assert_true(qn_clock_wall_ms(clock) > INT64_C(1600000000000));
    test_pause_ms(2);
    assert_true(qn_clock_boot_ms(clock) > boot_ms);
    assert_true(qn_clock_mono_ns() > mono_ns);
}

static void turned_clock_stands_still_until_it_is_turned(void **state)
{
    (void)state;
    quern_error err = {0};
    quern_clock *clock = NULL;
    assert_ok(quern_clock_new(1700000000000, &clock, &err), err);
    int64_t boot_ms = qn_clock_boot_ms(clock);
    assert_int_equal(qn_clock_wall_ms(clock), 1700000000000);
    quern_clock_advance(clock, 1500);
    assert_int_equal(qn_clock_wall_ms(clock), 1700000001500);
    assert_int_equal(qn_clock_boot_ms(clock), boot_ms + 1500);
    quern_clock_jump(clock, -3600000);
    assert_int_equal(qn_clock_wall_ms(clock), 1699996401500);
    assert_int_equal(qn_clock_boot_ms(clock), boot_ms + 1500);
    quern_clock_advance(clock, -5);
    assert_int_equal(qn_clock_boot_ms(clock), boot_ms + 1500);
    quern_clock_free(clock);
    quern_clock_free(NULL);
    assert_int_equal(quern_clock_new(-1, &clock, &err), QUERN_E_INVALID);
    assert_int_equal(quern_clock_new(0, NULL, NULL), QUERN_E_INVALID);
}

static void same_seed_gives_the_same_row(void **state)
{
    (void)state;
    struct qn_random a;
    struct qn_random b;
    qn_random_init_seed(&a, 42);
    qn_random_init_seed(&b, 42);
    for (int i = 0; i < 100; i++) {
        assert_true(qn_random_next(&a) == qn_random_next(&b));
    }
    qn_random_init_seed(&b, 43);
    assert_true(qn_random_next(&a) != qn_random_next(&b));
    qn_random_init(&a);
    qn_random_init(&b);
    assert_true(qn_random_next(&a) != qn_random_next(&b));
}

static void below_is_uniform_and_below(void **state)
{
    (void)state;
    struct qn_random random;
    size_t counts[7] = {0};
    qn_random_init_seed(&random, 9);
    for (int i = 0; i < 70000; i++) {
        counts[qn_random_below(&random, 7)]++;
    }
    for (size_t i = 0; i < 7; i++) {
        assert_in_range(counts[i], 9500, 10500);
    }
    assert_int_equal(qn_random_below(&random, 1), 0);
    /* Two thirds of all numbers lie below this bound: without rejection the lower half would come
     * twice as often. */
    uint64_t bound = UINT64_MAX / 3 * 2;
    size_t low_count = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t number = qn_random_below(&random, bound);
        assert_true(number < bound);
        low_count += number < bound / 2;
    }
    assert_in_range(low_count, 14500, 15500);
}

struct options_v2 {
    int64_t first;
    int64_t second;
};

static void options_of_older_and_newer_callers_are_read(void **state)
{
    (void)state;
    quern_error err = {0};
    struct options_v2 ours = {9, 9};
    const int64_t older[] = {1};
    assert_ok(
        qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){older, sizeof older}, "options", &err),
        err);
    assert_int_equal(ours.first, 1);
    assert_int_equal(ours.second, 0);
    const int64_t newer[] = {1, 2, 0};
    assert_ok(
        qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){newer, sizeof newer}, "options", &err),
        err);
    assert_int_equal(ours.second, 2);
    assert_ok(qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){NULL, 0}, "options", &err), err);
    assert_int_equal(ours.first, 0);
    assert_int_equal(ours.second, 0);
    const int64_t unknown[] = {1, 2, 3};
    assert_int_equal(qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){unknown, sizeof unknown},
                                   "options", &err),
                     QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "options"));
    assert_int_equal(qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){newer, sizeof newer - 1},
                                   "options", &err),
                     QUERN_E_INVALID);
    assert_string_equal(err.text, "options: a struct of 23 bytes is none of ours");
}

static void list_keeps_order_and_survives_removing_twice(void **state)
{
    (void)state;
    struct qn_list list;
    struct qn_list nodes[4];
    qn_list_init(&list);
    assert_null(qn_list_shift(&list));
    qn_list_append(&list, &nodes[1]);
    qn_list_append(&list, &nodes[2]);
    qn_list_prepend(&list, &nodes[0]);
    qn_list_append(&list, &nodes[3]);
    qn_list_remove(&nodes[2]);
    qn_list_remove(&nodes[2]);
    assert_ptr_equal(qn_list_shift(&list), &nodes[0]);
    assert_ptr_equal(qn_list_shift(&list), &nodes[1]);
    assert_false(qn_list_empty(&list));
    assert_ptr_equal(qn_list_shift(&list), &nodes[3]);
    assert_true(qn_list_empty(&list));
}

static void decimals_of_any_length_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool taken;
        uint64_t value;
        size_t left;
    } cases[] = {
        {"0", true, 0, 0},
        {"12 3", true, 12, 2},
        {"18446744073709551615", true, UINT64_MAX, 0},
        {"18446744073709551616", true, UINT64_MAX, 0},
        {"99999999999999999999999x", true, UINT64_MAX, 1},
        {"", false, 0, 0},
        {"-1", false, 0, 2},
        {" 1", false, 0, 2},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        uint64_t value = 0;
        struct qn_cursor cursor = {cases[i].text, cases[i].text + strlen(cases[i].text)};
        assert_int_equal(qn_number_take(&cursor, &value), cases[i].taken);
        assert_true(value == cases[i].value);
        assert_int_equal(cursor.end - cursor.at, cases[i].left);
    }
    static const char word[] = "ab";
    struct qn_cursor cursor = {word, word + 1};
    assert_false(qn_number_take_char(&cursor, 'b'));
    assert_true(qn_number_take_char(&cursor, 'a'));
    assert_false(qn_number_take_char(&cursor, 'b'));
}

static void moments_and_durations_are_clamped(void **state)
{
    (void)state;
    static const int64_t extremes[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    for (size_t i = 0; i < TEST_COUNT(extremes); i++) {
        int64_t moment_ms = qn_moment_ms_of(extremes[i]);
        int64_t duration_ms = qn_duration_ms_of(extremes[i]);
        assert_true(moment_ms >= 0 && moment_ms <= QN_MOMENT_MS_MAX);
        assert_true(duration_ms >= 0 && duration_ms <= QN_DURATION_MS_MAX);
        assert_true(moment_ms + duration_ms <= INT64_MAX / 2);
    }
    assert_int_equal(qn_moment_ms_of(1), 1);
    assert_int_equal(qn_duration_ms_of(1), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(error_is_set_cut_and_clean),
    cmocka_unit_test(error_may_be_built_from_its_own_text),
    cmocka_unit_test(every_status_has_a_name_of_its_own),
    cmocka_unit_test(log_gives_lines_to_the_sink),
    cmocka_unit_test(system_clock_moves_forward),
    cmocka_unit_test(turned_clock_stands_still_until_it_is_turned),
    cmocka_unit_test(same_seed_gives_the_same_row),
    cmocka_unit_test(below_is_uniform_and_below),
    cmocka_unit_test(options_of_older_and_newer_callers_are_read),
    cmocka_unit_test(list_keeps_order_and_survives_removing_twice),
    cmocka_unit_test(decimals_of_any_length_are_read),
    cmocka_unit_test(moments_and_durations_are_clamped),
};

TEST_MAIN(tests)
