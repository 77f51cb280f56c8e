/* SPDX-License-Identifier: MIT */
/* lib_alloc.h - lets memory run out at a chosen allocation.
 *
 * The linker puts our functions in place of the library's door to the heap (tests/CMakeLists.txt:
 * --wrap), so SQLite's and OpenSSL's own memory is not meant here. */
#ifndef TESTS_FAULT_LIB_ALLOC_H
#define TESTS_FAULT_LIB_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>

/* Allocations until the one that fails, and with `for_good` all after it; 0: none fails; -1: it has
 * failed. */
extern _Atomic long test_alloc_until_failure;
extern bool test_alloc_for_good;

#endif
