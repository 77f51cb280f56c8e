/* SPDX-License-Identifier: MIT */
/* str.c - what we ask of texts: valid UTF-8, not blank, free of control characters
 * and of marks of direction.
 *
 * All text enters here as bytes. One decoder serves every question; it takes what RFC 3629 allows
 * and nothing else (no overlong forms, no surrogates, nothing above U+10FFFF). */
#include "base/text/str.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory/alloc.h"

#define DISTANCE_SIZE_MAX 64

/* Decodes the character at the start of data (size >= 1). Returns its length, or 0 when it is
 * invalid; then *ret_bad is how many bytes belong together as one mistake (Unicode's "maximal
 * subpart", so that a cut-off character is replaced once). */
static size_t decode(const unsigned char *data, size_t size, uint32_t *ret_code, size_t *ret_bad)
{
    unsigned char lead = data[0];
    *ret_bad = 1;
    if (lead < 0x80) {
        *ret_code = lead;
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) {
        return 0;
    }
    size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t code = lead & (0xffu >> (length + 1));
    /* The second byte has a narrower range after these leads. */
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < length; i++) {
        if (i >= size || data[i] < low || data[i] > high) {
            *ret_bad = i;
            return 0;
        }
        code = code << 6 | (data[i] & 0x3fu);
        low = 0x80;
        high = 0xbf;
    }
    *ret_code = code;
    return length;
}

bool qn_utf8_valid(const char *data, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)data;
    uint32_t code;
    size_t bad;
    size_t at = 0;
    while (at < size) {
        if (bytes[at] < 0x80) { /* no call for each of them: most text is ASCII */
            at++;
            continue;
        }
        size_t length = decode(bytes + at, size - at, &code, &bad);
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return true;
}

size_t qn_utf8_sanitize(const char *data, size_t size, char *out, size_t out_size)
{
    QN_ASSERT(out_size >= 1);
    static const char replacement[] = "\xef\xbf\xbd";
    const unsigned char *bytes = (const unsigned char *)data;
    size_t at = 0;
    size_t written = 0;
    while (at < size) {
        uint32_t code = 0;
        size_t taken;
        size_t length = decode(bytes + at, size - at, &code, &taken);
        const char *from = data + at;
        if (length > 0) {
            taken = length;
        }
        /* A NUL is valid UTF-8, but would end the text for everyone who reads it as a string. */
        if (length == 0 || code == 0) {
            from = replacement;
            length = sizeof replacement - 1;
        }
        if (length > out_size - 1 - written) {
            break;
        }
        memcpy(out + written, from, length);
        written += length;
        at += taken;
    }
    out[written] = '\0';
    return written;
}

size_t qn_utf8_at(const char *text, uint32_t *ret_code)
{
    size_t bad;
    return decode((const unsigned char *)text, strnlen(text, 4), ret_code, &bad);
}

/* Unicode's Bidi_Control. */
static bool is_bidi_mark(uint32_t code)
{
    return code == 0x061c || code == 0x200e || code == 0x200f ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

bool qn_code_is_unsafe(uint32_t code)
{
    bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool is_separator = code == 0x2028 || code == 0x2029;
    return is_control || is_separator || is_bidi_mark(code);
}

/* White space as Unicode's White_Space property lists it. */
static bool is_space(uint32_t code)
{
    return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool qn_str_blank(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t size = strlen(text);
    size_t at = 0;
    while (at < size) {
        uint32_t code;
        size_t bad;
        size_t length = decode(bytes + at, size - at, &code, &bad);
        if (length == 0 || !is_space(code)) {
            return false;
        }
        at += length;
    }
    return true;
}

bool qn_str_is_plain(const char *text)
{
    for (; *text > ' ' && *text < 0x7f; text++) {
    }
    return *text == '\0';
}

bool qn_str_has_control(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    for (; *byte != 0; byte++) {
        bool is_c1 = byte[0] == 0xc2 && byte[1] >= 0x80 && byte[1] <= 0x9f;
        if (*byte < 0x20 || *byte == 0x7f || is_c1) {
            return true;
        }
    }
    return false;
}

bool qn_str_has_bidi(const char *text)
{
    while (*text != '\0') {
        uint32_t code = 0;
        bool is_ascii = (unsigned char)*text < 0x80; /* as no mark is */
        size_t size = is_ascii ? 1 : qn_utf8_at(text, &code);
        if (size > 0 && is_bidi_mark(code)) {
            return true;
        }
        text += size > 0 ? size : 1;
    }
    return false;
}

bool qn_str_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t qn_str_distance(const char *a, const char *b)
{
    size_t a_size = strlen(a);
    size_t b_size = strlen(b);
    if (a_size > DISTANCE_SIZE_MAX || b_size > DISTANCE_SIZE_MAX) {
        /* Nobody's verb or flag is that long: as far apart as texts can be. */
        return a_size > b_size ? a_size : b_size;
    }
    /* Three rows of the usual table: i, i-1 and i-2, which the swap looks at. */
    size_t rows[3][DISTANCE_SIZE_MAX + 1];
    for (size_t j = 0; j <= b_size; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_size; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = least(replaced, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[a_size % 3][b_size];
}

char *qn_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = qn_alloc(size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}
