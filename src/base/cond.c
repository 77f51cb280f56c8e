/* SPDX-License-Identifier: MIT */
/* cond.c - conditions on the clock that never jumps. On Linux none of these calls can fail for lack
 * of a resource: the assertions here check that they were called correctly. */
#include "base/cond.h"

#include <errno.h>
#include <time.h>

#include "base/assert.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#define NS_PER_S INT64_C(1000000000)

static struct timespec moment_of(int64_t mono_ns)
{
    int64_t at_ns = mono_ns > 0 ? mono_ns : 0;
    return (struct timespec){.tv_sec = (time_t)(at_ns / NS_PER_S),
                             .tv_nsec = (long)(at_ns % NS_PER_S)};
}

void qn_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    int code = pthread_condattr_init(&attributes);
    QN_ASSERT(code == 0);
    code = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    QN_ASSERT(code == 0);
    code = pthread_cond_init(cond, &attributes);
    QN_ASSERT(code == 0);
    (void)pthread_condattr_destroy(&attributes);
}

bool qn_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_mono_ns)
{
    const struct timespec until = moment_of(until_mono_ns);
    return pthread_cond_timedwait(cond, mutex, &until) != ETIMEDOUT;
}

#if defined(__SANITIZE_THREAD__)
/* The sanitizer of GCC 12 does not know this call. */
bool qn_cond_lock_until(pthread_mutex_t *mutex, int64_t until_mono_ns)
{
    const struct timespec until = moment_of(until_mono_ns);
    __tsan_mutex_pre_lock(mutex, __tsan_mutex_try_lock);
    bool locked = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until) == 0;
    unsigned failed = locked ? 0 : __tsan_mutex_try_lock_failed;
    __tsan_mutex_post_lock(mutex, __tsan_mutex_try_lock | failed, 0);
    return locked;
}
#else
bool qn_cond_lock_until(pthread_mutex_t *mutex, int64_t until_mono_ns)
{
    const struct timespec until = moment_of(until_mono_ns);
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until) == 0;
}
#endif
