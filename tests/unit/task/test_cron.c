/* SPDX-License-Identifier: MIT */
/* test_cron.c - what the vectors of the Go library (test_cron_vectors.c) do not show: texts of
 * errors, limits, days that Go never gets past, and that every search ends. */
#include <stdlib.h>
#include <string.h>

#include "base/text/moment.h"
#include "base/text/number.h"
#include "lib_test.h"
#include "task/cron/cron.h"
#include "task/limits.h"

static void errors_name_the_field_and_what_is_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *error;
    } cases[] = {
        {"60 * * * *", "minute \"60\": 60 is above 59; allowed: 0-59, *, a-b, */n"},
        {"* 1,24 * * *", "hour \"1,24\": 24 is above 23; allowed: 0-23, *, a-b, */n"},
        {"* * 0 * *", "day of month \"0\": 0 is below 1; allowed: 1-31, *, a-b, */n"},
        {"* * * janu *",
         "month \"janu\": \"janu\" is not a number; allowed: 1-12 or jan-dec, *, a-b, */n"},
        {"* * * * 7", "day of week \"7\": 7 is above 6; allowed: 0-6 or sun-sat, 0 is sunday, *, "
                      "a-b, */n"},
        {"* * * * fri-mon", "day of week \"fri-mon\": the range ends before it begins; write two "
                            "of them, with a comma; allowed: 0-6 or sun-sat, 0 is sunday, *, a-b, "
                            "*/n"},
        {"*/0 * * * *", "minute \"*/0\": the step must be 1 or more; allowed: 0-59, *, a-b, */n"},
        {"5- * * * *", "minute \"5-\": a number is missing; allowed: 0-59, *, a-b, */n"},
        {"1-2-3 * * * *", "minute \"1-2-3\": more than one hyphen; allowed: 0-59, *, a-b, */n"},
        {"1/2/3 * * * *", "minute \"1/2/3\": more than one slash; allowed: 0-59, *, a-b, */n"},
        {"\x1b[31m * * * *", "minute \"\\x1b[31m\": \"\\x1b[31m\" is not a number; allowed: 0-59, "
                             "*, a-b, */n"},
        {"* * * *", "4 fields instead of 5: minute, hour, day of month, month, day of week"},
        {"0 * * * * *", "6 fields instead of 5: minute, hour, day of month, month, day of week; a "
                        "field for seconds is an option of its own"},
        {"", "a cron expression is empty: write for example \"0 6 * * *\""},
        {"@reboot", "\"@reboot\" is unknown; allowed: @yearly, @annually, @monthly, @weekly, "
                    "@daily, @midnight, @hourly, @every DURATION"},
        {"@every 5d", "@every \"5d\" is not a duration: write for example 30s, 1h30m or 1.5h; the "
                      "units are ns, us, ms, s, m and h, and 290 years the most"},
        {"TZ=UTC", "nothing follows the time zone: write for example \"CRON_TZ=Asia/Tokyo 0 6 * * "
                   "*\", with a blank behind the zone"},
        {"TZ=../../etc/shadow * * * * *",
         "\"../../etc/shadow\" is not a name of a time zone: write for example Europe/Berlin"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_cron cron;
        quern_error err = {0};
        assert_int_equal(qn_cron_parse(cases[i].text, 0, &cron, &err), QUERN_E_INVALID);
        assert_string_equal(err.text, cases[i].error);
        assert_int_equal(qn_cron_parse(cases[i].text, 0, &cron, NULL), QUERN_E_INVALID);
    }
    struct qn_cron cron;
    quern_error err = {0};
    assert_int_equal(qn_cron_parse("* * * * *", QN_CRON_SECONDS, &cron, &err), QUERN_E_INVALID);
    assert_string_equal(err.text, "5 fields instead of 6: second, minute, hour, day of month, "
                                  "month, day of week");
}

/* Longest names, numbers and quotes at once. */
static void no_error_is_cut_off(void **state)
{
    (void)state;
    char text[QN_CRON_SIZE_MAX + 2];
    for (int byte = 1; byte < 256; byte++) {
        memset(text, byte, sizeof text);
        text[QN_CRON_SIZE_MAX] = '\0';
        static const char *const starts[] = {"* * * * ", "* * * * 1-", "@", "@every ", "TZ=", ""};
        for (size_t i = 0; i < TEST_COUNT(starts); i++) {
            memcpy(text, starts[i], strlen(starts[i]));
            struct qn_cron cron;
            quern_error err = {0};
            if (qn_cron_parse(text, 0, &cron, &err) != QUERN_OK) {
                assert_true(strlen(err.text) < sizeof err.text - 1);
            }
        }
    }
}

static void long_expressions_are_refused(void **state)
{
    (void)state;
    char text[QN_CRON_SIZE_MAX + 2];
    struct qn_cron cron;
    quern_error err = {0};
    memset(text, ' ', sizeof text);
    memcpy(text, "* * * * *", strlen("* * * * *"));
    text[QN_CRON_SIZE_MAX] = '\0';
    assert_ok(qn_cron_parse(text, 0, &cron, &err), err);
    text[QN_CRON_SIZE_MAX] = ' ';
    text[QN_CRON_SIZE_MAX + 1] = '\0';
    assert_int_equal(qn_cron_parse(text, 0, &cron, &err), QUERN_E_INVALID);
    assert_string_equal(err.text, "a cron expression has 1025 bytes, at most 1024 are allowed");
}

static void refused_expression_leaves_the_result_alone(void **state)
{
    (void)state;
    struct qn_cron cron;
    struct qn_cron before;
    memset(&cron, 0x5a, sizeof cron);
    before = cron;
    assert_int_equal(qn_cron_parse("TZ=Asia/Tokyo 1 2 3 4 7", 0, &cron, NULL), QUERN_E_INVALID);
    assert_memory_equal(&cron, &before, sizeof cron);
}

static int64_t moment(const char *text)
{
    int64_t at_ms;
    assert_int_equal(qn_moment_parse(text, &at_ms, NULL), QUERN_OK);
    return at_ms;
}

/* The expression in its zone, which may be that of the tests; "-": none. */
static void expect_next(const char *text, const char *after, const char *wanted)
{
    struct qn_zones zones;
    struct qn_cron cron;
    const struct qn_zone *zone = NULL;
    quern_error err = {0};
    int64_t next_ms = -1;
    assert_ok(qn_zones_init(&zones, TEST_DATA "/zoneinfo", &err), err);
    assert_ok(qn_cron_parse(text, 0, &cron, &err), err);
    assert_ok(qn_zones_get(&zones, cron.zone[0] == '\0' ? "UTC" : cron.zone, &zone, &err), err);
    bool found = qn_cron_next(&cron, zone, moment(after), &next_ms);
    char shown[40] = "-";
    if (found) {
        qn_moment_format(next_ms, shown, sizeof shown);
    }
    if (strcmp(shown, wanted) != 0) {
        fail_msg("\"%s\" after %s: %s instead of %s", text, after, shown, wanted);
    }
    qn_zones_finish(&zones);
}

/* The three nights that are in every guide. */
static void nights_of_a_change_are_those_of_go(void **state)
{
    (void)state;
    static const char night[] = "CRON_TZ=Europe/Berlin 30 2 * * *";
    /* Skipped: not at all on March 29. */
    expect_next(night, "2026-03-28T12:00:00Z", "2026-03-30T00:30:00.000Z");
    /* Shown twice: twice on October 25. */
    expect_next(night, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00.000Z");
    expect_next(night, "2026-10-25T00:30:00Z", "2026-10-25T01:30:00.000Z");
    expect_next(night, "2026-10-25T01:30:00Z", "2026-10-26T01:30:00.000Z");
    /* Half an hour, in the south. */
    expect_next("CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T12:00:00Z",
                "2026-10-04T15:15:00.000Z");
    expect_next("CRON_TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04T12:00:00Z",
                "2026-04-04T14:45:00.000Z");
    expect_next("CRON_TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04T14:45:00Z",
                "2026-04-04T15:15:00.000Z");
}

/* Samoa had no 30 December 2011. The search of robfig/cron never ends there. */
static void skipped_day_is_passed(void **state)
{
    (void)state;
    expect_next("CRON_TZ=Pacific/Apia 0 12 31 12 *", "2011-12-20T00:00:00Z",
                "2011-12-30T22:00:00.000Z");
    expect_next("CRON_TZ=Pacific/Apia 0 12 30 12 *", "2011-12-20T00:00:00Z",
                "2012-12-29T22:00:00.000Z");
    expect_next("CRON_TZ=Pacific/Kwajalein 0 12 * * mon", "1993-08-19T00:00:00Z",
                "1993-08-23T00:00:00.000Z");
}

static void search_ends_after_five_years(void **state)
{
    (void)state;
    expect_next("0 0 30 2 *", "2026-01-01T00:00:00Z", "-");
    expect_next("0 0 29 2 *", "2096-03-01T00:00:00Z", "-");
    expect_next("0 0 29 2 *", "2099-03-01T00:00:00Z", "2104-02-29T00:00:00.000Z");
    expect_next(", * * * *", "2026-01-01T00:00:00Z", "-");
}

static void moments_have_borders(void **state)
{
    (void)state;
    struct qn_cron cron;
    int64_t next_ms = 1;
    const int64_t far[] = {INT64_MIN, -QN_MOMENT_MS_MAX - 1, QN_MOMENT_MS_MAX, QN_MOMENT_MS_MAX + 1,
                           INT64_MAX};
    static const char *const texts[] = {"@hourly", "@every 2h", "@every 2562047h"};
    for (size_t k = 0; k < TEST_COUNT(texts); k++) {
        assert_int_equal(qn_cron_parse(texts[k], 0, &cron, NULL), QUERN_OK);
        for (size_t i = 0; i < TEST_COUNT(far); i++) {
            assert_false(qn_cron_next(&cron, NULL, far[i], &next_ms));
            assert_int_equal(next_ms, 1);
        }
        bool is_far = k == 2; /* 292 years */
        assert_int_equal(qn_cron_next(&cron, NULL, 1, &next_ms), !is_far);
        next_ms = 1;
    }
}

/* A zone whose offset goes up and down by two days, each hour: every search ends. */
static void search_ends_in_a_zone_that_is_made_up(void **state)
{
    (void)state;
    enum { CHANGES = 4000, SIZE = 44 + CHANGES * 5 + 2 * 6 + 4 };
    static const char *const texts[] = {"0 0 30 2 *", "0 5 1 * *", "* * * * 1", "59 23 31 12 *",
                                        "0 0 1 1 *"};
    unsigned char *file = calloc(1, SIZE);
    assert_non_null(file);
    memcpy(file, "TZif", 4);
    file[34] = CHANGES >> 8;
    file[35] = CHANGES & 0xff;
    file[39] = 2;
    file[43] = 4;
    for (uint32_t i = 0; i < CHANGES; i++) {
        uint32_t at_s = 1000000000 + i * 3600;
        for (int byte = 0; byte < 4; byte++) {
            file[44 + 4 * i + (uint32_t)byte] = (unsigned char)(at_s >> (24 - 8 * byte));
        }
        file[44 + 4 * CHANGES + i] = i % 2;
    }
    const uint32_t offsets[] = {93599, (uint32_t)-89999};
    for (size_t i = 0; i < 2; i++) {
        for (size_t byte = 0; byte < 4; byte++) {
            file[44 + 5 * CHANGES + 6 * i + byte] = (unsigned char)(offsets[i] >> (24 - 8 * byte));
        }
    }
    struct qn_zone *zone = NULL;
    quern_error err = {0};
    assert_ok(qn_zone_parse((struct qn_bytes){.data = file, .size = SIZE}, &zone, &err), err);
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct qn_cron cron;
        int64_t at_ms = INT64_C(999990000000);
        assert_ok(qn_cron_parse(texts[i], 0, &cron, &err), err);
        for (int count = 0; count < 50; count++) {
            int64_t next_ms;
            if (!qn_cron_next(&cron, zone, at_ms, &next_ms)) {
                break;
            }
            assert_true(next_ms > at_ms);
            at_ms = next_ms;
        }
    }
    qn_zone_free(zone);
    free(file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(errors_name_the_field_and_what_is_allowed),
    cmocka_unit_test(no_error_is_cut_off),
    cmocka_unit_test(long_expressions_are_refused),
    cmocka_unit_test(refused_expression_leaves_the_result_alone),
    cmocka_unit_test(nights_of_a_change_are_those_of_go),
    cmocka_unit_test(skipped_day_is_passed),
    cmocka_unit_test(search_ends_after_five_years),
    cmocka_unit_test(moments_have_borders),
    cmocka_unit_test(search_ends_in_a_zone_that_is_made_up),
};

TEST_MAIN(tests)
