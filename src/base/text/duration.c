/* SPDX-License-Identifier: MIT */
/* duration.c - parsing durations and moments.
 *
 * Everything is counted exactly in integers: a duration of 100 years still fits an int64_t in
 * nanoseconds. Fractions of a millisecond are rounded up, so that a nonzero duration never becomes
 * zero and a moment never comes early. Wrong text is QUERN_E_INVALID and the text of the error
 * quotes it. */
#include "base/text/duration.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text/number.h"

#define NS_PER_S (1000 * QN_NS_PER_MS)
#define DURATION_NS_MAX (QN_DURATION_MS_MAX * QN_NS_PER_MS)
enum { TEXT_SIZE = 64 }; /* of a formatted duration, which needs 32 at most */

static const struct unit {
    const char *name;
    int64_t ns;
} units[] = {
    /* Longer names before those that they begin with. */
    {"ns", 1},
    {"us", 1000},
    {"\xc2\xb5s", 1000}, /* the micro sign, as Go prints it */
    {"ms", QN_NS_PER_MS},
    {"s", NS_PER_S},
    {"m", 60 * NS_PER_S},
    {"h", 3600 * NS_PER_S},
    {"d", 24 * 3600 * NS_PER_S},
};

/* A number as it was written: its whole part, and the digits behind the point. */
struct number {
    int64_t whole;
    const char *fraction;
    size_t fraction_size;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads "12", "12.5", ".5" or "12." at *at and moves it on. */
static bool read_number(const char **at, struct number *ret_number)
{
    const char *text = *at;
    struct number number = {0};
    for (; is_digit(*text); text++) {
        if (__builtin_mul_overflow(number.whole, 10, &number.whole) ||
            __builtin_add_overflow(number.whole, *text - '0', &number.whole)) {
            return false;
        }
    }
    bool has_digits = text > *at;
    if (*text == '.') {
        text++;
        number.fraction = text;
        while (is_digit(*text)) {
            text++;
        }
        number.fraction_size = (size_t)(text - number.fraction);
        has_digits = has_digits || number.fraction_size > 0;
    }
    *at = text;
    *ret_number = number;
    return has_digits;
}

/* The fraction of a unit in nanoseconds, rounded up. */
static int64_t fraction_ns(const struct number *number, int64_t unit_ns)
{
    int64_t sum = 0;
    int64_t digit_ns = unit_ns; /* the value of the present digit */
    int64_t lost = 0;           /* anything that was finer than that */
    for (size_t i = 0; i < number->fraction_size; i++) {
        int64_t digit = number->fraction[i] - '0';
        int64_t rest = digit_ns % 10;
        digit_ns /= 10;
        sum += digit * digit_ns;
        lost |= digit * rest;
        lost |= digit_ns == 0 ? digit : 0;
    }
    return sum + (lost != 0 ? 1 : 0);
}

static const struct unit *read_unit(const char **at)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t size = strlen(units[i].name);
        if (strncmp(*at, units[i].name, size) == 0) {
            *at += size;
            return &units[i];
        }
    }
    return NULL;
}

quern_status qn_duration_parse(const char *text, int64_t *ret_ms, quern_error *err)
{
    const char *at = text;
    int64_t sum_ns = 0;
    bool first = true;
    do {
        struct number number;
        if (!read_number(&at, &number)) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "\"%.64s\" is not a duration: write for example 1h30m, 1.5s, 250ms "
                                "or 2d",
                                text);
        }
        const struct unit *unit = read_unit(&at);
        int64_t unit_ns = NS_PER_S;
        if (unit != NULL) {
            unit_ns = unit->ns;
        } else if (!first || *at != '\0') {
            return qn_error_set(err, QUERN_E_INVALID,
                                "\"%.64s\" is not a duration: its units are ns, us, ms, s, m, h "
                                "and d",
                                text);
        }
        int64_t part_ns;
        if (__builtin_mul_overflow(number.whole, unit_ns, &part_ns) ||
            __builtin_add_overflow(part_ns, fraction_ns(&number, unit_ns), &part_ns) ||
            __builtin_add_overflow(sum_ns, part_ns, &sum_ns) || sum_ns > DURATION_NS_MAX) {
            return qn_error_set(err, QUERN_E_INVALID, "\"%.64s\" is longer than 100 years", text);
        }
        first = false;
    } while (*at != '\0');
    *ret_ms = (sum_ns + QN_NS_PER_MS - 1) / QN_NS_PER_MS;
    return QUERN_OK;
}

/* Appends a part such as "30m", unless it is zero. */
static size_t append_part(char *out, size_t used, uint64_t count, const char *unit)
{
    if (count == 0) {
        return used;
    }
    return used + (size_t)snprintf(out + used, TEXT_SIZE - used, "%" PRIu64 "%s", count, unit);
}

void qn_duration_format(int64_t ms, char *out, size_t out_size)
{
    char text[TEXT_SIZE];
    size_t used = 0;
    uint64_t left = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    if (ms < 0) {
        text[used++] = '-';
    }
    bool below_a_second = left < 1000;
    used = append_part(text, used, left / 86400000, "d");
    used = append_part(text, used, left / 3600000 % 24, "h");
    used = append_part(text, used, left / 60000 % 60, "m");
    unsigned seconds = (unsigned)(left / 1000 % 60);
    unsigned rest_ms = (unsigned)(left % 1000);
    if (left == 0) {
        text[used++] = '0';
        text[used++] = 's';
    } else if (below_a_second) {
        used = append_part(text, used, rest_ms, "ms");
    } else if (rest_ms == 0) {
        used = append_part(text, used, seconds, "s");
    } else {
        used += (size_t)snprintf(text + used, sizeof text - used, "%u.%03u", seconds, rest_ms);
        while (text[used - 1] == '0') {
            used--;
        }
        text[used++] = 's';
    }
    text[used] = '\0';
    (void)snprintf(out, out_size, "%s", text);
}

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
        if (!is_digit((*at)[i])) {
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

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
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
    if (!valid || time.tm_mday > days_of_month(time.tm_year, time.tm_mon)) {
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
    struct number rest = {0};
    if (*at == '.' && !read_number(&at, &rest)) {
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
    *ret_at_ms = seconds * 1000 + (fraction_ns(&rest, NS_PER_S) + QN_NS_PER_MS - 1) / QN_NS_PER_MS;
    return QUERN_OK;
}

quern_status qn_moment_parse(const char *text, int64_t *ret_at_ms, quern_error *err)
{
    if (text[0] != '@') {
        return parse_rfc3339(text, ret_at_ms, err);
    }
    const char *at = text + 1;
    struct number number;
    /* The last second of the year 9999, which RFC 3339 can still write. */
    const int64_t seconds_max = INT64_C(253402300799);
    if (!read_number(&at, &number) || *at != '\0' || number.whole > seconds_max) {
        return bad_moment(text, err);
    }
    *ret_at_ms =
        number.whole * 1000 + (fraction_ns(&number, NS_PER_S) + QN_NS_PER_MS - 1) / QN_NS_PER_MS;
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
