/* SPDX-License-Identifier: MIT */
/* number.h - numbers that others wrote: a server, a file, a neighbour.
 *
 * Their decimals are read here. No number is too large to be read: it becomes the largest that
 * fits. Moments and durations are clamped where they enter, so that behind that border sums of a
 * few of them, also in nanoseconds, do not overflow. */
#ifndef QN_BASE_TEXT_NUMBER_H
#define QN_BASE_TEXT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bug.h"

#define QN_DURATION_MS_MAX                                                                         \
    (INT64_C(100) * 366 * 24 * 3600 * 1000) /* 100 years: sums never overflow */

/* The latest moment, in 2255: as microseconds exact in a Lua number, and its nanoseconds fit. */
#define QN_MOMENT_MS_MAX INT64_C(9000000000000)

/* A text that is being read from its start; it needs no NUL at its end. */
struct qn_cursor {
    const char *at;
    const char *end;
};

/* Takes the digits at the cursor; UINT64_MAX for more than that. False: there is no digit, and
 * nothing is taken. */
bool qn_number_take(struct qn_cursor *cursor, uint64_t *ret_value);
/* Takes this one character if it is next. */
bool qn_number_take_char(struct qn_cursor *cursor, char wanted);

static inline int64_t qn_number_clamp(int64_t value, int64_t min, int64_t max)
{
    return value < min ? min : value > max ? max : value;
}

/* From 1970 to QN_MOMENT_MS_MAX. */
static inline int64_t qn_moment_ms_of(int64_t value_ms)
{
    return QN_BUG(MOMENT_BELIEVED) ? value_ms : qn_number_clamp(value_ms, 0, QN_MOMENT_MS_MAX);
}

static inline int64_t qn_duration_ms_of(int64_t value_ms)
{
    return qn_number_clamp(value_ms, 0, QN_DURATION_MS_MAX);
}

#endif
