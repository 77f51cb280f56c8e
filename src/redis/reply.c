/* SPDX-License-Identifier: MIT */
/* reply.c - looking into replies without asking their type first. */
#include "redis/reply.h"

#include <stdbool.h>
#include <string.h>

#include "base/text/number.h"

const struct qn_reply *qn_reply_at(const struct qn_reply *reply, size_t index)
{
    static const struct qn_reply nil = {.type = QN_REPLY_NIL, .data = ""};
    return reply->type == QN_REPLY_ARRAY && index < reply->count ? reply->items[index] : &nil;
}

const char *qn_reply_text(const struct qn_reply *reply)
{
    return reply->type == QN_REPLY_TEXT ? reply->data : "";
}

/* Digits up to the end or a '.', after which there are only digits. */
static bool read_digits(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t size = strspn(text, "0123456789");
    if (size == 0) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    const char *rest = text + size;
    if (*rest == '.') {
        rest += 1 + strspn(rest + 1, "0123456789");
    }
    *ret_value = value;
    return *rest == '\0';
}

int64_t qn_reply_int(const struct qn_reply *reply, int64_t otherwise)
{
    if (reply->type == QN_REPLY_INT) {
        return reply->integer;
    }
    const char *text = qn_reply_text(reply);
    bool negative = text[0] == '-';
    uint64_t value = 0;
    if (!read_digits(text + (negative ? 1 : 0), &value) || value > (uint64_t)INT64_MAX) {
        return otherwise;
    }
    return negative ? -(int64_t)value : (int64_t)value;
}

uint64_t qn_reply_uint(const struct qn_reply *reply)
{
    uint64_t value = 0;
    if (reply->type == QN_REPLY_INT) {
        return reply->integer > 0 ? (uint64_t)reply->integer : 0;
    }
    return read_digits(qn_reply_text(reply), &value) ? value : 0;
}

int64_t qn_reply_moment_ms(const struct qn_reply *reply)
{
    return qn_moment_ms_of(qn_reply_int(reply, 0));
}

int64_t qn_reply_seconds(const struct qn_reply *reply)
{
    const int64_t seconds_max = QN_MOMENT_MS_MAX / 1000;
    const char *text = qn_reply_text(reply);
    bool is_large = text[0] == 'i' || (text[0] >= '0' && text[0] <= '9'); /* or no number at all */
    return qn_number_clamp(qn_reply_int(reply, is_large ? seconds_max : 0), 0, seconds_max);
}

int64_t qn_reply_span_us(const struct qn_reply *reply, int64_t otherwise)
{
    const int64_t us_max = QN_DURATION_MS_MAX * 1000;
    int64_t us = qn_reply_int(reply, otherwise);
    return us == otherwise ? otherwise : qn_number_clamp(us, -us_max, us_max);
}
