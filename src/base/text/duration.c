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

#include "base/clock.h"
#include "base/error.h"
#include "base/text/decimal.h"
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
        struct qn_decimal number;
        if (!qn_decimal_read(&at, &number)) {
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
            __builtin_add_overflow(part_ns, qn_decimal_fraction_ns(&number, unit_ns), &part_ns) ||
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
