/* SPDX-License-Identifier: MIT */
/* thread.h - starting a thread of the library. */
#ifndef QN_BASE_THREAD_H
#define QN_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "quern/status.h"

/* Starts a joinable thread that blocks every signal which can be sent to a process, so that the
 * program's own threads get them. The faults of the thread itself (SIGSEGV and the like) stay
 * open: they must reach the program's crash handler. `name` is shown by ps, 15 bytes at most. */
QUERN_NODISCARD quern_status qn_thread_start(pthread_t *ret_thread, const char *name,
                                             void *(*entry)(void *), void *argument,
                                             quern_error *err);
/* The same with a stack of 256 KiB, for threads that each client has. False: there are no more
 * threads, and the caller can do without. */
QUERN_NODISCARD bool qn_thread_start_small(pthread_t *ret_thread, const char *name,
                                           void *(*entry)(void *), void *argument);

#endif
