/* SPDX-License-Identifier: MIT */
/* size.c - sizes in bytes, see size.h. */
#include "base/text/size.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"

#define DIGITS_MAX 3 /* behind the point */

static const char units[] = "BKMGT";

/* The unit at the cursor as a number of bits; -1: it is none. */
static int take_unit(struct qn_cursor *cursor)
{
    if (cursor->at == cursor->end) {
        return 0;
    }
    const char *unit = strchr(units, toupper((unsigned char)*cursor->at));
    if (unit == NULL || *cursor->at == '\0') {
        return -1;
    }
    cursor->at++;
    if (unit != units && !qn_number_take_char(cursor, 'B') && qn_number_take_char(cursor, 'i') &&
        !qn_number_take_char(cursor, 'B')) {
        return -1;
    }
    return 10 * (int)(unit - units);
}

/* What follows the point, in thousandths. */
static bool take_fraction(struct qn_cursor *cursor, uint64_t *ret_thousandths)
{
    const char *first = cursor->at;
    *ret_thousandths = 0;
    if (!qn_number_take(cursor, ret_thousandths) || cursor->at - first > DIGITS_MAX) {
        return false;
    }
    for (int64_t i = cursor->at - first; i < DIGITS_MAX; i++) {
        *ret_thousandths *= 10;
    }
    return true;
}

quern_status qn_size_parse(const char *text, int64_t *ret_bytes, quern_error *err)
{
    struct qn_cursor cursor = {text, text + strlen(text)};
    uint64_t whole = 0;
    uint64_t thousandths = 0;
    bool is_number = qn_number_take(&cursor, &whole);
    if (is_number && qn_number_take_char(&cursor, '.')) {
        is_number = take_fraction(&cursor, &thousandths);
    }
    int bits = is_number ? take_unit(&cursor) : -1;
    if (bits < 0 || cursor.at != cursor.end) {
        return qn_error_set(err, QUERN_E_INVALID, "\"%.40s\" is not a size such as 512M or 1.5G",
                            text);
    }
    if (whole > (uint64_t)INT64_MAX >> bits) {
        return qn_error_set(err, QUERN_E_INVALID, "%.40s is more than 8 EiB", text);
    }
    *ret_bytes = (int64_t)((whole << bits) + (thousandths << bits) / 1000);
    return QUERN_OK;
}
