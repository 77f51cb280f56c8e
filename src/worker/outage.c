/* SPDX-License-Identifier: MIT */
/* outage.c - backoff and the two log lines of an outage; see outage.h. */
#include "worker/outage.h"

#include "base/clock.h"

#define NS_PER_MS INT64_C(1000000)
enum { BACKOFF_MS_MIN = 50, BACKOFF_MS_MAX = 5000, DOUBLINGS_MAX = 7 };

void qn_outage_init(struct qn_outage *outage)
{
    *outage = (struct qn_outage){0};
    qn_random_init(&outage->random);
}

void qn_outage_fail(struct qn_outage *outage, struct qn_log *log, const char *who,
                    const quern_error *error)
{
    int64_t now = qn_clock_mono_ns();
    if (outage->since_mono_ns == 0) {
        outage->since_mono_ns = now;
        QN_LOG(log, QUERN_LOG_ERROR, "broker does not answer", QN_LOG_TEXT("by", who),
               QN_LOG_TEXT("status", quern_status_name(error->code)),
               QN_LOG_TEXT("error", error->text));
    }
    uint32_t doublings = outage->failures < DOUBLINGS_MAX ? outage->failures : DOUBLINGS_MAX;
    uint64_t cap_ms = (uint64_t)BACKOFF_MS_MIN << doublings;
    cap_ms = cap_ms < BACKOFF_MS_MAX ? cap_ms : BACKOFF_MS_MAX;
    int64_t delay_ms = 1 + (int64_t)qn_random_below(&outage->random, cap_ms);
    outage->failures++;
    outage->retry_at_mono_ns = now + delay_ms * NS_PER_MS;
}

void qn_outage_end(struct qn_outage *outage, struct qn_log *log, const char *who)
{
    if (outage->since_mono_ns == 0) {
        return;
    }
    int64_t after_ms = (qn_clock_mono_ns() - outage->since_mono_ns) / NS_PER_MS;
    QN_LOG(log, QUERN_LOG_INFO, "broker answers again", QN_LOG_TEXT("by", who),
           QN_LOG_NUMBER("after_ms", after_ms), QN_LOG_NUMBER("failures", outage->failures));
    outage->since_mono_ns = 0;
    outage->retry_at_mono_ns = 0;
    outage->failures = 0;
}
