/* SPDX-License-Identifier: MIT */
/* utf8.c - characters in bytes: valid, made valid, decoded one by one.
 *
 * One decoder serves every function; it accepts exactly the sequences that RFC 3629 allows (no
 * overlong forms, no surrogates, nothing above U+10FFFF). */
#include "base/text/utf8.h"

#include <string.h>

#include "base/assert.h"

/* Decodes the character at the start of data (size >= 1). Returns its length, or 0 when it is
 * invalid; then *ret_bad is how many bytes belong together as one mistake (Unicode's "maximal
 * subpart", so that a cut-off character is replaced once). */
static size_t decode_character(const unsigned char *data, size_t size, uint32_t *ret_code,
                               size_t *ret_bad)
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
        size_t length = decode_character(bytes + at, size - at, &code, &bad);
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
        size_t length = decode_character(bytes + at, size - at, &code, &taken);
        const char *from = data + at;
        if (length > 0) {
            taken = length;
        }
        /* A NUL is valid UTF-8, but would end the text for all code that reads it as a string. */
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
    return decode_character((const unsigned char *)text, strnlen(text, 4), ret_code, &bad);
}

bool qn_utf8_is_bidi(uint32_t code)
{
    return code == 0x061c || code == 0x200e || code == 0x200f ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

bool qn_utf8_is_unsafe(uint32_t code)
{
    bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool is_separator = code == 0x2028 || code == 0x2029;
    return is_control || is_separator || qn_utf8_is_bidi(code);
}

bool qn_utf8_is_space(uint32_t code)
{
    return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}
