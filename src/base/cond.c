/* SPDX-License-Identifier: MIT */
/* cond.c - conditions on the clock that never jumps. On Linux none of these calls can fail for lack
 * of a resource: the assertions here check that they were called correctly. */
#include "base/cond.h"

#include <errno.h>
#include <time.h>

#include "base/assert.h"

#define NS_PER_S INT64_C(1000000000)

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
    int64_t at_ns = until_mono_ns > 0 ? until_mono_ns : 0;
    const struct timespec until = {.tv_sec = (time_t)(at_ns / NS_PER_S),
                                   .tv_nsec = (long)(at_ns % NS_PER_S)};
    return pthread_cond_timedwait(cond, mutex, &until) != ETIMEDOUT;
}
