/* SPDX-License-Identifier: MIT */
/* plural.h - nouns and verbs of messages follow their number. */
#ifndef QN_BASE_TEXT_PLURAL_H
#define QN_BASE_TEXT_PLURAL_H

#include <stdint.h>

/* `one` for 1, else `many`: "1 task is", but "0 tasks are" and "2 tasks are". */
static inline const char *qn_plural(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

#endif
