/* SPDX-License-Identifier: MIT */
/* test_glob.c - patterns. */
#include "query/glob.h"

#include <string.h>

#include "lib_test.h"

static struct qn_bytes bytes_of(const char *text)
{
    return (struct qn_bytes){text, strlen(text)};
}

static void patterns_fit_whole_texts(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *text;
        bool fits;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "anything", true},
        {"a", "", false},
        {"mail:*", "mail:welcome", true},
        {"mail:*", "mail:", true},
        {"mail:*", "email:welcome", false},
        {"*:welcome", "mail:welcome", true},
        {"*a*b", "aabab", true},
        {"*a*b", "aaba", false},
        {"a**b", "ab", true},
        {"?", "", false},
        {"?", "x", true},
        {"?", "\xc3\xa4", true},
        {"??", "\xc3\xa4", false},
        {"?", "\xe2\x82\xac", true},
        {"?", "\xf0\x9f\x98\x80", true},
        {"?", "\xff", true},
        {"??", "\xc3x", true},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"\\?", "?", true},
        {"\\?", "x", false},
        {"a\\\\b", "a\\b", true},
        {"[a]", "a", false},
        {"[a]", "[a]", true},
        {"Mail", "mail", false},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        if (qn_glob_fits(bytes_of(cases[i].pattern), bytes_of(cases[i].text)) != cases[i].fits) {
            fail_msg("\"%s\" and \"%s\"", cases[i].pattern, cases[i].text);
        }
    }
}

static void bytes_of_zero_are_bytes(void **state)
{
    (void)state;
    static const char data[] = "a\0b";
    struct qn_bytes text = {data, sizeof data - 1};
    assert_true(qn_glob_fits(bytes_of("a?b"), text));
    assert_true(qn_glob_fits(bytes_of("*b"), text));
    assert_false(qn_glob_fits(bytes_of("a"), text));
}

static void wild_and_literal_patterns_are_told_apart(void **state)
{
    (void)state;
    assert_true(qn_glob_is_wild(bytes_of("a*")));
    assert_true(qn_glob_is_wild(bytes_of("\\\\*")));
    assert_false(qn_glob_is_wild(bytes_of("a\\*\\?")));
    char text[] = "a\\*b\\\\c";
    size_t size = qn_glob_literal(text, strlen(text));
    assert_int_equal(size, 5);
    assert_memory_equal(text, "a*b\\c", 5);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(patterns_fit_whole_texts),
    cmocka_unit_test(bytes_of_zero_are_bytes),
    cmocka_unit_test(wild_and_literal_patterns_are_told_apart),
};
TEST_MAIN(tests)
