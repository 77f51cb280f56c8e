/* SPDX-License-Identifier: MIT */
/* secret.c - memory for texts that may hold a password: left out of core dumps, wiped at its end.
 *
 * Whole pages within a larger block of the heap, so that qn_alloc stays the only door to it. The
 * kernel may not know MADV_DONTDUMP; then a core dump has the pages, as everything else. */
#include "base/memory/secret.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/memory/alloc.h"

/* At the start of the first page, before the caller's bytes. */
struct secret {
    void *block; /* of the heap */
    size_t size; /* of the pages */
    max_align_t data[];
};

void *qn_secret_alloc(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > SIZE_MAX / 4) {
        return NULL;
    }
    size_t pages_size = (sizeof(struct secret) + size + page - 1) / page * page;
    char *block = qn_alloc(pages_size + page);
    if (block == NULL) {
        return NULL;
    }
    char *start = block + (page - (uintptr_t)block % page) % page;
    struct secret *secret = memset(start, 0, pages_size);
    (void)madvise(start, pages_size, MADV_DONTDUMP);
    secret->block = block;
    secret->size = pages_size;
    return secret->data;
}

char *qn_secret_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = qn_secret_alloc(size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}

void qn_secret_free(void *data)
{
    if (data == NULL) {
        return;
    }
    struct secret *secret = (struct secret *)((char *)data - offsetof(struct secret, data));
    void *block = secret->block;
    size_t size = secret->size;
    QN_ASSERT(size > 0);
    explicit_bzero(secret, size);
    (void)madvise(secret, size, MADV_DODUMP);
    qn_free(block);
}
