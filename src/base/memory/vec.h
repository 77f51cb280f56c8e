/* SPDX-License-Identifier: MIT */
/* vec.h - arrays that grow by doubling.
 *
 *     struct entry *entries = qn_vec_grow(list->entries, list->count, &list->capacity,
 *                                         sizeof *entries);
 *     if (entries == NULL) {
 *         return qn_error_nomem(err);
 *     }
 *     list->entries = entries;
 *     list->entries[list->count++] = entry; */
#ifndef QN_BASE_MEMORY_VEC_H
#define QN_BASE_MEMORY_VEC_H

#include <stddef.h>

#include "base/memory/arena.h"

/* Returns the array with room for one more item after its `count`: the same array while `count` is
 * less than *capacity. NULL: out of memory, and the array is unchanged. Start with NULL and 0; free
 * it with qn_free. */
QUERN_NODISCARD void *qn_vec_grow(void *items, size_t count, size_t *capacity, size_t item_size);
/* The same in an arena, where the smaller arrays stay behind. */
QUERN_NODISCARD void *qn_vec_grow_in(struct qn_arena *arena, void *items, size_t count,
                                     size_t *capacity, size_t item_size);

#endif
