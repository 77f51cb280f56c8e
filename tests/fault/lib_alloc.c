/* SPDX-License-Identifier: MIT */
/* lib_alloc.c - replaces the functions of base/memory/alloc.c for the library, and counts down. */
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

/* Exact even when several threads allocate at the same time. */
static bool fails_now(void)
{
    long left = atomic_load(&test_alloc_until_failure);
    for (;;) {
        if (left <= 0) {
            return false;
        }
        if (left == 1 && test_alloc_for_good) {
            return true;
        }
        long next = left == 1 ? -1 : left - 1;
        if (atomic_compare_exchange_weak(&test_alloc_until_failure, &left, next)) {
            return next == -1;
        }
    }
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
