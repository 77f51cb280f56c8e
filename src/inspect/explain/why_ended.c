/* SPDX-License-Identifier: MIT */
/* why_ended.c - what became of a task that is completed or archived.
 *
 * The error and the counts say most; the last run, where quern's workers ended it, says whether its
 * handler or its options archived it. An archived task whose last failure is not dated as its place
 * in the archive was put there by hand. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/moment.h"
#include "base/text/str.h"
#include "inspect/explain/case.h"

#define SAME_MOMENT_MS 1000 /* Go dates to the second */
#define ERROR_SHOWN 300

static quern_why why_of_failure(const quern_task_info *info)
{
    const quern_past_run *run = quern_task_info_run_at(info, 0);
    const char *error = quern_task_info_error(info);
    bool is_spent = quern_task_info_retry_count(info) >= quern_task_info_retry_max(info);
    int32_t end = run != NULL ? run->end : 0;
    if (qn_str_starts_with(error, "poison: ")) {
        return QUERN_WHY_POISON;
    }
    if (qn_str_starts_with(error, "no attempts left: ")) {
        return QUERN_WHY_SPENT;
    }
    if (qn_str_starts_with(error, "expired: ")) {
        return QUERN_WHY_EXPIRED;
    }
    if (qn_str_starts_with(error, "deadline exceeded")) {
        return QUERN_WHY_DEADLINE;
    }
    if (end == QUERN_RUN_CANCELLED) {
        return QUERN_WHY_CANCELLED;
    }
    if (qn_str_starts_with(error, "timeout of ")) {
        return QUERN_WHY_TIMEOUT;
    }
    return end == QUERN_RUN_ARCHIVED || !is_spent ? QUERN_WHY_BY_HANDLER : QUERN_WHY_SPENT;
}

static quern_why why_archived(const quern_task_info *info)
{
    int64_t apart_ms = quern_task_info_archived_at_ms(info) - quern_task_info_failed_at_ms(info);
    if (quern_task_info_type(info)[0] == '\0' ||
        qn_str_starts_with(quern_task_info_error(info), "cannot be used: ")) {
        return QUERN_WHY_DAMAGED;
    }
    if (quern_task_info_failed_at_ms(info) == 0 || llabs((long long)apart_ms) > SAME_MOMENT_MS) {
        return QUERN_WHY_BY_OPERATOR;
    }
    return why_of_failure(info);
}

static const char *words_of(quern_why why, const quern_task_info *info)
{
    switch ((int)why) {
    case QUERN_WHY_DAMAGED:
        return "its message cannot be used";
    case QUERN_WHY_BY_OPERATOR:
        return "it was archived by hand";
    case QUERN_WHY_POISON:
        return "it was archived, as the processes that ran it died";
    case QUERN_WHY_EXPIRED:
        return "it was archived, as it had not started in time";
    case QUERN_WHY_DEADLINE:
        return "it was archived, as its deadline was over";
    case QUERN_WHY_CANCELLED:
        return "it was cancelled by hand, and archived";
    case QUERN_WHY_TIMEOUT:
        return "it was archived, as its last attempt took too long";
    case QUERN_WHY_BY_HANDLER:
        return "its handler, or the options of that, archived it";
    default:
        return quern_task_info_retry_max(info) < 0 ? "it was archived after its only attempt"
                                                   : "it was archived, its attempts are used up";
    }
}

void qn_why_ended_archived(struct qn_case *one)
{
    const quern_task_info *info = one->info;
    char at[64];
    quern_why why = why_archived(info);
    struct qn_reason *reason = qn_reasons_add(one->reasons, why, false);
    const char *error = quern_task_info_error(info);
    size_t size = strcspn(error, "\n");
    qn_moment_format(quern_task_info_archived_at_ms(info), at, sizeof at);
    (void)snprintf(reason->because, sizeof reason->because, "%s, at %s%s%.*s", words_of(why, info),
                   at, size > 0 ? ": " : "", (int)(size < ERROR_SHOWN ? size : ERROR_SHOWN), error);
    (void)snprintf(reason->advice, sizeof reason->advice,
                   why == QUERN_WHY_DAMAGED ? "delete it: quern task delete %.256s"
                                            : "run it once more: quern task run %.256s",
                   quern_task_info_id(info));
}

void qn_why_ended_completed(struct qn_case *one)
{
    const quern_task_info *info = one->info;
    char at[64];
    char until[64];
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_COMPLETED, false);
    reason->until_at_ms = quern_task_info_expires_at_ms(info);
    qn_moment_format(quern_task_info_completed_at_ms(info), at, sizeof at);
    qn_moment_format(reason->until_at_ms, until, sizeof until);
    (void)snprintf(reason->because, sizeof reason->because,
                   "it was completed at %s, and is kept with its result until %s", at, until);
}
