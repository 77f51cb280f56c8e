/* SPDX-License-Identifier: MIT */
/* str.c - checks of texts: valid UTF-8, not blank, free of control characters
 * and of marks of direction.
 *
 * Characters are decoded by utf8.c. */
#include "base/text/str.h"

#include <stdint.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/utf8.h"

#define DISTANCE_SIZE_MAX 64

bool qn_str_blank(const char *text)
{
    while (*text != '\0') {
        uint32_t code;
        size_t length = qn_utf8_at(text, &code);
        if (length == 0 || !qn_utf8_is_space(code)) {
            return false;
        }
        text += length;
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
        if (size > 0 && qn_utf8_is_bidi(code)) {
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
        /* No verb or flag is that long: the texts count as completely different. */
        return a_size > b_size ? a_size : b_size;
    }
    /* Three rows of the usual table: i, i-1 and i-2, which the swap reads. */
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

char *qn_str_dup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = qn_alloc(size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}
