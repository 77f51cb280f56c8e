/* SPDX-License-Identifier: MIT */
/* alloc.h - the only door to the heap.
 *
 * Nothing else in the library calls malloc, so that the fault tests can fail the n-th allocation
 * (they wrap qn_alloc, qn_alloc_zero and qn_realloc at link time). All return NULL when memory is
 * out. */
#ifndef QN_BASE_MEMORY_ALLOC_H
#define QN_BASE_MEMORY_ALLOC_H

#include <stddef.h>

#include "quern/export.h"

QUERN_NODISCARD void *qn_alloc(size_t size);
/* count * size zeroed bytes; NULL also when the product overflows. */
QUERN_NODISCARD void *qn_alloc_zero(size_t count, size_t size);
/* As realloc; on failure the old block stays valid. */
QUERN_NODISCARD void *qn_realloc(void *block, size_t size);
void qn_free(void *block); /* NULL is fine */

#endif
