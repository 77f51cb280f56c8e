/* SPDX-License-Identifier: MIT */
/* why_waiting.c - why a task that is pending, delayed or in a group does not run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/moment.h"
#include "base/text/number.h"
#include "base/text/plural.h"
#include "broker/task_info.h"
#include "inspect/explain/case.h"
#include "inspect/explain/census.h"
#include "task/limits.h"

static struct qn_why_scope scope_of(const struct qn_case *one)
{
    return (struct qn_why_scope){.reading = one->reading,
                                 .queue = quern_task_info_queue(one->info),
                                 .type = quern_task_info_type(one->info),
                                 .now_ms = one->now_ms};
}

/* --- Later -------------------------------------------------------------------------------- */

static quern_why why_later(const quern_task_info *info)
{
    bool died = quern_task_info_cause(info) == QUERN_CAUSE_CHILD_DIED ||
                quern_task_info_cause(info) == QUERN_CAUSE_WORKER_DIED;
    if (quern_task_info_state(info) == QUERN_TASK_SCHEDULED) {
        return QUERN_WHY_SCHEDULED;
    }
    return died                                                ? QUERN_WHY_AFTER_DEATH
           : quern_task_info_cause(info) == QUERN_CAUSE_SNOOZE ? QUERN_WHY_SNOOZED
                                                               : QUERN_WHY_RETRY;
}

static void find_due(struct qn_case *one)
{
    const quern_task_info *info = one->info;
    int64_t at_ms = quern_task_info_due_at_ms(info);
    char at[64];
    if (at_ms <= one->now_ms) {
        return;
    }
    quern_why why = why_later(info);
    struct qn_reason *reason = qn_reasons_add(one->reasons, why, true);
    const char *error = quern_task_info_error(info);
    reason->until_at_ms = at_ms;
    qn_moment_format(at_ms, at, sizeof at);
    if (why == QUERN_WHY_AFTER_DEATH) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "it is tried again at %s, as processes died with it (%" PRId64 " %s)", at,
                       quern_task_info_crash_count(info),
                       qn_plural((uint64_t)quern_task_info_crash_count(info), "death", "deaths"));
    } else if (why == QUERN_WHY_SNOOZED) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "it is tried again at %s, as its handler asked for", at);
    } else if (why == QUERN_WHY_RETRY && error[0] != '\0') {
        (void)snprintf(reason->because, sizeof reason->because,
                       "it is tried again at %s, after an error: %.*s", at,
                       (int)strcspn(error, "\n") < 200 ? (int)strcspn(error, "\n") : 200, error);
    } else {
        (void)snprintf(reason->because, sizeof reason->because, "%s %s",
                       why == QUERN_WHY_RETRY ? "it is tried again at" : "it is due at", at);
    }
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "nothing, or run it now: quern task run %.256s", quern_task_info_id(info));
}

static void find_next(struct qn_case *one)
{
    if (one->reasons->count > 0) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_NEXT, false);
    bool is_due = quern_task_info_state(one->info) != QUERN_TASK_PENDING;
    (void)snprintf(reason->because, sizeof reason->because, "%s",
                   is_due ? "it is due: a worker makes it pending within a second"
                          : "nothing holds it up: it is next");
}

/* Tasks that no worker serves are put aside into retry again and again: their due time is not the
 * reason. */
void qn_why_waiting_later(struct qn_case *one)
{
    const struct qn_why_scope scope = scope_of(one);
    qn_why_queue_held(&scope, one->reasons);
    find_due(one);
    qn_why_queue_slow(&scope, one->reasons);
    find_next(one);
}

/* --- Pending ------------------------------------------------------------------------------ */

static void add_worker(const struct qn_case *one, const char *id, struct qn_reason *reason)
{
    char text[320];
    const quern_worker_info *worker = qn_census_worker(one->reading->workers, id);
    if (worker == NULL) {
        qn_reasons_add_holder(reason, id);
        return;
    }
    (void)snprintf(text, sizeof text, "%.256s:%" PRId64, worker->host, worker->pid);
    qn_reasons_add_holder(reason, text);
}

static void find_solo(struct qn_case *one)
{
    const struct qn_standing *standing = &one->standing;
    bool is_held = standing->solo_owner[0] != '\0' && standing->solo_until_ms > one->now_ms;
    if (!is_held) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_SOLO, true);
    reason->until_at_ms = standing->solo_until_ms;
    add_worker(one, standing->solo_owner, reason);
    (void)snprintf(reason->because, sizeof reason->because,
                   "worker %.64s has the right to run a task of queue %.200s alone",
                   standing->solo_owner, quern_task_info_queue(one->info));
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "nothing: it returns that, or loses it when it is silent for a minute");
}

static void find_isolation(struct qn_case *one)
{
    const struct qn_standing *standing = &one->standing;
    char at[64];
    if (standing->level < 1) {
        return;
    }
    bool alone = standing->level >= QN_ALONE_CHARGES;
    bool rests = alone && standing->solo_rest_ms > one->now_ms;
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_ISOLATED, true);
    reason->until_at_ms = rests ? standing->solo_rest_ms : 0;
    qn_moment_format(standing->solo_rest_ms, at, sizeof at);
    (void)snprintf(reason->because, sizeof reason->because,
                   "processes died with it (%" PRId64 " %s), so it runs %s%s%s",
                   quern_task_info_crash_count(one->info),
                   qn_plural((uint64_t)quern_task_info_crash_count(one->info), "death", "deaths"),
                   alone ? "alone, when a worker has let its other runs end"
                         : "beside fewer such tasks, and others overtake it",
                   rests ? "; its queue rests from that until " : "", rests ? at : "");
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "nothing, or see why they died: quern task inspect %.256s",
                   quern_task_info_id(one->info));
}

static void find_busy(struct qn_case *one, const struct qn_census *census)
{
    char hang[64] = "";
    if (census->able == 0 || census->free_slots > 0) {
        return;
    }
    if (census->hung > 0) {
        (void)snprintf(hang, sizeof hang, " or held by handlers that hang (%" PRIu64 ")",
                       census->hung);
    }
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_BUSY, true);
    (void)snprintf(reason->because, sizeof reason->because,
                   "all slots of the workers of its queue are taken (%zu %s)%s", census->able,
                   qn_plural(census->able, "worker", "workers"), hang);
    (void)snprintf(reason->advice, sizeof reason->advice, "%s",
                   census->hung > 0
                       ? "restart the processes with handlers that hang, or start more workers;"
                         " quern worker list shows them"
                       : "nothing, or start more workers; quern worker list shows what they run");
}

/* A guess at the moment when it starts. A run that is looked at has on average half of its time
 * behind it, so that so many slots end so many runs in that time. 0: nothing to go by. */
static int64_t guess_start(const struct qn_case *one, const struct qn_census *census)
{
    if (census->runs == 0 || census->slots == 0 || one->standing.ahead < 0) {
        return 0;
    }
    double run_ms = 2.0 * (double)census->run_ages_ms / (double)census->runs;
    double turns = ((double)one->standing.ahead + 1) / (double)census->slots;
    double wait_ms = run_ms * turns;
    return wait_ms < (double)QN_DURATION_MS_MAX ? one->now_ms + (int64_t)wait_ms : 0;
}

static void find_line(struct qn_case *one, const struct qn_census *census)
{
    int64_t ahead = one->standing.ahead;
    bool in_lane = one->standing.in_lane;
    if (ahead <= 0 && !in_lane) {
        return;
    }
    const char *key = quern_task_info_limit_key(one->info);
    struct qn_reason *reason =
        qn_reasons_add(one->reasons, in_lane ? QUERN_WHY_TURN : QUERN_WHY_IN_LINE, false);
    const char *more = ahead >= QN_STANDING_AHEAD_MAX ? "or more " : "";
    reason->ahead = ahead;
    if (in_lane) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "the keys of queue %.128s take turns; %" PRId64
                       " %s%s of %s%.128s are before"
                       " it",
                       quern_task_info_queue(one->info), ahead < 0 ? 0 : ahead, more,
                       qn_plural((uint64_t)(ahead < 0 ? 0 : ahead), "task", "tasks"),
                       key[0] != '\0' ? "key " : "its kind", key);
        return;
    }
    reason->until_at_ms = guess_start(one, census);
    (void)snprintf(reason->because, sizeof reason->because,
                   "%" PRId64 " %s%s before it in queue %.256s", ahead, more,
                   qn_plural((uint64_t)ahead, "task is", "tasks are"),
                   quern_task_info_queue(one->info));
}

void qn_why_waiting_pending(struct qn_case *one)
{
    const struct qn_why_scope scope = scope_of(one);
    const struct qn_census census =
        qn_census_take(one->reading->workers, scope.queue, scope.type, one->now_ms);
    struct qn_why_limits limits;
    qn_why_queue_held(&scope, one->reasons);
    qn_why_queue_slow(&scope, one->reasons);
    qn_why_limit_read(one, &limits);
    qn_why_limit_find(one, &limits, true);
    find_solo(one);
    find_isolation(one);
    find_busy(one, &census);
    qn_why_limit_find(one, &limits, false);
    qn_why_limit_finish(&limits);
    find_line(one, &census);
    find_next(one);
}

/* --- In a group ------------------------------------------------------------------------------ */

void qn_why_waiting_group(struct qn_case *one)
{
    const quern_task_info *info = one->info;
    bool in_set = one->standing.in_set;
    struct qn_reason *reason =
        qn_reasons_add(one->reasons, in_set ? QUERN_WHY_SET : QUERN_WHY_GROUP, true);
    if (in_set) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "a worker makes one task of the members of group %.256s now",
                       quern_task_info_group(info));
        return;
    }
    (void)snprintf(
        reason->because, sizeof reason->because,
        "it waits in group %.256s until a worker with an aggregator makes one task of its"
        " members",
        quern_task_info_group(info));
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "nothing, if such a worker runs (quern work --aggregate); or run it by"
                   " itself: quern task run %.256s",
                   quern_task_info_id(info));
}
