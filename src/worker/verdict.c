/* SPDX-License-Identifier: MIT */
/* verdict.c - from what a handler returned, or why it was stopped, to the outcome for the broker.
 *
 * Not cancelled: the handler's own outcome. Cancelled: a handler that still came to an end of its
 * own (done, dropped, archived) is believed; one that gave up is judged by who cancelled it:
 *
 *   timeout, deadline    retry, "deadline exceeded"
 *   operator: retry      retry, "cancelled"
 *   operator: archive    archived, "cancelled"
 *   shutdown             given back, no retry used
 *   lease lost           nothing is offered; only done is (the broker may salvage it)
 *
 * No I/O. The only call out is the user's retry_delay_ms. */
#include "task/retry.h"
#include "worker/internal.h"

enum { SNOOZE_MS = 1000 };

/* The handler's word for this run, else the task's policy, else what the handler was registered
 * with, else the worker's, else asynq's. */
static int64_t retry_delay_ms(struct quern_worker *worker, const struct quern_run *run)
{
    const struct qn_leased *leased = run->leased;
    const struct qn_mux_entry *entry = qn_mux_find(worker->mux, leased->task.type);
    if (run->again_in_ms >= 0) {
        return run->again_in_ms;
    }
    if (leased->task.retry.kind == QUERN_RETRY_DEFAULT && entry != NULL &&
        entry->options.retry_delay_ms != NULL) {
        int64_t delay_ms =
            entry->options.retry_delay_ms(leased->retry_count, &run->view, entry->user);
        return delay_ms < 0 ? 0 : delay_ms < QN_DURATION_MS_MAX ? delay_ms : QN_DURATION_MS_MAX;
    }
    static const quern_retry_policy silent = {.kind = QUERN_RETRY_DEFAULT};
    quern_retry_policy policy = qn_retry_policy_resolve(
        &leased->task.retry, entry != NULL ? &entry->options.retry : &silent,
        &worker->options.retry);
    (void)pthread_mutex_lock(&worker->mutex);
    int64_t delay_ms = qn_retry_delay_ms(&policy, leased->retry_count, &worker->random);
    (void)pthread_mutex_unlock(&worker->mutex);
    return delay_ms;
}

static const char *or_else(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

static void judge_outcome(struct quern_worker *worker, const struct quern_run *run,
                          struct qn_verdict *verdict)
{
    verdict->error = run->error;
    switch (run->outcome) {
    case QUERN_DONE:
        verdict->kind = QN_DONE;
        break;
    case QUERN_DROP:
        verdict->kind = QN_DROP;
        break;
    case QUERN_ARCHIVE:
        verdict->kind = QN_ARCHIVE;
        verdict->error = or_else(run->error, "archived by its handler, which gave no reason");
        break;
    case QUERN_SNOOZE:
        verdict->kind = QN_SNOOZE;
        verdict->delay_ms = run->again_in_ms >= 0 ? run->again_in_ms : SNOOZE_MS;
        break;
    case QN_OUTCOME_CRASHED:
        verdict->kind = QN_CRASH;
        verdict->cause = QUERN_CAUSE_CHILD_DIED;
        verdict->outcome = QUERN_RETRY;
        break;
    default: /* qn_run_execute lets nothing else through than QUERN_RETRY */
        verdict->kind = QN_RETRY;
        verdict->error = or_else(run->error, "failed; its handler gave no reason");
        verdict->delay_ms = retry_delay_ms(worker, run);
        break;
    }
}

static bool is_final(int outcome)
{
    return outcome == QUERN_DONE || outcome == QUERN_DROP || outcome == QUERN_ARCHIVE;
}

void qn_verdict_judge(struct quern_worker *worker, const struct quern_run *run,
                      struct qn_verdict *ret_verdict)
{
    enum qn_cancel_reason reason = qn_run_cancel_reason(run);
    if (reason == QN_REASON_NONE || is_final(run->outcome)) {
        *ret_verdict = (struct qn_verdict){.offered = true, .outcome = run->outcome};
        judge_outcome(worker, run, ret_verdict);
    } else {
        qn_verdict_interrupt(worker, run, reason, ret_verdict);
    }
}

/* The delay is not the handler's to say here: it may still be running. */
static int64_t interrupted_delay_ms(struct quern_worker *worker, const struct quern_run *run)
{
    static const quern_retry_policy silent = {.kind = QUERN_RETRY_DEFAULT};
    const struct qn_mux_entry *entry = qn_mux_find(worker->mux, run->leased->task.type);
    quern_retry_policy policy = qn_retry_policy_resolve(
        &run->leased->task.retry, entry != NULL ? &entry->options.retry : &silent,
        &worker->options.retry);
    struct qn_random random;
    qn_random_init(
        &random); /* rare, and the caller may hold the mutex that guards the shared one */
    return qn_retry_delay_ms(&policy, run->leased->retry_count, &random);
}

void qn_verdict_interrupt(struct quern_worker *worker, const struct quern_run *run,
                          enum qn_cancel_reason reason, struct qn_verdict *ret_verdict)
{
    struct qn_verdict verdict = {.offered = true, .outcome = QUERN_RETRY};
    switch (reason) {
    case QN_REASON_TIMEOUT:
    case QN_REASON_DEADLINE:
        verdict.kind = QN_RETRY;
        verdict.error = "deadline exceeded";
        verdict.delay_ms = interrupted_delay_ms(worker, run);
        break;
    case QN_REASON_OPERATOR_RETRY:
        verdict.kind = QN_RETRY;
        verdict.error = "cancelled";
        verdict.delay_ms = interrupted_delay_ms(worker, run);
        break;
    case QN_REASON_OPERATOR_ARCHIVE:
        verdict.kind = QN_CANCEL;
        verdict.error = "cancelled";
        verdict.outcome = QUERN_ARCHIVE;
        break;
    case QN_REASON_LEASE_LOST:
        verdict.offered = false;
        verdict.refused = true;
        verdict.kind = QN_GIVE_BACK;
        break;
    case QN_REASON_NONE:
    case QN_REASON_SHUTDOWN:
        verdict.kind = QN_GIVE_BACK;
        verdict.cause = QUERN_CAUSE_GIVEN_BACK;
        break;
    }
    *ret_verdict = verdict;
}
