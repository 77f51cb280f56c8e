/* SPDX-License-Identifier: MIT */
/* reasons.c - the reasons of an explanation, and their names. */
#include "inspect/explain/reasons.h"

#include <stdio.h>
#include <string.h>

#define HOLDERS_MAX 3

static const char *const names[] = {
    [QUERN_WHY_DISK_FULL] = "disk-full",
    [QUERN_WHY_PAUSED] = "paused",
    [QUERN_WHY_NO_WORKER] = "no-worker",
    [QUERN_WHY_NO_HANDLER] = "no-handler",
    [QUERN_WHY_WORKERS_QUIET] = "workers-quiet",
    [QUERN_WHY_WORKERS_STOP] = "workers-stop",
    [QUERN_WHY_WORKERS_STUCK] = "workers-stuck",
    [QUERN_WHY_WORKERS_STALLED] = "workers-stalled",
    [QUERN_WHY_BRAKED] = "braked",
    [QUERN_WHY_MEMORY_FULL] = "memory-full",
    [QUERN_WHY_SCHEDULED] = "scheduled",
    [QUERN_WHY_RETRY] = "retry",
    [QUERN_WHY_SNOOZED] = "snoozed",
    [QUERN_WHY_AFTER_DEATH] = "after-death",
    [QUERN_WHY_LIMIT_RUNS] = "limit-runs",
    [QUERN_WHY_LIMIT_STARTS] = "limit-starts",
    [QUERN_WHY_SEMAPHORE] = "semaphore",
    [QUERN_WHY_LIMIT_MAYBE] = "limit-maybe",
    [QUERN_WHY_SOLO] = "solo",
    [QUERN_WHY_ISOLATED] = "isolated",
    [QUERN_WHY_BUSY] = "busy",
    [QUERN_WHY_TURN] = "turn",
    [QUERN_WHY_IN_LINE] = "in-line",
    [QUERN_WHY_NEXT] = "next",
    [QUERN_WHY_GROUP] = "group",
    [QUERN_WHY_SET] = "set",
    [QUERN_WHY_RUNNING] = "running",
    [QUERN_WHY_CANCELLING] = "cancelling",
    [QUERN_WHY_WORKER_DEAD] = "worker-dead",
    [QUERN_WHY_WORKER_SILENT] = "worker-silent",
    [QUERN_WHY_LEASE_OVER] = "lease-over",
    [QUERN_WHY_COMPLETED] = "completed",
    [QUERN_WHY_SPENT] = "spent",
    [QUERN_WHY_POISON] = "poison",
    [QUERN_WHY_BY_HANDLER] = "by-handler",
    [QUERN_WHY_CANCELLED] = "cancelled",
    [QUERN_WHY_DEADLINE] = "deadline",
    [QUERN_WHY_EXPIRED] = "expired",
    [QUERN_WHY_TIMEOUT] = "timeout",
    [QUERN_WHY_BY_OPERATOR] = "by-operator",
    [QUERN_WHY_DAMAGED] = "damaged",
    [QUERN_WHY_LOCK_OF_OTHER] = "lock-of-other",
};

const char *quern_why_name(quern_why why)
{
    size_t count = sizeof names / sizeof names[0];
    return (size_t)why < count ? names[why] : NULL;
}

struct qn_reason *qn_reasons_add(struct qn_reasons *reasons, quern_why why, bool holds_up)
{
    reasons->count += reasons->count < QN_REASONS_MAX ? 1 : 0;
    struct qn_reason *reason = &reasons->items[reasons->count - 1];
    reason->why = why;
    reason->holds_up = holds_up;
    reason->until_at_ms = 0;
    reason->ahead = -1;
    reason->because[0] = '\0';
    reason->advice[0] = '\0';
    reason->holder[0] = '\0';
    return reason;
}

void qn_reasons_add_holder(struct qn_reason *reason, const char *text)
{
    size_t used = strlen(reason->holder);
    size_t named = 0;
    for (const char *at = reason->holder; at != NULL && *at != '\0';) {
        const char *next = strstr(at, ", ");
        named++;
        at = next != NULL ? next + 2 : NULL;
    }
    if (named < HOLDERS_MAX) {
        (void)snprintf(reason->holder + used, sizeof reason->holder - used, "%s%.300s",
                       used > 0 ? ", " : "", text);
    }
}
