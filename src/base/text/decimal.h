/* SPDX-License-Identifier: MIT */
/* decimal.h - numbers with a fraction, as people write them. */
#ifndef QN_BASE_TEXT_DECIMAL_H
#define QN_BASE_TEXT_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number as it was written: its whole part, and the digits behind the point. */
struct qn_decimal {
    int64_t whole;
    const char *fraction;
    size_t fraction_size;
};

bool qn_decimal_is_digit(char c);
/* Reads "12", "12.5", ".5" or "12." at *at and moves it on. */
bool qn_decimal_read(const char **at, struct qn_decimal *ret_number);
/* The fraction of a unit in nanoseconds, rounded up. */
int64_t qn_decimal_fraction_ns(const struct qn_decimal *number, int64_t unit_ns);

#endif
