/* SPDX-License-Identifier: MIT */
/* glob.h - patterns for texts and bytes: * is any run of bytes, ? is one character of UTF-8 or one
 * byte that is not part of one, and a backslash takes the next byte as it is. */
#ifndef QN_QUERY_GLOB_H
#define QN_QUERY_GLOB_H

#include <stdbool.h>

#include "base/memory/view.h"

/* Whether the pattern fits all of the text. Bytes are compared as they are. */
bool qn_glob_fits(struct qn_bytes pattern, struct qn_bytes text);
/* Whether it has a * or ? that no backslash takes. */
bool qn_glob_is_wild(struct qn_bytes pattern);
/* Takes the backslashes out of a pattern that is not wild, in place; returns the new size. */
size_t qn_glob_literal(char *pattern, size_t size);

#endif
