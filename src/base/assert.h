/* SPDX-License-Identifier: MIT */
/* assert.h - proofs about our own code, on in release builds too: a broken invariant must stop the
 * process in the frame where it was found, before it can lose a task. Never for bad input. */
#ifndef QN_BASE_ASSERT_H
#define QN_BASE_ASSERT_H

#define QN_ASSERT(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            __builtin_trap();                                                                      \
        }                                                                                          \
    } while (0)

#endif
