/* SPDX-License-Identifier: MIT */
/* vec.c - see vec.h. The first array has room for FIRST_SIZE bytes, so that short lists of small
 * things grow once. */
#include "base/memory/vec.h"

#include <stdint.h>
#include <string.h>

#include "base/memory/alloc.h"

#define FIRST_SIZE 512
#define FIRST_COUNT_MIN 4

/* 0: no array can be that long. */
static size_t next_capacity(size_t capacity, size_t item_size)
{
    size_t first = FIRST_SIZE / item_size;
    if (capacity == 0) {
        return first < FIRST_COUNT_MIN ? FIRST_COUNT_MIN : first;
    }
    return capacity > SIZE_MAX / 2 / item_size ? 0 : capacity * 2;
}

void *qn_vec_grow(void *items, size_t count, size_t *capacity, size_t item_size)
{
    if (count < *capacity) {
        return items;
    }
    size_t wanted = next_capacity(*capacity, item_size);
    void *grown = wanted == 0 ? NULL : qn_realloc(items, wanted * item_size);
    *capacity = grown == NULL ? *capacity : wanted;
    return grown;
}

void *qn_vec_grow_in(struct qn_arena *arena, void *items, size_t count, size_t *capacity,
                     size_t item_size)
{
    if (count < *capacity) {
        return items;
    }
    size_t wanted = next_capacity(*capacity, item_size);
    void *grown = wanted == 0 ? NULL : qn_arena_alloc(arena, wanted * item_size);
    if (grown == NULL) {
        return NULL;
    }
    if (count > 0) {
        memcpy(grown, items, count * item_size);
    }
    *capacity = wanted;
    return grown;
}
