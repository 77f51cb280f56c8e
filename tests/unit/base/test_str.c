/* SPDX-License-Identifier: MIT */
/* test_str.c - UTF-8 by the tables of RFC 3629, blank and control characters, edit distance. */
#include "base/text/str.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "base/text/utf8.h"
#include "lib_test.h"

static void only_rfc_3629_is_valid_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"", true},
        {"plain", true},
        {"\x7f", true},
        {"\xc2\x80", true},
        {"\xdf\xbf", true},
        {"\xe0\xa0\x80", true},
        {"\xed\x9f\xbf", true},
        {"\xee\x80\x80", true},
        {"\xef\xbf\xbf", true},
        {"\xf0\x90\x80\x80", true},
        {"\xf4\x8f\xbf\xbf", true},
        {"\x80", false},             /* a continuation alone */
        {"\xc2", false},             /* cut off */
        {"\xc2z", false},            /* cut off */
        {"\xc0\x80", false},         /* overlong */
        {"\xc1\xbf", false},         /* overlong */
        {"\xe0\x9f\xbf", false},     /* overlong */
        {"\xf0\x8f\xbf\xbf", false}, /* overlong */
        {"\xed\xa0\x80", false},     /* a surrogate */
        {"\xf4\x90\x80\x80", false}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", false}, /* above U+10FFFF */
        {"\xff", false},
        {"\xe2\x82", false},   /* cut off */
        {"ab\xe2\x82", false}, /* cut off */
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_int_equal(qn_utf8_valid(cases[i].text, strlen(cases[i].text)), cases[i].valid);
    }
    assert_true(qn_utf8_valid("a\0b", 3));
    assert_true(qn_utf8_valid(NULL, 0));
}

static void sanitize_replaces_each_mistake_once_and_cuts_at_a_character(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        size_t out_size;
        const char *clean;
    } cases[] = {
        {"plain", 5, 64, "plain"},
        {"", 0, 64, ""},
        {"a\xff"
         "b",
         3, 64,
         "a\xef\xbf\xbd"
         "b"},
        {"a\0b", 3, 64,
         "a\xef\xbf\xbd"
         "b"},
        {"\xe2\x82", 2, 64, "\xef\xbf\xbd"},
        {"\xe2\x82"
         "a",
         3, 64,
         "\xef\xbf\xbd"
         "a"},
        {"\xed\xa0\x80", 3, 64, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"abc", 3, 3, "ab"},
        {"abc", 3, 1, ""},
        {"a\xc3\xa4", 3, 3, "a"},
        {"a\xc3\xa4", 3, 4, "a\xc3\xa4"},
        {"a\xff", 2, 4, "a"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char out[64];
        memset(out, 'x', sizeof out);
        size_t size = qn_utf8_sanitize(cases[i].text, cases[i].size, out, cases[i].out_size);
        assert_string_equal(out, cases[i].clean);
        assert_int_equal(size, strlen(out));
        assert_true(qn_utf8_valid(out, size));
    }
}

static void blank_is_white_space_of_any_script(void **state)
{
    (void)state;
    static const char *const blank[] = {"",
                                        " ",
                                        "\t\n\v\f\r ",
                                        "\xc2\x85",
                                        "\xc2\xa0",
                                        "\xe1\x9a\x80",
                                        "\xe2\x80\x80",
                                        "\xe2\x80\x8a",
                                        "\xe2\x80\xa8",
                                        "\xe2\x80\xa9",
                                        "\xe2\x80\xaf",
                                        "\xe2\x81\x9f",
                                        " \xe3\x80\x80 "};
    static const char *const other[] = {"a", " a ", "\xe2\x80\x8b", "\xff", "\xc2", "0"};
    for (size_t i = 0; i < TEST_COUNT(blank); i++) {
        assert_true(qn_str_blank(blank[i]));
    }
    for (size_t i = 0; i < TEST_COUNT(other); i++) {
        assert_false(qn_str_blank(other[i]));
    }
}

static void control_characters_are_found_anywhere(void **state)
{
    (void)state;
    static const char *const with[] = {"\n", "a\tb", "a\x01", "\x7f", "a\xc2\x80", "\xc2\x9f"};
    static const char *const without[] = {"", "a b", "\xc2\xa0", "\xc3\x80", "\xe2\x80\x99"};
    for (size_t i = 0; i < TEST_COUNT(with); i++) {
        assert_true(qn_str_has_control(with[i]));
    }
    for (size_t i = 0; i < TEST_COUNT(without); i++) {
        assert_false(qn_str_has_control(without[i]));
    }
}

static void prefixes_are_compared_byte_by_byte(void **state)
{
    (void)state;
    assert_true(qn_str_starts_with("image:resize", "image:"));
    assert_true(qn_str_starts_with("image", ""));
    assert_false(qn_str_starts_with("imag", "image"));
    assert_false(qn_str_starts_with("Image", "image"));
}

static void distance_counts_inserts_deletes_replacements_and_swaps(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        size_t distance;
    } cases[] = {
        {"", "", 0},         {"queue", "queue", 0}, {"", "abc", 3},
        {"abc", "", 3},      {"queue", "queu", 1},  {"queue", "qeuue", 1},
        {"work", "wrok", 1}, {"work", "word", 1},   {"kitten", "sitting", 3},
        {"ca", "abc", 3},    {"task", "stats", 3},  {"ab", "ba", 1},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_int_equal(qn_str_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(qn_str_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
    char long_text[101] = {0};
    memset(long_text, 'a', 100);
    assert_int_equal(qn_str_distance(long_text, "a"), 100);
}

static void strdup_copies(void **state)
{
    (void)state;
    char text[] = "text";
    char *copy = qn_str_dup(text);
    assert_non_null(copy);
    text[0] = 'n';
    assert_string_equal(copy, "text");
    qn_free(copy);
}

static void plural_is_of_all_numbers_but_one(void **state)
{
    (void)state;
    assert_string_equal(qn_plural(0, "task is", "tasks are"), "tasks are");
    assert_string_equal(qn_plural(1, "task is", "tasks are"), "task is");
    assert_string_equal(qn_plural(2, "task is", "tasks are"), "tasks are");
    assert_string_equal(qn_plural(UINT64_MAX, "task is", "tasks are"), "tasks are");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(only_rfc_3629_is_valid_utf8),
    cmocka_unit_test(sanitize_replaces_each_mistake_once_and_cuts_at_a_character),
    cmocka_unit_test(blank_is_white_space_of_any_script),
    cmocka_unit_test(control_characters_are_found_anywhere),
    cmocka_unit_test(prefixes_are_compared_byte_by_byte),
    cmocka_unit_test(distance_counts_inserts_deletes_replacements_and_swaps),
    cmocka_unit_test(strdup_copies),
    cmocka_unit_test(plural_is_of_all_numbers_but_one),
};

TEST_MAIN(tests)
