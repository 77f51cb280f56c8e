/* SPDX-License-Identifier: MIT */
/* cond.h - conditions and mutexes that are waited for until a moment of CLOCK_MONOTONIC. That clock
 * never jumps. */
#ifndef QN_BASE_COND_H
#define QN_BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Ended by pthread_cond_destroy. */
void qn_cond_init(pthread_cond_t *cond);
/* As pthread_cond_wait, with the mutex held, but at most until that moment; false when it has
 * passed. It may also return early without a reason: check the condition again. */
bool qn_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_mono_ns);
/* As pthread_mutex_lock, but at most until that moment; false when it has passed. */
bool qn_cond_lock_until(pthread_mutex_t *mutex, int64_t until_mono_ns);

#endif
