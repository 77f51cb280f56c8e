/* SPDX-License-Identifier: MIT */
/* test_accept.c - which format an Accept header wants. */
#include "metrics/accept.h"

#include <stdlib.h>
#include <string.h>

#include "lib_test.h"

/* As the versions of Prometheus send it. */
#define PROMETHEUS_2_42                                                                            \
    "application/openmetrics-text;version=1.0.0,"                                                  \
    "application/openmetrics-text;version=0.0.1;q=0.75,"                                           \
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
#define PROMETHEUS_3                                                                               \
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"                       \
    "application/openmetrics-text;version=0.0.1;q=0.5,"                                            \
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"

static void format_is_the_one_that_weighs_most(void **state)
{
    static const struct {
        const char *accept;
        quern_metrics_format format;
    } cases[] = {
        {"", QUERN_METRICS_TEXT},
        {"*/*", QUERN_METRICS_TEXT},
        {"text/plain", QUERN_METRICS_TEXT},
        {"text/html, application/xhtml+xml, */*;q=0.8", QUERN_METRICS_TEXT},
        {PROMETHEUS_2_42, QUERN_METRICS_OPENMETRICS},
        {PROMETHEUS_3, QUERN_METRICS_OPENMETRICS},
        {"application/openmetrics-text", QUERN_METRICS_OPENMETRICS},
        {"Application/OpenMetrics-Text ; Version=1.0.0 ; Q=1", QUERN_METRICS_OPENMETRICS},
        {"application/openmetrics-text;version=0.0.1", QUERN_METRICS_TEXT},
        {"application/openmetrics-text;version=2.0.0", QUERN_METRICS_TEXT},
        {"application/openmetrics-text;q=0", QUERN_METRICS_TEXT},
        {"application/openmetrics-text;q=0.000", QUERN_METRICS_TEXT},
        {"application/openmetrics-text;q=x", QUERN_METRICS_TEXT},
        {"application/openmetrics-text;q=-1", QUERN_METRICS_TEXT},
        {"application/openmetrics-text;q=0.001", QUERN_METRICS_OPENMETRICS},
        {"application/openmetrics-text;q=0.5,text/plain;q=0.6", QUERN_METRICS_TEXT},
        {"application/openmetrics-text;q=0.5,text/plain;q=0.5", QUERN_METRICS_OPENMETRICS},
        {"text/*;q=0.9,application/openmetrics-text;q=0.95", QUERN_METRICS_OPENMETRICS},
        {"application/openmetrics-text;q=0.9,*/*", QUERN_METRICS_TEXT},
        {"application/openmetrics-textual", QUERN_METRICS_TEXT},
        {"application/openmetrics", QUERN_METRICS_TEXT},
        {",,;;==,;q=,application/openmetrics-text;;q=1;=", QUERN_METRICS_OPENMETRICS},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        if (qn_accept_choose(cases[i].accept) != cases[i].format) {
            fail_msg("%s", cases[i].accept);
        }
        assert_int_equal(quern_metrics_accept(cases[i].accept), cases[i].format);
    }
    assert_int_equal(quern_metrics_accept(NULL), QUERN_METRICS_TEXT);
}

static void header_that_is_too_long_means_text(void **state)
{
    static const char wanted[] = "application/openmetrics-text";
    char text[8192];
    (void)state;
    memset(text, ' ', sizeof text);
    memcpy(text, wanted, sizeof wanted - 1);
    text[4096] = '\0';
    assert_int_equal(qn_accept_choose(text), QUERN_METRICS_OPENMETRICS);
    text[4096] = ' ';
    text[4097] = '\0';
    assert_int_equal(qn_accept_choose(text), QUERN_METRICS_TEXT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(format_is_the_one_that_weighs_most),
    cmocka_unit_test(header_that_is_too_long_means_text),
};
TEST_MAIN(tests)
