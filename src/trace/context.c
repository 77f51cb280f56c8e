/* SPDX-License-Identifier: MIT */
/* context.c - reads and writes the two headers of W3C Trace Context (level 1).
 *
 * Both come from anywhere: a text that breaks a rule is as good as none, and never an error of the
 * caller. */
#include "trace/context.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    VERSION_AT = 0,
    TRACE_AT = 3,
    SPAN_AT = 36,
    FLAGS_AT = 53,
    PARENT_LENGTH = QN_TRACEPARENT_SIZE - 1,
    MEMBERS_MAX = 32,
    KEY_SIZE_MAX = 256,
    VALUE_SIZE_MAX = 256,
    TENANT_SIZE_MAX = 241,
    SYSTEM_SIZE_MAX = 14
};
#define FLAG_SAMPLED 1U

/* Capitals are refused: the standard has none. */
static bool read_hex(const char *text, size_t digits, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        char c = text[i];
        bool is_digit = c >= '0' && c <= '9';
        if (!is_digit && (c < 'a' || c > 'f')) {
            return false;
        }
        value = value << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
    }
    *ret_value = value;
    return true;
}

bool qn_trace_context_parse(const char *text, struct qn_trace_context *ret_context)
{
    struct qn_trace_context context;
    uint64_t version = 0;
    uint64_t flags = 0;
    if (text == NULL || strnlen(text, PARENT_LENGTH) < PARENT_LENGTH ||
        !read_hex(text + VERSION_AT, 2, &version) || version == 0xff) {
        return false;
    }
    char after = text[PARENT_LENGTH];
    if (after != '\0' && (version == 0 || after != '-')) {
        return false;
    }
    if (text[TRACE_AT - 1] != '-' || text[SPAN_AT - 1] != '-' || text[FLAGS_AT - 1] != '-' ||
        !read_hex(text + TRACE_AT, 16, &context.trace_high) ||
        !read_hex(text + TRACE_AT + 16, 16, &context.trace_low) ||
        !read_hex(text + SPAN_AT, 16, &context.span) || !read_hex(text + FLAGS_AT, 2, &flags)) {
        return false;
    }
    if ((context.trace_high == 0 && context.trace_low == 0) || context.span == 0) {
        return false;
    }
    context.sampled = (flags & FLAG_SAMPLED) != 0;
    *ret_context = context;
    return true;
}

void qn_trace_context_format(const struct qn_trace_context *context, char text[QN_TRACEPARENT_SIZE])
{
    (void)snprintf(text, QN_TRACEPARENT_SIZE, "00-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "-%02x",
                   context->trace_high, context->trace_low, context->span,
                   context->sampled ? FLAG_SAMPLED : 0);
}

void qn_trace_context_format_id(const struct qn_trace_context *context, char text[QN_TRACE_ID_SIZE])
{
    (void)snprintf(text, QN_TRACE_ID_SIZE, "%016" PRIx64 "%016" PRIx64, context->trace_high,
                   context->trace_low);
}

void qn_trace_context_format_span(uint64_t span, char text[QN_TRACE_SPAN_SIZE])
{
    (void)snprintf(text, QN_TRACE_SPAN_SIZE, "%016" PRIx64, span);
}

/* --- tracestate ---------------------------------------------------------------------- */

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_key_char(char c)
{
    return is_lower(c) || (c >= '0' && c <= '9') || (c != '\0' && strchr("_-*/", c) != NULL);
}

/* "vendor", or "tenant@vendor", where the tenant may begin with a digit. */
static bool is_key(const char *key, size_t size)
{
    const char *at = memchr(key, '@', size);
    size_t first = at == NULL ? size : (size_t)(at - key);
    size_t second = at == NULL ? 0 : size - first - 1;
    if (first == 0 || first > (at == NULL ? KEY_SIZE_MAX : TENANT_SIZE_MAX) ||
        (!is_lower(key[0]) && (at == NULL || key[0] < '0' || key[0] > '9'))) {
        return false;
    }
    if (at != NULL && (second == 0 || second > SYSTEM_SIZE_MAX || !is_lower(at[1]))) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (key + i != at && !is_key_char(key[i])) {
            return false;
        }
    }
    return true;
}

static bool is_value(const char *value, size_t size)
{
    if (size == 0 || size > VALUE_SIZE_MAX || value[size - 1] == ' ') {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (value[i] < ' ' || value[i] > '~' || value[i] == '=') {
            return false;
        }
    }
    return true;
}

bool qn_trace_context_check_state(const char *text)
{
    size_t members = 0;
    if (text == NULL || strnlen(text, QN_TRACESTATE_SIZE_MAX + 1) > QN_TRACESTATE_SIZE_MAX) {
        return false;
    }
    while (true) {
        text += strspn(text, " \t");
        size_t size = strcspn(text, ",");
        const char *next = text + size;
        while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t')) {
            size--;
        }
        const char *equals = memchr(text, '=', size);
        size_t key_size = equals == NULL ? 0 : (size_t)(equals - text);
        if (size > 0) { /* an empty member is allowed */
            members++;
            if (equals == NULL || !is_key(text, key_size) ||
                !is_value(equals + 1, size - key_size - 1)) {
                return false;
            }
        }
        if (*next == '\0') {
            return members > 0 && members <= MEMBERS_MAX;
        }
        text = next + 1;
    }
}
