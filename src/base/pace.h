/* SPDX-License-Identifier: MIT */
/* pace.h - how long to pause between attempts that fail, and how many there may be.
 *
 * Each pause is a random time up to a limit (full jitter), so that many processes which lost one
 * server do not all come back to it at the same moment. */
#ifndef QN_BASE_PACE_H
#define QN_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "quern/status.h"

/* Unless they are given: when a broker is back, each thread uses it within a second. */
#define QN_PACE_START_MS 50
#define QN_PACE_LIMIT_MS 1000
#define QN_PACE_MS_MAX INT64_C(86400000) /* a day */
#define QN_PACE_RETRIES_MAX INT64_C(1000000000)

/* The options interval_start_ms, interval_step_ms, interval_max_ms and max_retries. */
struct qn_pace {
    int64_t start_ms;     /* the limit of the first pause; 0: 50 ms */
    int64_t step_ms;      /* the limit grows by this each time; 0: it doubles */
    int64_t max_ms;       /* up to this; 0: 1 s, or start_ms if that is more */
    uint32_t retries_max; /* attempts after the first one; 0: no limit */
};

/* QUERN_E_INVALID: the text names the option. */
QUERN_NODISCARD quern_status qn_pace_check(const struct qn_pace *pace, quern_error *err);
/* The fields of `first`, and those of `second` where these are 0. */
struct qn_pace qn_pace_or(const struct qn_pace *first, const struct qn_pace *second);
/* Whether pauses are given, not only a number of attempts. */
bool qn_pace_has_pauses(const struct qn_pace *pace);
/* The next pause, at least 1 ms, after `failures` pauses in this row. */
int64_t qn_pace_next_ms(const struct qn_pace *pace, uint32_t failures, struct qn_random *random);
/* Whether that many attempts that failed are all that there may be. */
bool qn_pace_ends(const struct qn_pace *pace, uint32_t failures);

#endif
