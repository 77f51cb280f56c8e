/* SPDX-License-Identifier: MIT */
/* test_duration.c - durations and moments, both ways. */
#include "base/text/duration.h"
#include "base/text/moment.h"

#include <string.h>

#include "base/random.h"
#include "base/text/number.h"
#include "lib_test.h"
#include "task/limits.h"

static void durations_are_read_as_people_and_go_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"0", 0},
        {"0s", 0},
        {"90", 90000},
        {"1.5", 1500},
        {".5s", 500},
        {"1.s", 1000},
        {"1h30m", 5400000},
        {"1h0m0s", 3600000},
        {"1.5s", 1500},
        {"250ms", 250},
        {"2d", 172800000},
        {"1d2h3m4s5ms", 93784005},
        {"30m1h", 5400000},
        {"1us", 1},
        {"999999ns", 1},
        {"1000000ns", 1},
        {"1000001ns", 2},
        {"1\xc2\xb5s", 1},
        {"0.0000000000000000001s", 1},
        {"0.5ns", 1},
        {"0.001s", 1},
        {"1.0001s", 1001},
        {"36600d", QN_DURATION_MS_MAX},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        int64_t ms = -1;
        assert_ok(qn_duration_parse(cases[i].text, &ms, &err), err);
        if (ms != cases[i].ms) {
            fail_msg("%s: %lld", cases[i].text, (long long)ms);
        }
    }
}

static void what_is_no_duration_is_refused_and_quoted(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        " ",
        "-1s",
        "+1s",
        "s",
        ".",
        ".s",
        "1h30",
        "1x",
        "1 s",
        "1s ",
        "1e3s",
        "1H",
        "abc",
        "36600.1d",
        "36601d",
        "9223372036854775807h",
        "99999999999999999999s",
        "18446744073709551616s",
        "1h-5m",
        "0x10s",
        "1,5s",
        "inf",
        "nan",
        "1mo",
        "1w",
        "\xff",
        "1m\xff",
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        int64_t ms = -1;
        if (qn_duration_parse(cases[i], &ms, &err) != QUERN_E_INVALID) {
            fail_msg("\"%s\" is taken for a duration", cases[i]);
        }
        assert_int_equal(err.code, QUERN_E_INVALID);
        assert_int_equal(ms, -1);
    }
    quern_error err = {0};
    int64_t ms;
    assert_int_equal(qn_duration_parse("soon", &ms, &err), QUERN_E_INVALID);
    assert_non_null(strstr(err.text, "\"soon\""));
}

static void durations_are_written_short(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {1, "1ms"},
        {250, "250ms"},
        {1000, "1s"},
        {1500, "1.5s"},
        {1050, "1.05s"},
        {1001, "1.001s"},
        {60000, "1m"},
        {60500, "1m0.5s"},
        {5400000, "1h30m"},
        {86400000, "1d"},
        {93784005, "1d2h3m4.005s"},
        {-1500, "-1.5s"},
        {INT64_MAX, "106751991167d7h12m55.807s"},
        {INT64_MIN, "-106751991167d7h12m55.808s"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char out[32];
        qn_duration_format(cases[i].ms, out, sizeof out);
        assert_string_equal(out, cases[i].text);
    }
    char cut[4];
    qn_duration_format(93784005, cut, sizeof cut);
    assert_string_equal(cut, "1d2");
}

static void written_durations_are_read_back(void **state)
{
    (void)state;
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    for (int i = 0; i < 10000; i++) {
        int64_t ms = (int64_t)qn_random_below(&random, (uint64_t)QN_DURATION_MS_MAX >> (i % 40));
        char out[32];
        int64_t again = -1;
        qn_duration_format(ms, out, sizeof out);
        assert_int_equal(qn_duration_parse(out, &again, NULL), QUERN_OK);
        assert_int_equal(again, ms);
    }
}

static void moments_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t at_ms;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-20T12:00:00Z", 1795176000000},
        {"2026-11-20t12:00:00z", 1795176000000},
        {"2026-11-20 12:00:00Z", 1795176000000},
        {"2026-11-20T12:00:00.5Z", 1795176000500},
        {"2026-11-20T12:00:00.0001Z", 1795176000001},
        {"2026-11-20T13:30:00+01:30", 1795176000000},
        {"2026-11-20T07:00:00-05:00", 1795176000000},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"2016-12-31T23:59:60Z", 1483228800000},
        {"9999-12-31T23:59:59.999Z", 253402300799999},
        {"@0", 0},
        {"@1700000000", 1700000000000},
        {"@1700000000.25", 1700000000250},
        {"@253402300799", 253402300799000},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        int64_t at_ms = -1;
        assert_ok(qn_moment_parse(cases[i].text, &at_ms, &err), err);
        if (at_ms != cases[i].at_ms) {
            fail_msg("%s: %lld", cases[i].text, (long long)at_ms);
        }
    }
}

static void what_is_no_moment_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "now",
        "@",
        "@-1",
        "@1x",
        "@253402300800",
        "@99999999999999999999",
        "1700000000",
        "2026-11-20",
        "2026-11-20T12:00:00",
        "2026-11-20T12:00Z",
        "2026-13-20T12:00:00Z",
        "2026-00-20T12:00:00Z",
        "2026-11-31T12:00:00Z",
        "2025-02-29T12:00:00Z",
        "1900-02-29T12:00:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T12:60:00Z",
        "2026-11-20T12:00:61Z",
        "2026-11-20T12:00:00.Z",
        "2026-11-20T12:00:00Zx",
        "2026-11-20T12:00:00+1:00",
        "2026-11-20T12:00:00+0100",
        "2026-11-20T12:00:00+24:00",
        "26-11-20T12:00:00Z",
        "0000-11-20T12:00:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+00:01",
        "\xff",
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        int64_t at_ms = -1;
        if (qn_moment_parse(cases[i], &at_ms, NULL) != QUERN_E_INVALID) {
            fail_msg("\"%s\" is taken for a moment", cases[i]);
        }
        assert_int_equal(at_ms, -1);
    }
}

static void moments_are_written_in_utc_and_read_back(void **state)
{
    (void)state;
    char out[40];
    qn_moment_format(1795176000000, out, sizeof out);
    assert_string_equal(out, "2026-11-20T12:00:00.000Z");
    qn_moment_format(-1, out, sizeof out);
    assert_string_equal(out, "1969-12-31T23:59:59.999Z");
    qn_moment_format(INT64_MAX, out, sizeof out);
    assert_string_equal(out, "292278994-08-17T07:12:55.807Z");
    qn_moment_format(INT64_MIN, out, sizeof out);
    assert_string_equal(out, "-292275055-05-16T16:47:04.192Z");
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    for (int i = 0; i < 10000; i++) {
        int64_t at_ms = (int64_t)qn_random_below(&random, UINT64_C(253402300800000));
        int64_t again = -1;
        qn_moment_format(at_ms, out, sizeof out);
        assert_int_equal(qn_moment_parse(out, &again, NULL), QUERN_OK);
        assert_int_equal(again, at_ms);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(durations_are_read_as_people_and_go_write_them),
    cmocka_unit_test(what_is_no_duration_is_refused_and_quoted),
    cmocka_unit_test(durations_are_written_short),
    cmocka_unit_test(written_durations_are_read_back),
    cmocka_unit_test(moments_are_read),
    cmocka_unit_test(what_is_no_moment_is_refused),
    cmocka_unit_test(moments_are_written_in_utc_and_read_back),
};

TEST_MAIN(tests)
