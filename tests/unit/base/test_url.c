/* SPDX-License-Identifier: MIT */
/* test_url.c - broker URLs piece by piece, refusals, and that no password is ever shown. */
#include "base/text/url.h"

#include <string.h>

#include "lib_test.h"

static void urls_are_cut_into_their_pieces(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *pieces[6]; /* scheme, user, password, host, port, path */
    } cases[] = {
        {"tasks.db", {"", "", "", "", "", "tasks.db"}},
        {"./a b%20?x=1#y", {"", "", "", "", "", "./a b%20?x=1#y"}},
        {"/var/lib/tasks.db", {"", "", "", "", "", "/var/lib/tasks.db"}},
        {"sqlite:///var/tasks.db", {"sqlite", "", "", "", "", "/var/tasks.db"}},
        {"sqlite:///a%20b%3Fc.db", {"sqlite", "", "", "", "", "/a b?c.db"}},
        {"SQLite:///x", {"sqlite", "", "", "", "", "/x"}},
        {"redis://localhost", {"redis", "", "", "localhost", "", ""}},
        {"redis://localhost:6379/0", {"redis", "", "", "localhost", "6379", "/0"}},
        {"redis://:secret@host/1", {"redis", "", "secret", "host", "", "/1"}},
        {"redis://me@host", {"redis", "me", "", "host", "", ""}},
        {"rediss://me:p%40ss%2fword@host:1", {"rediss", "me", "p@ss/word", "host", "1", ""}},
        {"redis://me:p@ss@host", {"redis", "me", "p@ss", "host", "", ""}},
        {"redis://me:a:b@host", {"redis", "me", "a:b", "host", "", ""}},
        {"redis://[::1]", {"redis", "", "", "::1", "", ""}},
        {"redis://u:p@[fe80::1%25eth0]:6379/", {"redis", "u", "p", "fe80::1%eth0", "6379", "/"}},
        {"redis-socket:///run/redis.sock", {"redis-socket", "", "", "", "", "/run/redis.sock"}},
        {"redis://host:65535", {"redis", "", "", "host", "65535", ""}},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        struct qn_url url;
        assert_ok(qn_url_parse(cases[i].text, &url, &err), err);
        const char *pieces[] = {url.scheme, url.user, url.password, url.host, url.port, url.path};
        for (size_t j = 0; j < TEST_COUNT(pieces); j++) {
            assert_string_equal(pieces[j], cases[i].pieces[j]);
        }
        assert_int_equal(url.param_count, 0);
        qn_url_finish(&url);
        qn_url_finish(&url);
    }
}

static void parameters_are_found_by_name(void **state)
{
    (void)state;
    quern_error err = {0};
    struct qn_url url;
    assert_ok(qn_url_parse("sqlite:///x?sync=full&&a%3Db=c%26d&empty=&alone&", &url, &err), err);
    assert_int_equal(url.param_count, 4);
    assert_string_equal(url.path, "/x");
    assert_string_equal(qn_url_param(&url, "sync"), "full");
    assert_string_equal(qn_url_param(&url, "a=b"), "c&d");
    assert_string_equal(qn_url_param(&url, "empty"), "");
    assert_string_equal(qn_url_param(&url, "alone"), "");
    assert_null(qn_url_param(&url, "SYNC"));
    qn_url_finish(&url);
    assert_ok(qn_url_parse("redis://h?a=1?2", &url, &err), err);
    assert_string_equal(url.host, "h");
    assert_string_equal(qn_url_param(&url, "a"), "1?2");
    qn_url_finish(&url);
}

static void sixteen_parameters_fit_and_no_more(void **state)
{
    (void)state;
    char text[400] = "sqlite:///x?";
    for (int i = 0; i < QN_URL_PARAM_MAX; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "p%d=%d&", i, i);
    }
    struct qn_url url;
    quern_error err = {0};
    assert_ok(qn_url_parse(text, &url, &err), err);
    assert_string_equal(qn_url_param(&url, "p15"), "15");
    qn_url_finish(&url);
    size_t used = strlen(text);
    (void)snprintf(text + used, sizeof text - used, "one=more");
    assert_int_equal(qn_url_parse(text, &url, &err), QUERN_E_INVALID);
}

static void wrong_urls_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"", "empty"},
        {" \t", "empty"},
        {"://x", "scheme"},
        {"1redis://x", "scheme"},
        {"re dis://x", "scheme"},
        {"redis://host:", "port"},
        {"redis://host:0", "port"},
        {"redis://host:65536", "port"},
        {"redis://host:99999999999999999999", "port"},
        {"redis://host:6379x", "port"},
        {"redis://host:-1", "port"},
        {"redis://::1", "IPv6"},
        {"redis://[::1", "IPv6"},
        {"redis://[]:1", "IPv6"},
        {"redis://[::1]6379", "IPv6"},
        {"sqlite:///a%", "hexadecimal"},
        {"sqlite:///a%4", "hexadecimal"},
        {"sqlite:///a%zz", "hexadecimal"},
        {"sqlite:///a?b=%g0", "hexadecimal"},
        {"sqlite:///a%00b", "%00"},
        {"sqlite:///a#b", "%23"},
        {"sqlite:///a\nb", "control"},
        {"sqlite:///a?x=1&x=2", "twice"},
        {"sqlite:///a?=1", "no name"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        struct qn_url url = {.port = "untouched"};
        assert_int_equal(qn_url_parse(cases[i].text, &url, &err), QUERN_E_INVALID);
        if (strstr(err.text, cases[i].reason) == NULL) {
            fail_msg("\"%s\": %s", cases[i].text, err.text);
        }
        assert_string_equal(url.port, "untouched");
    }
}

static void redaction_shows_all_but_the_password(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {
        {"tasks.db", "tasks.db"},
        {"", ""},
        {"?", "?"},
        {"sqlite:///a@b.db?sync=full", "sqlite:///a@b.db?sync=full"},
        {"redis://host:6379/0", "redis://host:6379/0"},
        {"redis://[::1]:6379/0", "redis://[::1]:6379/0"},
        {"redis://me@host", "redis://me@host"},
        {"redis://me:secret@host:6379/0?a=b", "redis://me:***@host:6379/0?a=b"},
        {"redis://:secret@host", "redis://:***@host"},
        {"redis://:@host", "redis://:***@host"},
        {"redis://me:sec@ret@host", "redis://me:***@host"},
        {"redis://me:sec/ret@host", "redis://me:***@host"},
        {"redis://me:sec?ret#@host", "redis://me:***@host"},
        {"me:secret@host", "me:***@host"},
        {"redis://a:secret@h1;redis://b:secret@h2", "redis://a:***@h2"},
        {"redis://h/0?password=secret&x=1", "redis://h/0?password=***&x=1"},
        {"redis://h/0?x=1&PASS=secret", "redis://h/0?x=1&PASS=***"},
        {"redis://u:secret@h?token=secret", "redis://u:***@h?token=***"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char out[128];
        qn_url_redact(cases[i].text, out, sizeof out);
        assert_string_equal(out, cases[i].shown);
        char cut[10];
        qn_url_redact(cases[i].text, cut, sizeof cut);
        assert_int_equal(strncmp(cut, out, sizeof cut - 1), 0);
        assert_true(strlen(cut) < sizeof cut);
        char one[1] = "x";
        qn_url_redact(cases[i].text, one, sizeof one);
        assert_int_equal(one[0], '\0');
    }
}

static void errors_never_show_a_password(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "redis://me:secret@host:0", "redis://me:secret%@host",     "redis://me:secret@[::1",
        "r s://me:secret@host",     "://me:secret@host",           "redis://me:secret/x@host:y",
        "redis://me:secret@host#",  "redis://h:0?password=secret",
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        struct qn_url url;
        assert_int_equal(qn_url_parse(cases[i], &url, &err), QUERN_E_INVALID);
        assert_null(strstr(err.text, "secret"));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(urls_are_cut_into_their_pieces),
    cmocka_unit_test(parameters_are_found_by_name),
    cmocka_unit_test(sixteen_parameters_fit_and_no_more),
    cmocka_unit_test(wrong_urls_are_refused_with_the_reason),
    cmocka_unit_test(redaction_shows_all_but_the_password),
    cmocka_unit_test(errors_never_show_a_password),
};

TEST_MAIN(tests)
