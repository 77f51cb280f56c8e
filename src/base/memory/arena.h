/* SPDX-License-Identifier: MIT */
/* arena.h - memory of one batch: many small blocks, freed together. One thread at a time. */
#ifndef QN_BASE_MEMORY_ARENA_H
#define QN_BASE_MEMORY_ARENA_H

#include <stddef.h>

#include "quern/export.h"

struct qn_arena_chunk;
struct qn_arena {
    struct qn_arena_chunk *chunk; /* the newest; the older ones hang behind it */
    size_t used;                  /* of the newest chunk */
};

/* A zeroed struct is an empty arena. */
QUERN_NODISCARD void *qn_arena_alloc(struct qn_arena *arena,
                                     size_t size); /* aligned for any type */
QUERN_NODISCARD char *qn_arena_strdup(struct qn_arena *arena, const char *text);
QUERN_NODISCARD void *qn_arena_copy(struct qn_arena *arena, const void *data, size_t size);
QUERN_NODISCARD char *qn_arena_printf(struct qn_arena *arena, const char *format, ...)
    QUERN_PRINTF(2, 3);
/* Empties it, but keeps one chunk for the next batch. */
void qn_arena_reset(struct qn_arena *arena);
void qn_arena_finish(struct qn_arena *arena);

#endif
