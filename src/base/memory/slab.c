/* SPDX-License-Identifier: MIT */
/* slab.c - blocks in chunks that count them.
 *
 * A block knows its chunk. While a slab still takes blocks from a chunk, the chunk's count is so
 * high that frees cannot bring it to zero; the slab subtracts the excess when it has finished with
 * the chunk. So making a block costs no atomic operation.
 *
 * A block that stays for hours keeps its chunk, CHUNK_SIZE_MAX at most: a run of a worker holds
 * two, one for its lease and one for itself, whatever else was in its batch. The first chunk is
 * small, as a batch may be one run. A larger block than BLOCK_SIZE_MAX would fill chunks badly, and
 * small blocks would keep it alive: it has a chunk of its own.
 *
 * AddressSanitizer knows which bytes are a block, so it finds a use after free here as in the heap;
 * a block that is freed twice meets an assertion. */
#include "base/memory/slab.h"

#include <stdatomic.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/memory/alloc.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#endif

#define CHUNK_SIZE_MIN ((size_t)1024)
#define CHUNK_SIZE_MAX ((size_t)16 << 10)
#define BLOCK_SIZE_MAX (CHUNK_SIZE_MAX / 4)
#define ALIGNMENT _Alignof(max_align_t)
#define EXCESS (SIZE_MAX / 2) /* of the count: more blocks than a chunk can hold */

struct qn_slab_chunk {
    _Atomic size_t count;
    size_t size; /* of the data */
    max_align_t data[];
};

struct block {
    struct qn_slab_chunk *chunk; /* NULL: freed */
    size_t size;
    max_align_t data[];
};

static struct qn_slab_chunk *new_chunk(size_t size, size_t count)
{
    struct qn_slab_chunk *chunk = qn_alloc(sizeof *chunk + size);
    if (chunk != NULL) {
        atomic_init(&chunk->count, count);
        chunk->size = size;
        ASAN_POISON_MEMORY_REGION(chunk->data, size);
    }
    return chunk;
}

static void release(struct qn_slab_chunk *chunk, size_t count)
{
    if (atomic_fetch_sub_explicit(&chunk->count, count, memory_order_acq_rel) == count) {
        ASAN_UNPOISON_MEMORY_REGION(chunk->data, chunk->size);
        qn_free(chunk);
    }
}

static void *place(struct qn_slab_chunk *chunk, size_t at, size_t size)
{
    QN_ASSERT(at + sizeof(struct block) + size <= chunk->size);
    struct block *block = (struct block *)(void *)((char *)chunk->data + at);
    ASAN_UNPOISON_MEMORY_REGION(block, sizeof *block + size);
    block->chunk = chunk;
    block->size = size;
    return block->data;
}

/* Twice as large as the last one. */
static size_t next_chunk_size(const struct qn_slab *slab, size_t wanted)
{
    size_t size = slab->chunk == NULL ? CHUNK_SIZE_MIN : slab->chunk->size * 2;
    size = size > CHUNK_SIZE_MAX ? CHUNK_SIZE_MAX : size;
    return size < wanted ? wanted : size;
}

void *qn_slab_alloc(struct qn_slab *slab, size_t size)
{
    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    size_t whole = sizeof(struct block) + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (slab == NULL || whole > BLOCK_SIZE_MAX) {
        struct qn_slab_chunk *own = new_chunk(whole, 1);
        return own == NULL ? NULL : place(own, 0, size);
    }
    if (slab->chunk == NULL || slab->chunk->size - slab->used < whole) {
        struct qn_slab_chunk *chunk = new_chunk(next_chunk_size(slab, whole), EXCESS);
        if (chunk == NULL) {
            return NULL;
        }
        qn_slab_finish(slab);
        slab->chunk = chunk;
    }
    void *block = place(slab->chunk, slab->used, size);
    slab->used += whole;
    slab->count++;
    return block;
}

void qn_slab_finish(struct qn_slab *slab)
{
    if (slab->chunk != NULL) {
        release(slab->chunk, EXCESS - slab->count);
    }
    *slab = (struct qn_slab){0};
}

void qn_slab_free(void *data)
{
    if (data == NULL) {
        return;
    }
    struct block *block = (struct block *)data - 1;
    struct qn_slab_chunk *chunk = block->chunk;
    QN_ASSERT(chunk != NULL);
    block->chunk = NULL;
    ASAN_POISON_MEMORY_REGION(block, sizeof *block + block->size);
    release(chunk, 1);
}
