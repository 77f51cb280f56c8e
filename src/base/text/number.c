/* SPDX-License-Identifier: MIT */
/* number.c - reads decimals without ever overflowing; see number.h. */
#include "base/text/number.h"

bool qn_number_take(struct qn_cursor *cursor, uint64_t *ret_value)
{
    const char *first = cursor->at;
    uint64_t value = 0;
    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
        uint64_t digit = (uint64_t)(*cursor->at - '0');
        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    if (cursor->at == first) {
        return false;
    }
    *ret_value = value;
    return true;
}

bool qn_number_take_char(struct qn_cursor *cursor, char wanted)
{
    if (cursor->at == cursor->end || *cursor->at != wanted) {
        return false;
    }
    cursor->at++;
    return true;
}
