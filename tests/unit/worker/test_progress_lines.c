/* SPDX-License-Identifier: MIT */
/* test_progress_lines.c - lines of a command that become its progress, whatever it writes. */
#include "worker/exec/progress_lines.h"

#include <stdio.h>
#include <string.h>

#include "lib_test.h"

#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define NOTE_MAX HUNDRED HUNDRED TEN TEN TEN TEN TEN "012345" /* of 256 bytes */

static void lines_set_percentage_and_note(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_new;
        int32_t percent;
        const char *note;
    } cases[] = {
        {"50\n", true, 50, ""},
        {"0\n", true, 0, ""},
        {"100%\n", true, 100, ""},
        {"50 half way\n", true, 50, "half way"},
        {"  7%\t row 7 of 100 \r\n", true, 7, "row 7 of 100"},
        {"reading\n", true, 0, "reading"},
        {"50 a\nreading\n", true, 50, "reading"},
        {"50 a\n60\n", true, 60, ""},
        {"1\n2\n3 c\n", true, 3, "c"},
        {"101\n", true, 0, "101"},
        {"250 files\n", true, 0, "250 files"},
        {"00000050\n", true, 0, "00000050"},
        {"050 a\n", true, 50, "a"},
        {"50.5\n", true, 0, "50.5"},
        {"-5\n", true, 0, "-5"},
        {"%\n", true, 0, "%"},
        {"7%%\n", true, 0, "7%%"},
        {"5\xc2\xb5s\n", true, 0, "5\xc2\xb5s"},
        {"a\x1b[31m\tb\n", true, 0, "a\x1b[31m\tb"},
        {"\n \t\r\n\n", false, 0, ""},
        {"50", false, 0, ""},
        {"", false, 0, ""},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_progress_lines lines = {0};
        bool is_new = qn_progress_lines_feed(&lines, cases[i].text, strlen(cases[i].text));
        assert_int_equal(is_new, cases[i].is_new);
        assert_int_equal(lines.progress.percent, cases[i].percent);
        assert_string_equal(lines.progress.note, cases[i].note);
        assert_false(lines.garbled);
    }
}

static void orders_are_no_progress(void **state)
{
    (void)state;
    struct qn_progress_lines lines = {0};
    static const char text[] = "30 a\nretry-in=1m30s\n snooze=250ms \nerror-class=dns\n";
    assert_true(qn_progress_lines_feed(&lines, text, sizeof text - 1));
    assert_string_equal(lines.progress.note, "a");
    assert_int_equal(lines.orders.order, QN_ORDER_SNOOZE);
    assert_int_equal(lines.orders.delay_ms, 250);
    assert_string_equal(lines.orders.class_name, "dns");
    assert_false(qn_progress_lines_feed(&lines, "snooze=soon\n", 12));
    assert_string_equal(lines.orders.wrong, "snooze=soon");
    assert_string_equal(lines.progress.note, "a");
    assert_false(lines.garbled);
}

static void pieces_may_end_anywhere(void **state)
{
    (void)state;
    static const char text[] = "12 one\n\n34 two three\n";
    struct qn_progress_lines lines = {0};
    int news = 0;
    for (size_t i = 0; i < strlen(text); i++) {
        news += qn_progress_lines_feed(&lines, text + i, 1) ? 1 : 0;
    }
    assert_int_equal(news, 2);
    assert_int_equal(lines.progress.percent, 34);
    assert_string_equal(lines.progress.note, "two three");
}

static void an_order_counts_without_its_line_end(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum qn_order order;
        bool is_wrong;
    } cases[] = {
        {"50 half\nsnooze=5m", QN_ORDER_SNOOZE, false},
        {"snooze=5m\nretry-in=1s", 1, false},
        {"snooze=5m\n50 ha", QN_ORDER_SNOOZE, false},
        {"snooze=", QN_ORDER_NONE, true},
        {"", QN_ORDER_NONE, false},
        {"snooze=5m\n", QN_ORDER_SNOOZE, false},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_progress_lines lines = {0};
        bool is_new = qn_progress_lines_feed(&lines, cases[i].text, strlen(cases[i].text));
        assert_int_equal(is_new, i == 0);
        qn_progress_lines_end(&lines);
        assert_int_equal(lines.orders.order, cases[i].order);
        assert_int_equal(lines.orders.wrong[0] != '\0', cases[i].is_wrong);
    }
}

static void the_longest_note_is_whole(void **state)
{
    (void)state;
    struct qn_progress_lines lines = {0};
    assert_int_equal(strlen(NOTE_MAX), QN_NOTE_SIZE_MAX);
    assert_true(qn_progress_lines_feed(&lines, "100% " NOTE_MAX "\n", 5 + QN_NOTE_SIZE_MAX + 1));
    assert_string_equal(lines.progress.note, NOTE_MAX);
    assert_false(lines.garbled);
}

/* However long it is, and wherever its pieces end; the next line counts again. */
static void long_lines_are_cut_at_a_character(void **state)
{
    (void)state;
    static const size_t sizes[] = {258, 300, 100000};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        struct qn_progress_lines lines = {0};
        assert_false(qn_progress_lines_feed(&lines, "9 x", 3));
        for (size_t at = 1; at < sizes[i]; at += 2) {
            assert_false(qn_progress_lines_feed(&lines, "\xc3\xa4", 2));
        }
        assert_true(qn_progress_lines_feed(&lines, "\n", 1));
        assert_int_equal(lines.progress.percent, 9);
        assert_int_equal(strlen(lines.progress.note), QN_NOTE_SIZE_MAX - 1);
        assert_string_equal(lines.progress.note + QN_NOTE_SIZE_MAX - 3, "\xc3\xa4");
        assert_true(lines.garbled);
        assert_true(qn_progress_lines_feed(&lines, "10 short\n", 9));
        assert_int_equal(lines.progress.percent, 10);
        assert_string_equal(lines.progress.note, "short");
    }
}

static void bytes_that_are_not_text_are_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        const char *note;
    } cases[] = {
        {"5 a\xff\x62\n", 6, "a\xef\xbf\xbd\x62"},
        {"5 a\0b\n", 6, "a\xef\xbf\xbd\x62"},
        {"5 a\xc3\n", 5, "a\xef\xbf\xbd"},
        {"5 \xed\xa0\x80\n", 6, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_progress_lines lines = {0};
        assert_true(qn_progress_lines_feed(&lines, cases[i].text, cases[i].size));
        assert_int_equal(lines.progress.percent, 5);
        assert_string_equal(lines.progress.note, cases[i].note);
        assert_true(lines.garbled);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lines_set_percentage_and_note),
    cmocka_unit_test(orders_are_no_progress),
    cmocka_unit_test(pieces_may_end_anywhere),
    cmocka_unit_test(an_order_counts_without_its_line_end),
    cmocka_unit_test(the_longest_note_is_whole),
    cmocka_unit_test(long_lines_are_cut_at_a_character),
    cmocka_unit_test(bytes_that_are_not_text_are_replaced),
};
TEST_MAIN(tests)
