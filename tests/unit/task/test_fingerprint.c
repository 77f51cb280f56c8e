/* SPDX-License-Identifier: MIT */
/* test_fingerprint.c - errors of one kind have one fingerprint. */
#include "task/fingerprint/fingerprint.h"

#include <string.h>

#include "lib_test.h"

static void what_differs_is_taken_out(void **state)
{
    (void)state;
    static const struct {
        const char *error;
        const char *text;
    } cases[] = {
        {"", ""},
        {"no route to host", "no route to host"},
        {"exit code 3\n", "exit code #"},
        {"connect 127.0.0.1:6379: refused", "connect #: refused"},
        {"at 0x7ffe12ab, line 17", "at #, line #"},
        {"task 0199f3a1-7c2e-7d43-8a55-0d6f2e9b1c77 is gone", "task # is gone"},
        {"user ann+x@mail.example.org is unknown", "user # is unknown"},
        {"order a1b2c3d4e5  failed\tat 12:30:01.250", "order # failed at #"},
        {"read 1.5 of 17 MB", "read # of # MB"},
        {"utf8 @ home", "utf# @ home"},
        {"-5 and v2.1-rc3", "-# and v#-rc#"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char text[QN_FINGERPRINT_TEXT_SIZE];
        (void)qn_fingerprint(cases[i].error, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void equal_texts_have_one_hash_and_long_ones_are_cut(void **state)
{
    (void)state;
    char text[QN_FINGERPRINT_TEXT_SIZE];
    static char longer[4 * QN_FINGERPRINT_TEXT_SIZE];
    assert_true(qn_fingerprint("exit code 3", text) == qn_fingerprint("exit  code 17", text));
    assert_true(qn_fingerprint("exit code 3", text) != qn_fingerprint("exit mode 3", text));
    memset(longer, 'x', sizeof longer - 1);
    (void)qn_fingerprint(longer, text);
    assert_int_equal(strlen(text), sizeof text - 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_differs_is_taken_out),
    cmocka_unit_test(equal_texts_have_one_hash_and_long_ones_are_cut),
};
TEST_MAIN(tests)
