/* SPDX-License-Identifier: MIT */
/* retry.h - how long a failed task waits. Pure. */
#ifndef QN_TASK_RETRY_H
#define QN_TASK_RETRY_H

#include "base/random.h"
#include "quern/task.h"

#define QN_RETRY_MAX_DEFAULT 25 /* as asynq */

/* The kinds of a quern_retry_policy, as the QUERN_BACKOFF_* set and brokers store them. */
enum qn_backoff_kind {
    QN_BACKOFF_DEFAULT = 0,
    QN_BACKOFF_ASYNQ = 1,
    QN_BACKOFF_FIXED = 2,
    QN_BACKOFF_EXPONENTIAL = 3
};

/* The delay in ms before the next attempt, after retry_count retries so far (0 for the first
 * failure). policy->kind must not be QN_BACKOFF_DEFAULT. Never negative, never overflows. */
int64_t qn_retry_delay_ms(const quern_retry_policy *policy, int64_t retry_count,
                          struct qn_random *random);
/* QUERN_E_INVALID: unknown kind, negative times, cap below base. */
QUERN_NODISCARD quern_status qn_retry_policy_check(const quern_retry_policy *policy,
                                                   quern_error *err);
/* The first of the three that is set; asynq's if none is. Defaults filled in. */
quern_retry_policy qn_retry_policy_resolve(const quern_retry_policy *task,
                                           const quern_retry_policy *handler,
                                           const quern_retry_policy *worker);

#endif
