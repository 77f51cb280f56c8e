/* SPDX-License-Identifier: MIT */
/* retry.c - how long a failed task waits.
 *
 * All sums stay far below the limits of int64_t: retry counts are cut where the delay has long
 * passed its own limit, QN_DURATION_MS_MAX. */
#include "task/retry.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text/number.h"
#include "task/limits.h"

#define ASYNQ_COUNT_MAX 1000 /* 1000^4 seconds is 31 000 years */
#define EXPONENT_MAX 50      /* 2^50 ms is 35 000 years */
#define DEFAULT_BASE_MS 1000
#define DEFAULT_CAP_MS (3600 * INT64_C(1000))

static int64_t asynq_delay_ms(int64_t retry_count, struct qn_random *random)
{
    int64_t n = retry_count > ASYNQ_COUNT_MAX ? ASYNQ_COUNT_MAX : retry_count;
    int64_t jitter = (int64_t)qn_random_below(random, 30) * (n + 1);
    int64_t delay_ms = (n * n * n * n + 15 + jitter) * 1000;
    return delay_ms > QN_DURATION_MS_MAX ? QN_DURATION_MS_MAX : delay_ms;
}

static int64_t exponential_delay_ms(const quern_retry_policy *policy, int64_t retry_count,
                                    struct qn_random *random)
{
    int64_t exponent = retry_count > EXPONENT_MAX ? EXPONENT_MAX : retry_count;
    int64_t bound_ms = policy->cap_ms;
    /* base * 2^n <= cap, computed without overflow. */
    if (policy->base_ms <= policy->cap_ms >> exponent) {
        bound_ms = policy->base_ms << exponent;
    }
    return (int64_t)qn_random_below(random, (uint64_t)bound_ms + 1);
}

int64_t qn_retry_delay_ms(const quern_retry_policy *policy, int64_t retry_count,
                          struct qn_random *random)
{
    if (retry_count < 0) {
        retry_count = 0;
    }
    quern_retry_policy whole = qn_retry_policy_resolve(policy, NULL, NULL);
    switch ((enum qn_backoff_kind)whole.kind) {
    case QN_BACKOFF_ASYNQ:
        return asynq_delay_ms(retry_count, random);
    case QN_BACKOFF_FIXED:
        return whole.base_ms;
    case QN_BACKOFF_EXPONENTIAL:
        return exponential_delay_ms(&whole, retry_count, random);
    case QN_BACKOFF_DEFAULT:
        break;
    }
    QN_ASSERT(!"a retry policy of unknown kind");
    return 0;
}

static quern_status check_kind(const quern_retry_policy *policy, quern_error *err)
{
    switch ((enum qn_backoff_kind)policy->kind) {
    case QN_BACKOFF_DEFAULT:
    case QN_BACKOFF_ASYNQ:
        if (policy->base_ms != 0 || policy->cap_ms != 0) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "retry: base_ms and cap_ms are for the kinds fixed and "
                                "exponential, but kind is %" PRId32,
                                policy->kind);
        }
        return QUERN_OK;
    case QN_BACKOFF_FIXED:
        if (policy->cap_ms != 0) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "retry: cap_ms is for the kind exponential only");
        }
        return QUERN_OK;
    case QN_BACKOFF_EXPONENTIAL:
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_INVALID, "retry: kind %" PRId32 " is unknown", policy->kind);
}

quern_status qn_retry_policy_check(const quern_retry_policy *policy, quern_error *err)
{
    quern_status status = check_kind(policy, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (policy->reserved != 0) {
        return qn_error_set(err, QUERN_E_INVALID, "retry: reserved must be 0");
    }
    const struct {
        const char *name;
        int64_t ms;
    } times[] = {{"base_ms", policy->base_ms}, {"cap_ms", policy->cap_ms}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (times[i].ms < 0 || times[i].ms > QN_DURATION_MS_MAX) {
            return qn_error_set(err, QUERN_E_INVALID,
                                "retry: %s must be from 0 to 100 years, not %" PRId64,
                                times[i].name, times[i].ms);
        }
    }
    quern_retry_policy whole = qn_retry_policy_resolve(policy, NULL, NULL);
    if (whole.kind == QN_BACKOFF_EXPONENTIAL && whole.cap_ms < whole.base_ms) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "retry: cap_ms (%" PRId64 ") must not be below base_ms (%" PRId64 ")",
                            whole.cap_ms, whole.base_ms);
    }
    return QUERN_OK;
}

static bool is_given(const quern_retry_policy *policy)
{
    return policy != NULL && policy->kind != QN_BACKOFF_DEFAULT;
}

quern_retry_policy qn_retry_policy_resolve(const quern_retry_policy *task,
                                           const quern_retry_policy *handler,
                                           const quern_retry_policy *worker)
{
    quern_retry_policy policy = {.kind = QN_BACKOFF_ASYNQ};
    if (is_given(task)) {
        policy = *task;
    } else if (is_given(handler)) {
        policy = *handler;
    } else if (is_given(worker)) {
        policy = *worker;
    }
    bool has_base = policy.kind == QN_BACKOFF_FIXED || policy.kind == QN_BACKOFF_EXPONENTIAL;
    if (has_base && policy.base_ms == 0) {
        policy.base_ms = DEFAULT_BASE_MS;
    }
    if (policy.kind == QN_BACKOFF_EXPONENTIAL && policy.cap_ms == 0) {
        policy.cap_ms = DEFAULT_CAP_MS;
    }
    return policy;
}
