/* SPDX-License-Identifier: MIT */
/* arena.c - memory of one batch.
 *
 * Blocks are cut from the newest chunk; when it is used up, a chunk of twice its size follows, up
 * to CHUNK_SIZE_MAX, or a chunk of its own for a block larger than that. Relies on qn_alloc only.
 * When memory is out the arena is as before and the call returns NULL. A reset frees all chunks but
 * one of ordinary size, so that one batch with a large payload does not keep its memory for ever.
 */
#include "base/memory/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory/alloc.h"

#define CHUNK_SIZE_MIN ((size_t)4096)
#define CHUNK_SIZE_MAX ((size_t)64 << 10)
#define ALIGNMENT _Alignof(max_align_t)

struct qn_arena_chunk {
    struct qn_arena_chunk *older;
    size_t size; /* of the data */
    max_align_t data[];
};

static size_t next_chunk_size(const struct qn_arena *arena, size_t size)
{
    size_t wanted = arena->chunk == NULL ? CHUNK_SIZE_MIN : arena->chunk->size * 2;
    if (wanted > CHUNK_SIZE_MAX) {
        wanted = CHUNK_SIZE_MAX;
    }
    return wanted < size ? size : wanted;
}

void *qn_arena_alloc(struct qn_arena *arena, size_t size)
{
    QN_ASSERT(arena->chunk != NULL || arena->used == 0);
    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    size = size == 0 ? ALIGNMENT : (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (arena->chunk == NULL || arena->chunk->size - arena->used < size) {
        size_t chunk_size = next_chunk_size(arena, size);
        struct qn_arena_chunk *chunk = qn_alloc(sizeof *chunk + chunk_size);
        if (chunk == NULL) {
            return NULL;
        }
        chunk->older = arena->chunk;
        chunk->size = chunk_size;
        arena->chunk = chunk;
        arena->used = 0;
    }
    void *block = (char *)arena->chunk->data + arena->used;
    arena->used += size;
    QN_ASSERT(arena->used <= arena->chunk->size);
    return block;
}

void *qn_arena_copy(struct qn_arena *arena, const void *data, size_t size)
{
    void *copy = qn_arena_alloc(arena, size);
    if (copy != NULL && size > 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

char *qn_arena_strdup(struct qn_arena *arena, const char *text)
{
    return qn_arena_copy(arena, text, strlen(text) + 1);
}

char *qn_arena_printf(struct qn_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = size < 0 ? NULL : qn_arena_alloc(arena, (size_t)size + 1);
    if (text != NULL) {
        (void)vsnprintf(text, (size_t)size + 1, format, again);
    }
    va_end(again);
    return text;
}

void qn_arena_reset(struct qn_arena *arena)
{
    struct qn_arena_chunk *kept = NULL;
    struct qn_arena_chunk *chunk = arena->chunk;
    while (chunk != NULL) {
        struct qn_arena_chunk *older = chunk->older;
        if (kept == NULL && chunk->size <= CHUNK_SIZE_MAX) {
            kept = chunk;
            kept->older = NULL;
        } else {
            qn_free(chunk);
        }
        chunk = older;
    }
    arena->chunk = kept;
    arena->used = 0;
}

void qn_arena_finish(struct qn_arena *arena)
{
    struct qn_arena_chunk *chunk = arena->chunk;
    while (chunk != NULL) {
        struct qn_arena_chunk *older = chunk->older;
        qn_free(chunk);
        chunk = older;
    }
    arena->chunk = NULL;
    arena->used = 0;
}
