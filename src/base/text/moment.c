/* SPDX-License-Identifier: MIT */
/* moment.c - moments as people write them.
 *
 * Fractions of a millisecond are rounded up, so that a moment never comes early. Wrong text is
 * QUERN_E_INVALID and the text of the error quotes it. */
#include "base/text/moment.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text/decimal.h"
#include "base/time/civil.h"

#define NS_PER_S (1000 * QN_NS_PER_MS)

static quern_status bad_moment(const char *text, quern_error *err)
{
    return qn_error_set(err, QUERN_E_INVALID,
                        "\"%.64s\" is not a moment: write for example 2026-11-20T12:00:00Z or "
                        "@1700000000",
                        text);
}

/* Exactly `count` digits at *at, in `low` .. `high`. */
static bool read_digits(const char **at, int count, int low, int high, int *ret_value)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (!qn_decimal_is_digit((*at)[i])) {
            return false;
        }
        value = value * 10 + ((*at)[i] - '0');
    }
    *at += count;
    *ret_value = value;
    return value >= low && value <= high;
}

static bool read_char(const char **at, const char *allowed)
{
    if (**at == '\0' || strchr(allowed, **at) == NULL) {
        return false;
    }
    (*at)++;
    return true;
}

/* "Z", "+01:00" or "-0530" with its colon; in minutes. */
static bool read_zone(const char **at, int *ret_minutes)
{
    if (read_char(at, "Zz")) {
        *ret_minutes = 0;
        return true;
    }
    int sign = **at == '-' ? -1 : 1;
    int hours;
    int minutes;
    if (!read_char(at, "+-") || !read_digits(at, 2, 0, 23, &hours) || !read_char(at, ":") ||
        !read_digits(at, 2, 0, 59, &minutes)) {
        return false;
    }
    *ret_minutes = sign * (hours * 60 + minutes);
    return true;
}

static bool read_date_and_time(const char **at, struct tm *ret_time)
{
    struct tm time = {0};
    bool valid = read_digits(at, 4, 1, 9999, &time.tm_year) && read_char(at, "-") &&
                 read_digits(at, 2, 1, 12, &time.tm_mon) && read_char(at, "-") &&
                 read_digits(at, 2, 1, 31, &time.tm_mday) && read_char(at, "Tt ") &&
                 read_digits(at, 2, 0, 23, &time.tm_hour) && read_char(at, ":") &&
                 read_digits(at, 2, 0, 59, &time.tm_min) && read_char(at, ":") &&
                 read_digits(at, 2, 0, 60, &time.tm_sec); /* 60: a leap second */
    if (!valid || time.tm_mday > qn_civil_days_of_month(time.tm_year, time.tm_mon)) {
        return false;
    }
    time.tm_year -= 1900;
    time.tm_mon -= 1;
    *ret_time = time;
    return true;
}

static quern_status parse_rfc3339(const char *text, int64_t *ret_at_ms, quern_error *err)
{
    const char *at = text;
    struct tm time;
    if (!read_date_and_time(&at, &time)) {
        return bad_moment(text, err);
    }
    struct qn_decimal rest = {0};
    if (*at == '.' && !qn_decimal_read(&at, &rest)) {
        return bad_moment(text, err);
    }
    int zone_minutes;
    if (!read_zone(&at, &zone_minutes) || *at != '\0') {
        return bad_moment(text, err);
    }
    int64_t seconds = (int64_t)timegm(&time) - INT64_C(60) * zone_minutes;
    if (seconds < 0) {
        return qn_error_set(err, QUERN_E_INVALID, "\"%.64s\" is before 1970", text);
    }
    *ret_at_ms = seconds * 1000 +
                 (qn_decimal_fraction_ns(&rest, NS_PER_S) + QN_NS_PER_MS - 1) / QN_NS_PER_MS;
    return QUERN_OK;
}

quern_status qn_moment_parse(const char *text, int64_t *ret_at_ms, quern_error *err)
{
    if (text[0] != '@') {
        return parse_rfc3339(text, ret_at_ms, err);
    }
    const char *at = text + 1;
    struct qn_decimal number;
    /* The last second of the year 9999, which RFC 3339 can still write. */
    const int64_t seconds_max = INT64_C(253402300799);
    if (!qn_decimal_read(&at, &number) || *at != '\0' || number.whole > seconds_max) {
        return bad_moment(text, err);
    }
    *ret_at_ms = number.whole * 1000 +
                 (qn_decimal_fraction_ns(&number, NS_PER_S) + QN_NS_PER_MS - 1) / QN_NS_PER_MS;
    return QUERN_OK;
}

void qn_moment_format(int64_t at_ms, char *out, size_t out_size)
{
    int64_t rest_ms = at_ms % 1000;
    time_t seconds = (time_t)(at_ms / 1000);
    if (rest_ms < 0) {
        rest_ms += 1000;
        seconds -= 1;
    }
    struct tm time;
    char text[40];
    /* All of int64_t in ms are years that an int can count. */
    const struct tm *filled = gmtime_r(&seconds, &time);
    QN_ASSERT(filled != NULL);
    size_t size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &time);
    QN_ASSERT(size > 0);
    (void)snprintf(out, out_size, "%s.%03dZ", text, (int)rest_ms);
}
