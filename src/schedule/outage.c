/* SPDX-License-Identifier: MIT */
/* outage.c - how long to wait after a failure, and the log lines; see outage.h. */
#include "schedule/outage.h"

enum { LOG_AGAIN_MS = 60000 };

void qn_outage_init(struct qn_outage *outage, struct qn_log *log, struct qn_pace pace)
{
    *outage = (struct qn_outage){.log = log, .pace = pace};
    qn_random_init(&outage->random);
}

int64_t qn_outage_fail(struct qn_outage *outage, const quern_error *error, int64_t boot_ms)
{
    if (outage->failures == 0 || boot_ms - outage->logged_at_boot_ms >= LOG_AGAIN_MS) {
        outage->logged_at_boot_ms = boot_ms;
        outage->is_unexplained = error->code == QUERN_E_UNKNOWN;
        QN_LOG(outage->log, QUERN_LOG_WARN, "broker does not answer the scheduler",
               QN_LOG_TEXT("error", error->text));
    } else if (outage->is_unexplained && error->code == QUERN_E_CONNECT) {
        outage->is_unexplained = false;
        QN_LOG(outage->log, QUERN_LOG_WARN, "no connection to the broker",
               QN_LOG_TEXT("error", error->text));
    }
    return qn_pace_next_ms(&outage->pace, outage->failures++, &outage->random);
}

void qn_outage_end(struct qn_outage *outage)
{
    if (outage->failures > 0) {
        QN_LOG(outage->log, QUERN_LOG_INFO, "broker answers the scheduler again",
               QN_LOG_NUMBER("failures", outage->failures));
        outage->failures = 0;
    }
}
