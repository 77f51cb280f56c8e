/* SPDX-License-Identifier: MIT */
/* alloc.c - the only callers of malloc and its kin.
 *
 * A size of zero gives a block too, so that NULL always means that memory is out. qn_str_dup lives
 * in str.c: a call within one file cannot be wrapped at link time, and the fault tests must see
 * its allocation as well. */
#include "base/memory/alloc.h"

#include <stdlib.h>

void *qn_alloc(size_t size)
{
    return malloc(size == 0 ? 1 : size);
}

void *qn_alloc_zero(size_t count, size_t size)
{
    return count == 0 || size == 0 ? calloc(1, 1) : calloc(count, size);
}

void *qn_realloc(void *block, size_t size)
{
    return realloc(block, size == 0 ? 1 : size);
}

void qn_free(void *block)
{
    free(block);
}
