/* SPDX-License-Identifier: MIT */
/* cron_every.c - durations exactly as Go reads them.
 *
 * base/text/duration.c reads durations of quern's own options: it has days, takes a bare number as
 * seconds and rounds up. An expression that Go shares must mean the same to both, so here every
 * step is Go's, also its fractions in floating point and the borders of its 63 bits. */
#include "task/cron/cron_every.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/text/decimal.h"
#include "task/name.h"

#define NS_PER_S UINT64_C(1000000000)
#define SUM_MAX (UINT64_C(1) << 63) /* of nanoseconds; only below 0 as large as that */

static const struct {
    const char *name;
    uint64_t ns;
} units[] = {
    {"ns", 1},           {"us", 1000},    {"\xc2\xb5s", 1000}, /* the micro sign */
    {"\xce\xbcs", 1000},                                       /* the Greek letter mu */
    {"ms", 1000000},     {"s", NS_PER_S}, {"m", 60 * NS_PER_S}, {"h", 3600 * NS_PER_S},
};

static bool read_whole(const char **at, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (; qn_decimal_is_digit(**at); (*at)++) {
        if (value > SUM_MAX / 10) {
            return false;
        }
        value = value * 10 + (uint64_t)(**at - '0');
        if (value > SUM_MAX) {
            return false;
        }
    }
    *ret_value = value;
    return true;
}

/* The digits behind the point as digits / scale; those that do not fit any more are dropped. */
static void read_fraction(const char **at, uint64_t *ret_digits, double *ret_scale)
{
    uint64_t digits = 0;
    double scale = 1;
    bool full = false;
    for (; qn_decimal_is_digit(**at); (*at)++) {
        if (full || digits > (SUM_MAX - 1) / 10) {
            full = true;
            continue;
        }
        uint64_t more = digits * 10 + (uint64_t)(**at - '0');
        if (more > SUM_MAX) {
            full = true;
            continue;
        }
        digits = more;
        scale *= 10;
    }
    *ret_digits = digits;
    *ret_scale = scale;
}

/* A unit reaches to the next digit or point. 0: there is no such unit. */
static uint64_t read_unit(const char **at)
{
    size_t size = strcspn(*at, ".0123456789");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) == size && memcmp(units[i].name, *at, size) == 0) {
            *at += size;
            return units[i].ns;
        }
    }
    return 0;
}

/* A part such as "1.5h" in nanoseconds. */
static bool read_part(const char **at, uint64_t *ret_ns)
{
    const char *first = *at;
    uint64_t ns;
    if (!read_whole(at, &ns)) {
        return false;
    }
    bool has_digits = *at > first;
    uint64_t fraction = 0;
    double scale = 1;
    if (**at == '.') {
        (*at)++;
        first = *at;
        read_fraction(at, &fraction, &scale);
        has_digits = has_digits || *at > first;
    }
    uint64_t unit_ns = has_digits ? read_unit(at) : 0;
    if (unit_ns == 0 || ns > SUM_MAX / unit_ns) {
        return false;
    }
    ns *= unit_ns;
    if (fraction > 0) {
        ns += (uint64_t)((double)fraction * ((double)unit_ns / scale));
    }
    *ret_ns = ns;
    return ns <= SUM_MAX;
}

quern_status qn_cron_every_parse(const char *text, int64_t *ret_every_s, quern_error *err)
{
    const char *at = text;
    bool negative = *at == '-';
    if (*at == '-' || *at == '+') {
        at++;
    }
    uint64_t sum_ns = 0;
    bool valid = *at != '\0';
    if (strcmp(at, "0") == 0) {
        at++;
    }
    while (valid && *at != '\0') {
        uint64_t part_ns;
        valid = read_part(&at, &part_ns);
        if (valid) {
            sum_ns += part_ns;
            valid = sum_ns <= SUM_MAX;
        }
    }
    if (!valid || (!negative && sum_ns == SUM_MAX)) {
        char shown[QN_NAME_SHOWN_SIZE];
        return qn_error_set(err, QUERN_E_INVALID,
                            "@every \"%.60s\" is not a duration: write for example 30s, 1h30m or "
                            "1.5h; the units are ns, us, ms, s, m and h, and 290 years the most",
                            qn_name_show(text, shown));
    }
    bool below_a_second = negative || sum_ns < NS_PER_S;
    *ret_every_s = below_a_second ? 1 : (int64_t)(sum_ns / NS_PER_S);
    return QUERN_OK;
}
