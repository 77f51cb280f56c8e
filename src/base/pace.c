/* SPDX-License-Identifier: MIT */
/* pace.c - the limits of pauses; see pace.h. */
#include "base/pace.h"

#include "base/bug.h"
#include "base/error.h"

#define DOUBLINGS_MAX 30 /* of a day, without overflow */

static quern_status check_ms(const char *name, int64_t ms, quern_error *err)
{
    return ms >= 0 && ms <= QN_PACE_MS_MAX
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_INVALID, "%s is %lld, not 0 to %lld (a day)", name,
                              (long long)ms, (long long)QN_PACE_MS_MAX);
}

quern_status qn_pace_check(const struct qn_pace *pace, quern_error *err)
{
    quern_status status = check_ms("interval_start_ms", pace->start_ms, err);
    if (status == QUERN_OK) {
        status = check_ms("interval_step_ms", pace->step_ms, err);
    }
    if (status == QUERN_OK) {
        status = check_ms("interval_max_ms", pace->max_ms, err);
    }
    if (status == QUERN_OK && pace->max_ms != 0 && pace->max_ms < pace->start_ms) {
        status = qn_error_set(err, QUERN_E_INVALID,
                              "interval_max_ms is %lld, less than interval_start_ms, %lld",
                              (long long)pace->max_ms, (long long)pace->start_ms);
    }
    if (status == QUERN_OK && pace->retries_max > QN_PACE_RETRIES_MAX) {
        status = qn_error_set(err, QUERN_E_INVALID, "max_retries is %u, not 0 to %lld",
                              pace->retries_max, (long long)QN_PACE_RETRIES_MAX);
    }
    return status;
}

struct qn_pace qn_pace_or(const struct qn_pace *first, const struct qn_pace *second)
{
    return (struct qn_pace){
        .start_ms = first->start_ms != 0 ? first->start_ms : second->start_ms,
        .step_ms = first->step_ms != 0 ? first->step_ms : second->step_ms,
        .max_ms = first->max_ms != 0 ? first->max_ms : second->max_ms,
        .retries_max = first->retries_max != 0 ? first->retries_max : second->retries_max,
    };
}

bool qn_pace_has_pauses(const struct qn_pace *pace)
{
    return pace->start_ms != 0 || pace->step_ms != 0 || pace->max_ms != 0;
}

int64_t qn_pace_next_ms(const struct qn_pace *pace, uint32_t failures, struct qn_random *random)
{
    int64_t start_ms = pace->start_ms != 0 ? pace->start_ms : QN_PACE_START_MS;
    int64_t max_ms = pace->max_ms != 0 ? pace->max_ms : QN_PACE_LIMIT_MS;
    int64_t limit_ms = start_ms;
    if (pace->max_ms == 0 && max_ms < start_ms) {
        max_ms = start_ms;
    }
    if (pace->step_ms != 0) {
        limit_ms += (int64_t)failures * pace->step_ms;
    } else {
        limit_ms <<= failures < DOUBLINGS_MAX ? failures : DOUBLINGS_MAX;
    }
    limit_ms = limit_ms < max_ms ? limit_ms : max_ms;
    if (QN_BUG(NO_PAUSE)) {
        return 1;
    }
    return 1 + (int64_t)qn_random_below(random, (uint64_t)limit_ms);
}

bool qn_pace_ends(const struct qn_pace *pace, uint32_t failures)
{
    return pace->retries_max != 0 && failures > pace->retries_max;
}
