/* SPDX-License-Identifier: MIT */
/* decimal.c - numbers with a fraction, as people write them; counted exactly in integers. */
#include "base/text/decimal.h"

bool qn_decimal_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool qn_decimal_read(const char **at, struct qn_decimal *ret_number)
{
    const char *text = *at;
    struct qn_decimal number = {0};
    for (; qn_decimal_is_digit(*text); text++) {
        if (__builtin_mul_overflow(number.whole, 10, &number.whole) ||
            __builtin_add_overflow(number.whole, *text - '0', &number.whole)) {
            return false;
        }
    }
    bool has_digits = text > *at;
    if (*text == '.') {
        text++;
        number.fraction = text;
        while (qn_decimal_is_digit(*text)) {
            text++;
        }
        number.fraction_size = (size_t)(text - number.fraction);
        has_digits = has_digits || number.fraction_size > 0;
    }
    *at = text;
    *ret_number = number;
    return has_digits;
}

int64_t qn_decimal_fraction_ns(const struct qn_decimal *number, int64_t unit_ns)
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
