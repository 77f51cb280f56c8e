/* SPDX-License-Identifier: MIT */
/* str.h - bytes with their length, and checks of texts. */
#ifndef QN_BASE_TEXT_STR_H
#define QN_BASE_TEXT_STR_H

#include <stdbool.h>
#include <stddef.h>

#include "quern/export.h"

/* Borrowed; NUL-terminated only where the owner promises it. */
struct qn_str {
    const char *data;
    size_t size;
};

/* A copy on the heap, for qn_free; NULL: out of memory. */
QUERN_NODISCARD char *qn_str_dup(const char *text);
bool qn_str_blank(const char *text); /* empty, or white space only (ASCII and Unicode) */
/* Nothing but visible ASCII. */
bool qn_str_is_plain(const char *text);
bool qn_str_has_control(const char *text); /* C0, DEL or C1 */
/* A mark that turns the direction of the text around it (Unicode's Bidi_Control): with one in it a
 * name can look like another. */
bool qn_str_has_bidi(const char *text);
bool qn_str_starts_with(const char *text, const char *prefix);
/* Edit distance (insert, delete, replace, swap), for "did you mean". */
size_t qn_str_distance(const char *a, const char *b);

#endif
