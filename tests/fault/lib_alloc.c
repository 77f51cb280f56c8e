/* SPDX-License-Identifier: MIT */
/* lib_alloc.c - stands between the library and base/alloc.c, and counts down. */
#include "lib_alloc.h"

#include <stddef.h>

void *__real_qn_alloc(size_t size);
void *__real_qn_alloc_zero(size_t count, size_t size);
void *__real_qn_realloc(void *block, size_t size);
void *__wrap_qn_alloc(size_t size);
void *__wrap_qn_alloc_zero(size_t count, size_t size);
void *__wrap_qn_realloc(void *block, size_t size);

_Atomic long test_alloc_until_failure;
bool test_alloc_for_good;

static bool fails_now(void)
{
    long left = atomic_load(&test_alloc_until_failure);
    if (left == 0) {
        return false;
    }
    if (left == 1) {
        atomic_store(&test_alloc_until_failure, test_alloc_for_good ? 1 : -1);
        return true;
    }
    if (left > 1) {
        atomic_store(&test_alloc_until_failure, left - 1);
    }
    return false;
}

void *__wrap_qn_alloc(size_t size)
{
    return fails_now() ? NULL : __real_qn_alloc(size);
}

void *__wrap_qn_alloc_zero(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_qn_alloc_zero(count, size);
}

void *__wrap_qn_realloc(void *block, size_t size)
{
    return fails_now() ? NULL : __real_qn_realloc(block, size);
}
