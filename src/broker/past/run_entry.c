/* SPDX-License-Identifier: MIT */
/* run_entry.c - the entry of a run whose outcome is known. The worker is this process. */
#include "broker/past/run_entry.h"

#include <unistd.h>

static bool is_kept_again(const struct qn_outcome *outcome)
{
    return outcome->run->task.retention_ms > 0 && outcome->run->cause != QUERN_CAUSE_NONE;
}

/* 0: it is not noted. */
static quern_run_end end_of(const struct qn_outcome *outcome)
{
    switch (outcome->kind) {
    case QN_DONE:
        return is_kept_again(outcome) ? QUERN_RUN_DONE : 0;
    case QN_RETRY:
        return QUERN_RUN_FAILED;
    case QN_SNOOZE:
        return outcome->started ? QUERN_RUN_SNOOZED : 0;
    case QN_ARCHIVE:
        return outcome->started ? QUERN_RUN_ARCHIVED : 0;
    case QN_CANCEL:
        return outcome->started ? QUERN_RUN_CANCELLED : 0;
    case QN_GIVE_BACK:
        return outcome->started ? QUERN_RUN_GIVEN_BACK : 0;
    case QN_CRASH:
        return outcome->started ? QUERN_RUN_CHILD_DIED : 0;
    case QN_DROP:
    case QN_ASIDE:
    case QN_ENDED:
        return 0;
    }
    return 0;
}

bool qn_run_entry_is_due(const struct qn_outcome *outcome)
{
    return end_of(outcome) != 0;
}

size_t qn_run_entry_write(const struct qn_outcome *outcome, struct qn_run_reporter *reporter,
                          qn_past_run_text out)
{
    quern_run_end end = end_of(outcome);
    out[0] = '\0';
    if (end == 0) {
        return 0;
    }
    if (reporter->worker_size == 0) {
        reporter->worker_size = qn_past_run_worker(reporter->host, (int64_t)getpid(),
                                                   reporter->worker_id, reporter->worker);
    }
    const struct qn_past_run run = {
        .end = end,
        .cause = outcome->run->cause,
        .took_ms = outcome->started ? outcome->lived_ms : -1,
        .ago_ms = outcome->ago_ms,
        .facts = outcome->facts != NULL ? *outcome->facts : (struct qn_run_facts){.known = false},
        .worker = {reporter->worker, reporter->worker_size},
        .error = outcome->error,
    };
    return qn_past_run_write(&run, out);
}
