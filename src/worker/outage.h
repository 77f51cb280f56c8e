/* SPDX-License-Identifier: MIT */
/* outage.h - what a thread of the worker does while the broker does not answer: one line in the
 * log when it begins, one when it is over, and backoff with full jitter (50 ms to 5 s) between the
 * attempts. One thread at a time. */
#ifndef QN_WORKER_OUTAGE_H
#define QN_WORKER_OUTAGE_H

#include <stdint.h>

#include "base/log.h"
#include "base/random.h"

/* A zeroed struct with an initialised random is no outage. */
struct qn_outage {
    struct qn_random random;
    int64_t since_mono_ns; /* 0: none */
    int64_t retry_at_mono_ns;
    uint32_t failures;
};

void qn_outage_init(struct qn_outage *outage);
/* A call failed: sets retry_at_mono_ns. */
void qn_outage_fail(struct qn_outage *outage, struct qn_log *log, const char *who,
                    const quern_error *error);
/* A call worked. */
void qn_outage_end(struct qn_outage *outage, struct qn_log *log, const char *who);

#endif
