/* SPDX-License-Identifier: MIT */
/* slab.h - blocks that are made together, as those of a batch, but freed one by one and by any
 * thread.
 *
 * They share chunks of memory; a chunk is given back with its last block. So that a block which
 * stays for hours does not hold much more than itself, chunks are small and large blocks have one
 * of their own. Making is for one thread at a time. */
#ifndef QN_BASE_MEMORY_SLAB_H
#define QN_BASE_MEMORY_SLAB_H

#include <stddef.h>

#include "quern/export.h"

struct qn_slab_chunk;
struct qn_slab {
    struct qn_slab_chunk *chunk; /* the newest */
    size_t used;                 /* of it */
    size_t count;                /* of its blocks */
};

/* A zeroed struct is an empty slab. NULL for `slab`: a block that shares its chunk with no other.
 * The block is aligned for any type; NULL when out of memory. */
QUERN_NODISCARD void *qn_slab_alloc(struct qn_slab *slab, size_t size);
/* No more blocks will be made; those that were stay until they are freed. Leaves an empty slab. */
void qn_slab_finish(struct qn_slab *slab);
void qn_slab_free(void *block); /* NULL is fine */

#endif
