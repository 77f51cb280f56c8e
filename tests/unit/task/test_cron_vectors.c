/* SPDX-License-Identifier: MIT */
/* test_cron_vectors.c - every expression of tests/data/cron against what robfig/cron v3 made of it:
 * tests/interop/cron wrote them. The zones are those of tests/data/zoneinfo. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/number.h"
#include "base/time/zones.h"
#include "lib_test.h"
#include "task/cron/cron.h"

enum { LINE_SIZE = 2048, MOMENTS = 3 };

static struct qn_zones zones;

static int open_zones(void **state)
{
    (void)state;
    return qn_zones_init(&zones, TEST_DATA "/zoneinfo", NULL) == QUERN_OK ? 0 : -1;
}

static int close_zones(void **state)
{
    (void)state;
    qn_zones_finish(&zones);
    return 0;
}

/* Replaces \xNN by its byte. */
static void unescape(char *text)
{
    char *out = text;
    for (const char *at = text; *at != '\0'; out++) {
        unsigned byte = (unsigned char)*at;
        if (sscanf(at, "\\x%2x", &byte) == 1) {
            at += strlen("\\xNN");
        } else {
            at++;
        }
        *out = (char)byte;
    }
    *out = '\0';
}

/* The next line that is no comment, without its end. */
static bool read_line(FILE *file, char line[LINE_SIZE])
{
    while (fgets(line, LINE_SIZE, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '#') {
            return true;
        }
    }
    return false;
}

static FILE *open_data(const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/cron/%s", TEST_DATA, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    return file;
}

/* Parses, and finds the zone. */
static quern_status parse(const char *text, unsigned flags, const char *own_zone,
                          struct qn_cron *cron, const struct qn_zone **ret_zone)
{
    quern_error err = {0};
    quern_status status = qn_cron_parse(text, flags, cron, &err);
    if (status == QUERN_OK) {
        const char *name = cron->zone[0] == '\0' ? own_zone : cron->zone;
        status = qn_zones_get(&zones, name, ret_zone, &err);
    }
    if (status != QUERN_OK) {
        assert_int_equal(err.code, status);
        assert_true(strlen(err.text) > 10);
        assert_true(strlen(err.text) < sizeof err.text - 1); /* nothing was cut off */
    }
    return status;
}

/* ZONE FLAGS START NEXT NEXT NEXT EXPRESSION, between tabs. True: all as expected. */
static bool check(char *line)
{
    char *rest = line;
    const char *zone_name = strsep(&rest, "\t");
    unsigned flags = (unsigned)strtoul(strsep(&rest, "\t"), NULL, 10);
    int64_t at_ms = strtoll(strsep(&rest, "\t"), NULL, 10);
    const char *expected[MOMENTS];
    for (size_t i = 0; i < MOMENTS; i++) {
        expected[i] = strsep(&rest, "\t");
        assert_non_null(expected[i]);
    }
    unescape(rest);
    struct qn_cron cron;
    const struct qn_zone *zone;
    if (parse(rest, flags, zone_name, &cron, &zone) != QUERN_OK) {
        print_error("refused: \"%s\", flags %u\n", rest, flags);
        return false;
    }
    for (size_t i = 0; i < MOMENTS; i++) {
        int64_t wanted_s = strcmp(expected[i], "-") == 0 ? -1 : strtoll(expected[i], NULL, 10);
        bool wanted = strcmp(expected[i], "-") != 0 && wanted_s <= QN_MOMENT_MS_MAX / 1000;
        int64_t next_ms = 0;
        bool found = qn_cron_next(&cron, zone, at_ms, &next_ms);
        if (found != wanted || (found && next_ms != wanted_s * 1000)) {
            print_error("\"%s\" in %s, flags %u, after %" PRId64 " ms: %" PRId64 " instead of %s\n",
                        rest, zone_name, flags, at_ms, found ? next_ms / 1000 : 0, expected[i]);
            return false;
        }
        if (!found) {
            return true;
        }
        at_ms = next_ms;
    }
    return true;
}

static void moments_are_those_of_the_go_library(void **state)
{
    (void)state;
    char line[LINE_SIZE];
    size_t count = 0;
    size_t failed = 0;
    FILE *file = open_data("next.txt");
    while (read_line(file, line)) {
        count++;
        failed += check(line) ? 0 : 1;
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(failed, 0);
    assert_true(count >= 5000);
}

static void expressions_refused_by_the_go_library_are_refused(void **state)
{
    (void)state;
    char line[LINE_SIZE];
    size_t count = 0;
    size_t failed = 0;
    FILE *file = open_data("refused.txt");
    while (read_line(file, line)) {
        char *rest = line;
        unsigned flags = (unsigned)strtoul(strsep(&rest, "\t"), NULL, 10);
        struct qn_cron cron;
        const struct qn_zone *zone;
        unescape(rest);
        count++;
        if (parse(rest, flags, "UTC", &cron, &zone) == QUERN_OK) {
            print_error("accepted: \"%s\", flags %u\n", rest, flags);
            failed++;
        }
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(failed, 0);
    assert_true(count >= 500);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(moments_are_those_of_the_go_library, open_zones, close_zones),
    cmocka_unit_test_setup_teardown(expressions_refused_by_the_go_library_are_refused, open_zones,
                                    close_zones),
};

TEST_MAIN(tests)
