/* SPDX-License-Identifier: MIT */
/* glob.c - compares a text with a pattern, without recursion: only the latest * is tried again,
 * since an earlier one could not do better. */
#include "query/glob.h"

/* The size of the character at the start of a text that has not ended. */
static size_t character_size(const unsigned char *text, const unsigned char *end)
{
    size_t size = *text >= 0xf0 && *text < 0xf8 ? 4 : *text >= 0xe0 && *text < 0xf0 ? 3 : 2;
    if (*text < 0xc2 || *text >= 0xf8 || (size_t)(end - text) < size) {
        return 1;
    }
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 1;
        }
    }
    return size;
}

/* How much of the text one element of the pattern takes; 0: it does not fit. */
static size_t element_fits(const unsigned char *pattern, const unsigned char *pattern_end,
                           const unsigned char *text, const unsigned char *text_end,
                           size_t *ret_size)
{
    bool taken = *pattern == '\\' && pattern + 1 < pattern_end;
    *ret_size = taken ? 2 : 1;
    if (text == text_end) {
        return 0;
    }
    if (*pattern == '?' && !taken) {
        return character_size(text, text_end);
    }
    return pattern[taken ? 1 : 0] == *text ? 1 : 0;
}

bool qn_glob_fits(struct qn_bytes pattern, struct qn_bytes text)
{
    const unsigned char *at = pattern.data;
    const unsigned char *pattern_end = at + pattern.size;
    const unsigned char *byte = text.data;
    const unsigned char *text_end = byte + text.size;
    const unsigned char *star = NULL; /* behind the latest one */
    const unsigned char *resume = NULL;
    for (;;) {
        size_t size = 0;
        size_t taken = 0;
        if (at == pattern_end && byte == text_end) {
            return true;
        }
        if (at < pattern_end && *at == '*') {
            star = ++at;
            resume = byte;
            continue;
        }
        if (at < pattern_end) {
            taken = element_fits(at, pattern_end, byte, text_end, &size);
        }
        if (taken > 0) {
            at += size;
            byte += taken;
        } else if (star == NULL || resume == text_end) {
            return false;
        } else {
            at = star;
            byte = ++resume;
        }
    }
}

bool qn_glob_is_wild(struct qn_bytes pattern)
{
    const char *text = pattern.data;
    for (size_t i = 0; i < pattern.size; i++) {
        if (text[i] == '*' || text[i] == '?') {
            return true;
        }
        i += text[i] == '\\';
    }
    return false;
}

size_t qn_glob_literal(char *pattern, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < size; i++) {
        i += pattern[i] == '\\' && i + 1 < size;
        pattern[kept++] = pattern[i];
    }
    return kept;
}
