/* SPDX-License-Identifier: MIT */
/* verdict.c - maps a handler's return value, or the reason of its cancellation, to an outcome.
 *
 * Not cancelled: the handler's own outcome. Cancelled: an outcome that ends the task (done,
 * dropped, archived) counts all the same; any other is replaced according to the reason of the
 * cancellation:
 *
 *   timeout              retry, "timeout of 700ms"
 *   deadline             retry, "deadline exceeded"
 *   operator: retry      retry, "cancelled"; before its start no attempt is used up
 *   operator: archive    archived, "cancelled"
 *   shutdown             given back, no retry used
 *   lease lost           nothing is offered; only done is (the broker may salvage it)
 *
 * The handler's own error text follows after a colon. No I/O.
 *
 * Then the options of the handler change it: a crash becomes what on_crash says, and a retry (by
 * the handler, the timeout or the deadline, not by an operator) an archived task where the class of
 * the error or ack_on_failure, ack_on_timeout forbid it. The only callbacks are the user's
 * retry_delay_ms and on_error; those of a handler with a child are called there (call.c). */
#include "worker/run/verdict.h"

#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/number.h"
#include "task/retry.h"
#include "worker/internal.h"
#include "worker/run/mux.h"

enum { SNOOZE_MS = 1000 };

/* The task's, else what its handler was registered with, else the worker's, else asynq's. */
static quern_retry_policy policy_of(const struct qn_verdict_rules *rules,
                                    const struct quern_run *run)
{
    const struct qn_mux_entry *entry = run->entry;
    return qn_retry_policy_resolve(&run->leased->task.retry,
                                   entry != NULL ? &entry->options.retry : NULL,
                                   &rules->defaults.retry);
}

/* What its callbacks get: a command has none, its `user` is ours. */
static void *user_of(const struct qn_mux_entry *entry)
{
    return entry->free_user == NULL ? entry->user : NULL;
}

/* With random numbers of its own. */
static int64_t own_delay_ms(const quern_retry_policy *policy, int64_t retry_count)
{
    struct qn_random random;
    qn_random_init(&random);
    return qn_retry_delay_ms(policy, retry_count, &random);
}

/* The delay that the handler requested in this run; else that of its function, if the task has no
 * policy of its own; else that of the policy. */
static int64_t retry_delay_ms(const struct qn_verdict_rules *rules, const struct quern_run *run)
{
    const struct qn_leased *leased = run->leased;
    const struct qn_mux_entry *entry = run->entry;
    int64_t again_ms = qn_run_again_ms(run, qn_clock_wall_ms(rules->clock));
    if (again_ms >= 0) {
        return again_ms;
    }
    if (leased->task.retry.kind == QN_BACKOFF_DEFAULT && entry != NULL && !run->in_child &&
        entry->options.retry_delay_ms != NULL) {
        int64_t delay_ms =
            entry->options.retry_delay_ms(leased->retry_count, &run->view, user_of(entry));
        return delay_ms < 0 ? 0 : delay_ms < QN_DURATION_MS_MAX ? delay_ms : QN_DURATION_MS_MAX;
    }
    quern_retry_policy policy = policy_of(rules, run);
    struct quern_worker *worker = rules->worker;
    if (worker == NULL) {
        return own_delay_ms(&policy, leased->retry_count);
    }
    (void)pthread_mutex_lock(&worker->mutex);
    int64_t delay_ms = qn_retry_delay_ms(&policy, leased->retry_count, &worker->random);
    (void)pthread_mutex_unlock(&worker->mutex);
    return delay_ms;
}

static int64_t snooze_ms(const struct qn_verdict_rules *rules, const struct quern_run *run)
{
    int64_t again_ms = qn_run_again_ms(run, qn_clock_wall_ms(rules->clock));
    return again_ms >= 0 ? again_ms : SNOOZE_MS;
}

static const char *text_or(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

static void judge_outcome(const struct qn_verdict_rules *rules, const struct quern_run *run,
                          struct qn_verdict *verdict)
{
    verdict->error = run->error;
    if (run->not_started || run->orphaned) {
        verdict->kind = QN_GIVE_BACK;
        verdict->cause = QUERN_CAUSE_GIVEN_BACK;
        return;
    }
    switch (run->outcome) {
    case QUERN_DONE:
        verdict->kind = QN_DONE;
        break;
    case QUERN_DROP:
        verdict->kind = QN_DROP;
        break;
    case QUERN_ARCHIVE:
        verdict->kind = QN_ARCHIVE;
        verdict->error = text_or(run->error, "archived by its handler, which gave no reason");
        break;
    case QUERN_SNOOZE:
        verdict->kind = QN_SNOOZE;
        verdict->delay_ms = snooze_ms(rules, run);
        break;
    case QN_OUTCOME_CRASHED:
        verdict->kind = QN_CRASH;
        verdict->cause = QUERN_CAUSE_CHILD_DIED;
        verdict->outcome = QUERN_RETRY;
        break;
    default: /* qn_execute_handler lets nothing else through than QUERN_RETRY */
        verdict->kind = QN_RETRY;
        verdict->error = text_or(run->error, "failed; its handler gave no reason");
        verdict->delay_ms = retry_delay_ms(rules, run);
        break;
    }
}

static bool is_final(int outcome)
{
    return outcome == QUERN_DONE || outcome == QUERN_DROP || outcome == QUERN_ARCHIVE;
}

/* By the policy alone: the handler may still be running. The caller may hold the mutex that guards
 * the random numbers of the worker. */
static int64_t interrupted_delay_ms(const struct qn_verdict_rules *rules,
                                    const struct quern_run *run)
{
    quern_retry_policy policy = policy_of(rules, run);
    return own_delay_ms(&policy, run->leased->retry_count);
}

/* The cause of the cancellation, for the error text; NULL: it has none. */
static const char *interruption(const struct quern_run *run, enum qn_cancel_reason reason,
                                char out[QN_INTERRUPTION_SIZE])
{
    char duration[32];
    switch (reason) {
    case QN_REASON_TIMEOUT:
        qn_duration_format(run->timeout_ms, duration, sizeof duration);
        (void)snprintf(out, QN_INTERRUPTION_SIZE, "timeout of %s", duration);
        return out;
    case QN_REASON_DEADLINE:
        return "deadline exceeded";
    case QN_REASON_OPERATOR_RETRY:
    case QN_REASON_OPERATOR_ARCHIVE:
        return "cancelled";
    case QN_REASON_NONE:
    case QN_REASON_LEASE_LOST:
    case QN_REASON_SHUTDOWN:
        return NULL;
    }
    return NULL;
}

/* The class of the error of a run that was cancelled, if its handler sets none. */
static const char *class_of(enum qn_cancel_reason reason)
{
    switch (reason) {
    case QN_REASON_TIMEOUT:
        return "timeout";
    case QN_REASON_DEADLINE:
        return "deadline";
    case QN_REASON_OPERATOR_RETRY:
    case QN_REASON_OPERATOR_ARCHIVE:
        return "cancelled";
    case QN_REASON_NONE:
    case QN_REASON_LEASE_LOST:
    case QN_REASON_SHUTDOWN:
        return "";
    }
    return "";
}

/* Why a run failed. */
struct failing {
    const char *error_class;
    enum qn_cancel_reason reason;
};

/* Archives what its handler's options do not let be retried. why: see qn_failure_is_final. */
static void make_final(const struct qn_verdict_rules *rules, const struct quern_run *run,
                       struct failing failing, struct qn_verdict *verdict,
                       char why[QN_FAILURE_WHY_SIZE])
{
    why[0] = '\0';
    bool timed_out = failing.reason == QN_REASON_TIMEOUT || failing.reason == QN_REASON_DEADLINE;
    bool asked = failing.reason == QN_REASON_OPERATOR_RETRY;
    if (run->entry == NULL || asked || verdict->kind != QN_RETRY ||
        !qn_failure_is_final(&run->entry->options, &rules->defaults, failing.error_class, timed_out,
                             why)) {
        return;
    }
    verdict->kind = QN_ARCHIVE;
    verdict->outcome = QUERN_ARCHIVE;
    verdict->delay_ms = 0;
}

/* Without the text. */
static struct qn_verdict interrupted(const struct qn_verdict_rules *rules,
                                     const struct quern_run *run, enum qn_cancel_reason reason,
                                     bool started)
{
    struct qn_verdict verdict = {.offered = true, .outcome = QUERN_RETRY};
    switch (reason) {
    case QN_REASON_TIMEOUT:
    case QN_REASON_DEADLINE:
    case QN_REASON_OPERATOR_RETRY:
        verdict.kind = started ? QN_RETRY : QN_SNOOZE;
        verdict.delay_ms = interrupted_delay_ms(rules, run);
        break;
    case QN_REASON_OPERATOR_ARCHIVE:
        verdict.kind = QN_CANCEL;
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
    return verdict;
}

static struct qn_verdict_rules rules_of(struct quern_worker *worker)
{
    return (struct qn_verdict_rules){
        .clock = worker->clock, .defaults = qn_worker_defaults(worker), .worker = worker};
}

void qn_verdict_interrupt(struct quern_worker *worker, struct quern_run *run,
                          enum qn_cancel_reason reason, struct qn_verdict *ret_verdict)
{
    bool started = run->phase != QN_RUN_WAITING;
    const struct qn_verdict_rules rules = rules_of(worker);
    struct qn_verdict verdict = interrupted(&rules, run, reason, started);
    char why[QN_FAILURE_WHY_SIZE]; /* the class says no more than the text: "timeout" */
    make_final(&rules, run, (struct failing){class_of(reason), reason}, &verdict, why);
    verdict.error = interruption(run, reason, run->interruption);
    *ret_verdict = verdict;
}

/* The handler has ended: its own error text follows the cause of the cancellation. Out of memory
 * only its own text is kept. */
static void judge_interrupted(const struct qn_verdict_rules *rules, struct quern_run *run,
                              enum qn_cancel_reason reason, struct qn_verdict *ret_verdict)
{
    char what[QN_INTERRUPTION_SIZE];
    const char *cause = interruption(run, reason, what);
    struct qn_verdict verdict = interrupted(rules, run, reason, !run->not_started);
    if (cause != NULL) {
        char text[QN_ERROR_TEXT_SIZE_MAX + 1];
        int size = snprintf(text, sizeof text, "%s%s%s", cause, run->error != NULL ? ": " : "",
                            run->error != NULL ? run->error : "");
        qn_run_set_error(run, text, size > 0 ? strlen(text) : 0);
        verdict.error = text_or(run->error, "cancelled");
    }
    *ret_verdict = verdict;
}

/* Its process died: what its handler's options say. */
static void judge_crash(const struct qn_verdict_rules *rules, const struct quern_run *run,
                        struct qn_verdict *verdict)
{
    int32_t policy = run->entry != NULL ? run->entry->options.on_crash : QUERN_ON_CRASH_REQUEUE;
    policy = QN_BUG(ON_CRASH_IGNORED) ? QUERN_ON_CRASH_REQUEUE : policy;
    switch ((quern_on_crash)policy) {
    case QUERN_ON_CRASH_REQUEUE:
        return;
    case QUERN_ON_CRASH_FAIL:
        verdict->kind = QN_RETRY;
        verdict->delay_ms = retry_delay_ms(rules, run);
        break;
    case QUERN_ON_CRASH_ARCHIVE:
        verdict->kind = QN_ARCHIVE;
        verdict->outcome = QUERN_ARCHIVE;
        break;
    case QUERN_ON_CRASH_DROP:
        verdict->kind = QN_DROP;
        verdict->outcome = QUERN_DROP;
        break;
    }
    verdict->cause = QUERN_CAUSE_NONE;
    verdict->error = text_or(run->error, "its process died");
}

/* Puts the reason why it is not retried before its error. Out of memory the error stays. */
static void set_why(struct quern_run *run, const char *why, struct qn_verdict *verdict)
{
    if (why[0] == '\0') {
        return;
    }
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    (void)snprintf(text, sizeof text, "%s: %s", why, text_or(verdict->error, ""));
    char *before = run->error;
    run->error = NULL;
    qn_run_set_error(run, text, strlen(text));
    if (run->error == NULL) {
        run->error = before;
        return;
    }
    qn_free(before);
    verdict->error = run->error;
}

/* With the change that its handler has made. */
static int64_t retry_max_of(const struct quern_run *run)
{
    return run->change.has_retry_max ? run->change.retry_max : run->leased->task.retry_max;
}

/* Without mutex. The callback may replace the error text. */
static void call_on_error(struct quern_run *run, struct qn_verdict *verdict)
{
    const struct qn_mux_entry *entry = run->entry;
    bool failed =
        verdict->kind == QN_RETRY || verdict->kind == QN_ARCHIVE || verdict->kind == QN_CANCEL;
    if (!failed || entry == NULL || entry->options.on_error == NULL || run->in_child) {
        return;
    }
    const struct qn_leased *leased = run->leased;
    bool is_final =
        verdict->kind != QN_RETRY || run->acked || leased->retry_count >= retry_max_of(run);
    const quern_failure failure = {
        .error = text_or(verdict->error, ""),
        .error_class = run->error_class,
        .outcome = verdict->outcome,
        .is_final = is_final,
        .delay_ms = is_final ? 0 : verdict->delay_ms,
    };
    bool is_own = verdict->error == run->error;
    entry->options.on_error(run, &run->view, &failure, user_of(entry));
    verdict->error = is_own ? run->error : verdict->error;
}

/* Its child has made the verdict (qn_verdict_judge_by), and called on_error with it. The worker may
 * know of a cancellation that the child did not see. */
static void take_judged(const struct qn_verdict_rules *rules, const struct quern_run *run,
                        enum qn_cancel_reason reason, struct qn_verdict *ret_verdict)
{
    struct qn_verdict verdict = {
        .offered = true, .outcome = run->outcome, .error = text_or(run->error, "")};
    if (reason == QN_REASON_OPERATOR_ARCHIVE) {
        verdict.kind = QN_CANCEL;
        verdict.outcome = QUERN_ARCHIVE;
    } else if (run->outcome == QUERN_ARCHIVE) {
        verdict.kind = QN_ARCHIVE;
    } else {
        verdict.kind = QN_RETRY;
        verdict.delay_ms = retry_delay_ms(rules, run);
    }
    *ret_verdict = verdict;
}

void qn_verdict_judge(struct quern_worker *worker, struct quern_run *run,
                      struct qn_verdict *ret_verdict)
{
    const struct qn_verdict_rules rules = rules_of(worker);
    qn_verdict_judge_by(&rules, run, ret_verdict);
}

void qn_verdict_judge_by(const struct qn_verdict_rules *rules, struct quern_run *run,
                         struct qn_verdict *ret_verdict)
{
    enum qn_cancel_reason reason = qn_run_cancel_reason(run);
    if (is_final(run->outcome) && !run->judged) {
        reason = QN_REASON_NONE;
    }
    if (run->error_class[0] == '\0' && (run->crashed || reason != QN_REASON_NONE)) {
        quern_run_set_error_class(run, run->crashed ? "crash" : class_of(reason));
    }
    bool stays = reason != QN_REASON_LEASE_LOST && reason != QN_REASON_SHUTDOWN;
    if (run->judged && stays) {
        take_judged(rules, run, reason, ret_verdict);
    } else if (reason == QN_REASON_NONE) {
        *ret_verdict = (struct qn_verdict){.offered = true, .outcome = run->outcome};
        judge_outcome(rules, run, ret_verdict);
    } else {
        judge_interrupted(rules, run, reason, ret_verdict);
    }
    if (ret_verdict->kind == QN_CRASH) {
        judge_crash(rules, run, ret_verdict);
    }
    char why[QN_FAILURE_WHY_SIZE];
    make_final(rules, run, (struct failing){run->error_class, reason}, ret_verdict, why);
    set_why(run, why, ret_verdict);
    call_on_error(run, ret_verdict);
    ret_verdict->change = run->has_change ? &run->change : NULL;
}

void qn_verdict_revise(const struct quern_run *run, struct qn_verdict *verdict)
{
    if (run->lost && verdict->kind != QN_DONE) {
        verdict->offered = false;
        verdict->refused = true;
    }
    if (run->acked) {
        verdict->offered = false; /* the broker holds nothing of it any more */
    }
}

void qn_verdict_give_up(struct quern_worker *worker, struct quern_run *run)
{
    struct qn_verdict verdict;
    qn_verdict_interrupt(worker, run, qn_run_cancel_reason(run), &verdict);
    qn_verdict_revise(run, &verdict);
    qn_run_table_fence(&worker->run_table, run, &verdict);
}
