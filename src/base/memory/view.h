/* SPDX-License-Identifier: MIT */
/* view.h - borrowed memory with its size: bytes, room for bytes, and a list of names. Passed by
 * value. */
#ifndef QN_BASE_MEMORY_VIEW_H
#define QN_BASE_MEMORY_VIEW_H

#include <stddef.h>

struct qn_bytes {
    const void *data; /* may be NULL when size is 0 */
    size_t size;
};

/* Memory of the caller, which the callee writes to. */
struct qn_room {
    void *data;
    size_t size;
};

/* A whole object of the caller, as bytes to write. */
#define QN_ROOM_OF(object) ((struct qn_room){.data = &(object), .size = sizeof(object)})

struct qn_names {
    const char *const *items;
    size_t count;
};

#endif
