/* SPDX-License-Identifier: MIT */
/* test_log.c - log lines: escaping, texts that cannot forge a field, texts that do not fit. */
#include "base/log.h"

#include <string.h>
#include <unistd.h>

#include "lib_test.h"

struct seen {
    quern_log_level level;
    char line[8192];
    size_t count;
};

static void keep(quern_log_level level, const char *line, void *user)
{
    struct seen *seen = user;
    seen->level = level;
    (void)snprintf(seen->line, sizeof seen->line, "%s", line);
    seen->count++;
}

static void an_event_is_a_line_of_logfmt(void **state)
{
    (void)state;
    struct seen seen = {.count = 0};
    struct qn_log log;
    qn_log_init(&log, keep, &seen);
    QN_LOG(&log, QUERN_LOG_WARN, "run failed", QN_LOG_TEXT("queue", "mail"),
           QN_LOG_TEXT("left", NULL), QN_LOG_NUMBER("count", -7));
    assert_int_equal(seen.level, QUERN_LOG_WARN);
    assert_string_equal(seen.line, "msg=\"run failed\" queue=mail count=-7");
    qn_log_event(&log, QUERN_LOG_INFO, "ends", NULL, 0);
    assert_string_equal(seen.line, "msg=ends");
    assert_int_equal(seen.count, 2);
    qn_log_finish(&log);
}

static void no_text_forges_a_field_or_a_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {
        {"plain:type", "plain:type"},
        {"", "\"\""},
        {"17", "\"17\""}, /* a text, and not a number */
        {"a b", "\"a b\""},
        {"a=b", "\"a=b\""},
        {"x\" level=error", "\"x\\\" level=error\""},
        {"a\\b", "\"a\\\\b\""},
        {"one\ntwo\ttab\r", "\"one\\ntwo\\ttab\\r\""},
        {"\x1b[31mred", "\"\\u001b[31mred\""},
        {"\x7f", "\"\\u007f\""},
        {"c1 \xc2\x9b", "\"c1 \\u009b\""},
        {"\xc3\xa4\xe2\x82\xac", "\"\xc3\xa4\xe2\x82\xac\""},
        {"x\xc2\xa0z", "\"x\xc2\xa0z\""}, /* a blank for some readers */
        {"\xff", "\"\xef\xbf\xbd\""},
        {"\xe2\x80\xa8next", "\"\\u2028next\""}, /* many readers break a line there */
        {"\xe2\x80\xaegnp", "\"\\u202egnp\""},
        {"\xe2\x81\xa6-\xd8\x9c", "\"\\u2066-\\u061c\""},
    };
    struct seen seen = {.count = 0};
    struct qn_log log;
    qn_log_init(&log, keep, &seen);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char wanted[256];
        QN_LOG(&log, QUERN_LOG_INFO, "m", QN_LOG_TEXT("v", cases[i].text));
        (void)snprintf(wanted, sizeof wanted, "msg=m v=%s", cases[i].shown);
        assert_string_equal(seen.line, wanted);
    }
    qn_log_finish(&log);
}

static void a_line_that_is_too_long_stays_whole_field_by_field(void **state)
{
    (void)state;
    char text[3000];
    struct seen seen = {.count = 0};
    struct qn_log log;
    qn_log_init(&log, keep, &seen);
    memset(text, '\x01', sizeof text - 1); /* six bytes each when shown */
    text[sizeof text - 1] = '\0';
    QN_LOG(&log, QUERN_LOG_INFO, "m", QN_LOG_TEXT("long", text), QN_LOG_TEXT("b", "end"));
    assert_non_null(strstr(seen.line, " b=end"));
    assert_true(strlen(seen.line) < 1100); /* of whole escapes */
    assert_non_null(strstr(seen.line, "\\u0001\" b=end"));
    memset(text, 'x', sizeof text - 1);
    QN_LOG(&log, QUERN_LOG_INFO, "m", QN_LOG_TEXT("a", text), QN_LOG_TEXT("b", "end"));
    assert_non_null(strstr(seen.line, " b=end"));
    assert_true(strlen(seen.line) < 1100);
    QN_LOG(&log, QUERN_LOG_INFO, "m", QN_LOG_TEXT("a", text), QN_LOG_TEXT("b", text),
           QN_LOG_TEXT("c", text), QN_LOG_TEXT("d", text), QN_LOG_TEXT("e", "end"));
    assert_non_null(strstr(seen.line, "x cut=1"));
    assert_null(strstr(seen.line, " d="));
    qn_log_finish(&log);
}

static void without_a_sink_warnings_go_to_stderr(void **state)
{
    (void)state;
    int ends[2];
    char text[512] = "";
    assert_int_equal(pipe(ends), 0);
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    qn_log_to_stderr(QUERN_LOG_INFO, "msg=nothing", NULL);
    qn_log_to_stderr(QUERN_LOG_WARN, "msg=\"run failed\" id=1", NULL);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_int_equal(strncmp(text, "ts=20", 5), 0);
    assert_non_null(strstr(text, "Z level=warn msg=\"run failed\" id=1\n"));
    assert_null(strstr(text, "nothing"));
    (void)close(before);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_event_is_a_line_of_logfmt),
    cmocka_unit_test(no_text_forges_a_field_or_a_line),
    cmocka_unit_test(without_a_sink_warnings_go_to_stderr),
    cmocka_unit_test(a_line_that_is_too_long_stays_whole_field_by_field),
};

TEST_MAIN(tests)
