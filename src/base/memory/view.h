/* SPDX-License-Identifier: MIT */
/* view.h - borrowed data with its size: bytes, and a list of names. Passed by value. */
#ifndef QN_BASE_MEMORY_VIEW_H
#define QN_BASE_MEMORY_VIEW_H

#include <stddef.h>

struct qn_bytes {
    const void *data; /* may be NULL when size is 0 */
    size_t size;
};

struct qn_names {
    const char *const *items;
    size_t count;
};

#endif
