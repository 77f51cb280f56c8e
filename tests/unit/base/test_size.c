/* SPDX-License-Identifier: MIT */
/* test_size.c - sizes in bytes, as people write them. */
#include "base/text/size.h"

#include <string.h>

#include "lib_test.h"

static void sizes_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"64k", INT64_C(64) << 10},
        {"64KB", INT64_C(64) << 10},
        {"64KiB", INT64_C(64) << 10},
        {"512M", INT64_C(512) << 20},
        {"1.5G", INT64_C(3) << 29},
        {"0.125G", INT64_C(1) << 27},
        {"2T", INT64_C(2) << 40},
        {"8388607T", INT64_C(8388607) << 40},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        int64_t bytes = -1;
        assert_ok(qn_size_parse(cases[i].text, &bytes, &err), err);
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",    "M",  "-1",   "1.",  "1.1234G", ".5G", "1Mi",      "1MBB",
        "1 M", "1P", "0x10", "1e9", "1Bi",     "BB",  "8388608T", "9223372036854775808"};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        int64_t bytes = -1;
        assert_int_equal(qn_size_parse(cases[i], &bytes, &err), QUERN_E_INVALID);
        assert_non_null(strstr(err.text, cases[i]));
        assert_int_equal(bytes, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_as_people_write_them),
        cmocka_unit_test(what_is_no_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
