/* SPDX-License-Identifier: MIT */
/* utf8.h - characters in bytes (RFC 3629). */
#ifndef QN_BASE_TEXT_UTF8_H
#define QN_BASE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool qn_utf8_valid(const char *data, size_t size);
/* Copies text to `out` (size >= 1), replacing invalid sequences by U+FFFD and cutting it at a
 * character; always terminates. Returns the length written. */
size_t qn_utf8_sanitize(const char *data, size_t size, char *out, size_t out_size);
/* Decodes the character at the start of a text that has not ended. Returns its size; 0: it is not
 * UTF-8. */
size_t qn_utf8_at(const char *text, uint32_t *ret_code);
/* A character that must not reach a line or a terminal as it is: C0, DEL, C1, a separator of lines
 * or paragraphs, a mark of direction. */
bool qn_utf8_is_unsafe(uint32_t code);
/* A mark that turns the direction of text (Unicode's Bidi_Control). */
bool qn_utf8_is_bidi(uint32_t code);
/* White space as Unicode's White_Space property lists it. */
bool qn_utf8_is_space(uint32_t code);

#endif
