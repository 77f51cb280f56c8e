/* SPDX-License-Identifier: MIT */
/* test_condition.c - which tasks fulfil a query, and the errors of queries. */
#include "query/condition.h"

#include <stdio.h>
#include <string.h>

#include "lib_test.h"

#define NOW_MS INT64_C(1800000000000)
#define HOUR_MS INT64_C(3600000)

static const quern_header headers[] = {{.name = "user", .value = "42"},
                                       {.name = "trace-id", .value = "ab*cd"}};

/* An archived task that failed three times, and whose payload holds a zero. */
static const struct qn_task stored = {.id = "0199f3a1-7c2e",
                                      .queue = "critical",
                                      .type = "mail:welcome",
                                      .payload = "{\"to\":\0\"ann\"}",
                                      .payload_size = 13,
                                      .headers = headers,
                                      .header_count = 2,
                                      .priority = -5,
                                      .state = QUERN_TASK_ARCHIVED};
static const struct qn_condition_task archived = {.task = &stored,
                                                  .error = "dial: no route to host",
                                                  .worker = "",
                                                  .retry_count = 3,
                                                  .crash_count = 1,
                                                  .now_ms = NOW_MS,
                                                  .enqueued_at_ms = NOW_MS - 3 * HOUR_MS,
                                                  .failed_at_ms = NOW_MS - HOUR_MS,
                                                  .ended_at_ms = NOW_MS - HOUR_MS};

static struct qn_condition *parse(const char *text)
{
    struct qn_condition *condition = NULL;
    quern_error err = {0};
    assert_ok(qn_condition_parse(text, &condition, &err), err);
    return condition;
}

static bool fits(const char *text, const struct qn_condition_task *task)
{
    struct qn_condition *condition = parse(text);
    bool answer = qn_condition_fits(condition, task);
    qn_condition_free(condition);
    return answer;
}

static void archived_task_fulfils_these(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "id = 0199f3a1-7c2e",
        "id = 0199*",
        "type = mail:welcome",
        "type=mail:*",
        "type ~ welc",
        "type ~ l:*me",
        "type != sms:*",
        "queue = c?itical",
        "state = archived",
        "state != retry",
        "group = \"\"",
        "group = ''",
        "worker = ''",
        "error ~ \"no route\"",
        "error = 'dial*host'",
        "error ~ no*host",
        "error !~ refused",
        "payload ~ ann",
        "payload = *ann*",
        "text ~ route",
        "text ~ ann",
        "header.user = 42",
        "header.trace-id = ab\\*cd",
        "header.trace-id = *",
        "header.other != x",
        "not header.other = *",
        "retried = 3",
        "retried >= 3",
        "retried > 2",
        "retried < 4",
        "retried != 2",
        "crashes <= 1",
        "priority < 0",
        "priority = -5",
        "size = 13",
        "size < 1K",
        "age > 2h",
        "age >= 3h",
        "age <= 3h",
        "age > 179m59s",
        "failed < 2h",
        "ended = 1h",
        "not due > 0",
        "not due <= 0",
        "due != 5m",
        "running != 1h",
        "state = archived and retried = 3",
        "state = retry or retried = 3",
        "state = retry and type = x or retried = 3",
        "retried = 3 or state = retry and type = x",
        "not (state = retry or type = x)",
        "not state = retry and retried = 3",
        "not not retried = 3",
        "((retried = 3))",
        "retried = 3 AND Not crashes = 0 oR type = x",
        "type = \"mail:welcome\"",
        "type != \"and\"",
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        if (!fits(cases[i], &archived)) {
            fail_msg("%s", cases[i]);
        }
    }
}

static void archived_task_does_not_fulfil_these(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "id = 0199",
        "type = mail",
        "type = MAIL:*",
        "queue = default",
        "state = pending",
        "group = *?",
        "worker ~ w",
        "error = route",
        "error = ''",
        "payload = ann",
        "text ~ nowhere",
        "header.User = 42",
        "header.user = 4",
        "header.other = ''",
        "header.other ~ ''",
        "retried < 3",
        "crashes = 0",
        "priority >= 0",
        "size > 13",
        "age < 3h",
        "age > 3h",
        "failed > 1h",
        "running >= 0",
        "due >= 0",
        "due < 1d",
        "state = archived and retried = 2",
        "(state = archived or type = x) and retried = 2",
        "not (state = archived)",
        "not not not state = archived",
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        if (fits(cases[i], &archived)) {
            fail_msg("%s", cases[i]);
        }
    }
}

static void errors_name_the_column_and_the_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        const char *column;
        const char *text;
    } cases[] = {
        {"stat = archived", "column 1:", "no field 'stat'; fields are id, type"},
        {"State = archived", "column 1:", "no field 'State'"},
        {"state = archive", "column 9:", "states are pending, active"},
        {"state ~ arch", "column 7:", "= or != after state"},
        {"state = arch*", "column 9:", "states are"},
        {"type > a", "column 6:", "=, !=, ~ or !~ after type, not '>'"},
        {"type", "column 5:", "but it ends here"},
        {"type =", "column 7:", "expected a value"},
        {"type = and", "column 8:", "in quotes"},
        {"age > 2", "column 7:", "with its unit"},
        {"age > soon", "column 7:", "with its unit"},
        {"age ~ 2h", "column 5:", "<, <=, > or >= after age"},
        {"retried >= three", "column 12:", "a whole number"},
        {"size > big", "column 8:", "a size"},
        {"(type = a", "column 10:", "the ) of an open"},
        {"type = a)", "column 9:", "or the end"},
        {"type = a b", "column 10:", "needs quotes"},
        {"type = a type = b", "column 10:", "and, or"},
        {"error ~ code=7", "column 13:", "needs quotes"},
        {"error ~ \"x", "column 9:", "this quote is not closed"},
        {"error = 'x", "column 9:", "this quote is not closed"},
        {"header. = x", "column 8:", "the name of a header"},
        {"header = x", "column 1:", "no field 'header'; fields"},
        {"type.x = y", "column 1:", "no field 'type.x'"},
        {"not", "column 4:", "expected a test"},
        {"and", "column 1:", "no field 'and'"},
        {"type = a and", "column 13:", "expected a test"},
        {"type = \xc3\xa4 or ) or", "column 13:", "expected a test"},
        {"()", "column 2:", "expected a test"},
        {"type ! a", "column 6:", "after type"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_condition *condition = NULL;
        quern_error err = {0};
        assert_int_equal(qn_condition_parse(cases[i].query, &condition, &err), QUERN_E_INVALID);
        assert_null(condition);
        if (strstr(err.text, cases[i].column) == NULL || strstr(err.text, cases[i].text) == NULL) {
            fail_msg("%s: %s", cases[i].query, err.text);
        }
    }
}

/* --- Bounds -------------------------------------------------------------------------- */

static void parse_repeated(const char *begin, const char *piece, size_t count, const char *end,
                           quern_status wanted)
{
    static char text[2 * QN_CONDITION_SIZE_MAX];
    size_t size = (size_t)snprintf(text, sizeof text, "%s", begin);
    for (size_t i = 0; i < count; i++) {
        size += (size_t)snprintf(text + size, sizeof text - size, "%s", piece);
    }
    (void)snprintf(text + size, sizeof text - size, "%s", end);
    struct qn_condition *condition = NULL;
    quern_error err = {0};
    assert_int_equal(qn_condition_parse(text, &condition, &err), wanted);
    assert_true(wanted == QUERN_OK || err.text[0] != '\0');
    qn_condition_free(condition);
}

static void query_is_bounded_in_length_tests_and_depth(void **state)
{
    (void)state;
    parse_repeated("id = ", "x", QN_CONDITION_SIZE_MAX - 5, "", QUERN_OK);
    parse_repeated("id = ", "x", QN_CONDITION_SIZE_MAX - 4, "", QUERN_E_INVALID);
    parse_repeated("id~*", " or id~*", QN_CONDITION_NODES_MAX - 2, "", QUERN_OK);
    parse_repeated("id~*", " or id~*", QN_CONDITION_NODES_MAX - 1, "", QUERN_E_INVALID);
    parse_repeated("", "(", QN_CONDITION_DEPTH_MAX, "", QUERN_E_INVALID);
    parse_repeated("", "not ", QN_CONDITION_DEPTH_MAX - 1, "id = x", QUERN_OK);
    parse_repeated("", "not ", QN_CONDITION_DEPTH_MAX, "id = x", QUERN_E_INVALID);
    parse_repeated("", "not(", 900, "", QUERN_E_INVALID);
    static char deep[200];
    for (size_t depth = QN_CONDITION_DEPTH_MAX - 1; depth <= QN_CONDITION_DEPTH_MAX; depth++) {
        (void)snprintf(deep, sizeof deep, "%.*sid = x%.*s", (int)depth,
                       "((((((((((((((((((((((((((((((", (int)depth,
                       "))))))))))))))))))))))))))))))");
        struct qn_condition *condition = NULL;
        assert_int_equal(qn_condition_parse(deep, &condition, NULL),
                         depth < QN_CONDITION_DEPTH_MAX ? QUERN_OK : QUERN_E_INVALID);
        qn_condition_free(condition);
    }
}

/* --- Places -------------------------------------------------------------------------- */

static void places_are_ruled_out_by_queue_and_state_alone(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        enum qn_condition_answer retry_mail; /* for the state retry of the queue mail */
    } cases[] = {
        {"", QN_ANSWER_YES},
        {"state = retry", QN_ANSWER_YES},
        {"state = archived", QN_ANSWER_NO},
        {"state != archived", QN_ANSWER_YES},
        {"queue = m*", QN_ANSWER_YES},
        {"queue = x and type = a", QN_ANSWER_NO},
        {"queue = x or type = a", QN_ANSWER_MAYBE},
        {"queue = mail or type = a", QN_ANSWER_YES},
        {"queue = mail and type = a", QN_ANSWER_MAYBE},
        {"not (type = a and queue = x)", QN_ANSWER_YES},
        {"not (type = a and queue = mail)", QN_ANSWER_MAYBE},
        {"type = a or state = archived", QN_ANSWER_MAYBE},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_condition *condition = parse(cases[i].query);
        if (qn_condition_place(condition, "mail", QUERN_TASK_RETRY) != cases[i].retry_mail) {
            fail_msg("%s", cases[i].query);
        }
        qn_condition_free(condition);
    }
}

static void only_id_is_found_where_there_is_one(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        const char *id;
    } cases[] = {
        {"", NULL},
        {"id = a", "a"},
        {"id = a*", NULL},
        {"id ~ a", NULL},
        {"id != a", NULL},
        {"id = a\\*", "a*"},
        {"state = retry and id = b", "b"},
        {"id = a or id = b", NULL},
        {"not id = a", NULL},
        {"(id = a) and type = x and size > 1", "a"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_condition *condition = parse(cases[i].query);
        const char *id = qn_condition_id(condition);
        if ((id == NULL) != (cases[i].id == NULL) || (id != NULL && strcmp(id, cases[i].id) != 0)) {
            fail_msg("%s", cases[i].query);
        }
        qn_condition_free(condition);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(archived_task_fulfils_these),
    cmocka_unit_test(archived_task_does_not_fulfil_these),
    cmocka_unit_test(errors_name_the_column_and_the_remedy),
    cmocka_unit_test(query_is_bounded_in_length_tests_and_depth),
    cmocka_unit_test(places_are_ruled_out_by_queue_and_state_alone),
    cmocka_unit_test(only_id_is_found_where_there_is_one),
};
TEST_MAIN(tests)
