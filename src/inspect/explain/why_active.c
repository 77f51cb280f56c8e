/* SPDX-License-Identifier: MIT */
/* why_active.c - what an active task does: it runs, or its lease has to end first.
 *
 * A task of a Go server has no worker in its hash: then the record of the server that lists it
 * counts, which Go writes every few seconds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/duration.h"
#include "base/text/moment.h"
#include "broker/task_info.h"
#include "inspect/explain/case.h"
#include "inspect/explain/census.h"

/* Two heartbeats are missing. */
#define SILENT_MS (2 * QN_HEARTBEAT_MS)

struct runner {
    const quern_worker_info *worker; /* NULL: it is not alive, or not known */
    char place[320];                 /* "host:pid"; "": not known */
    int64_t silent_ms;               /* 0: not known */
    bool is_go;
};

static struct runner find_runner(const struct qn_case *one)
{
    struct runner runner = {.worker = NULL};
    const char *id = quern_task_info_worker(one->info);
    const quern_worker_list *workers = one->reading->workers;
    int64_t seen_at_ms = one->standing.seen_at_ms;
    runner.is_go = id[0] == '\0';
    runner.worker = runner.is_go ? qn_census_runner(workers, quern_task_info_queue(one->info),
                                                    quern_task_info_id(one->info))
                                 : qn_census_worker(workers, id);
    if (runner.worker != NULL) {
        (void)snprintf(runner.place, sizeof runner.place, "%.256s:%" PRId64, runner.worker->host,
                       runner.worker->pid);
        seen_at_ms = runner.is_go ? 0 : runner.worker->heartbeat_at_ms;
    } else if (one->standing.host[0] != '\0') {
        (void)snprintf(runner.place, sizeof runner.place, "%.256s:%" PRId64, one->standing.host,
                       one->standing.pid);
    }
    runner.silent_ms = seen_at_ms > 0 && seen_at_ms < one->now_ms ? one->now_ms - seen_at_ms : 0;
    return runner;
}

/* A lease that has to end first, or has ended, before the task can run again. */
static void advise_lost(const struct qn_case *one, struct qn_reason *reason)
{
    const char *queue = quern_task_info_queue(one->info);
    if (qn_census_count_workers(one->reading->workers, queue) == 0) {
        (void)snprintf(
            reason->advice, sizeof reason->advice,
            "start a worker for queue %.256s: there is none, and only a worker can return the task",
            queue);
    } else {
        (void)snprintf(reason->advice, sizeof reason->advice,
                       "nothing: a live worker of its queue returns it by itself");
    }
}

static void add_until(const struct qn_case *one, struct qn_reason *reason)
{
    char at[64];
    size_t used = strlen(reason->because);
    int64_t until_ms = quern_task_info_lease_until_at_ms(one->info);
    if (until_ms > one->now_ms) {
        qn_moment_format(until_ms, at, sizeof at);
        reason->until_at_ms = until_ms;
        (void)snprintf(reason->because + used, sizeof reason->because - used, ": it ends at %s",
                       at);
    }
}

static void find_lost(struct qn_case *one, const struct runner *runner)
{
    bool is_over = quern_task_info_orphaned(one->info);
    struct qn_reason *reason =
        qn_reasons_add(one->reasons, is_over ? QUERN_WHY_LEASE_OVER : QUERN_WHY_WORKER_DEAD, true);
    qn_reasons_add_holder(reason, runner->place);
    if (is_over && runner->is_go) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "the lease of its Go server has expired, and a worker takes it back 30 s"
                       " after that");
    } else if (is_over) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "its lease has expired, and a worker has to notice it");
    } else {
        (void)snprintf(reason->because, sizeof reason->because,
                       "its %s is dead, and its lease has not expired yet",
                       runner->is_go ? "Go server" : "worker");
        add_until(one, reason);
    }
    advise_lost(one, reason);
}

static void find_silence(struct qn_case *one, const struct runner *runner)
{
    char since[32];
    if (runner->silent_ms < SILENT_MS) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_WORKER_SILENT, true);
    qn_duration_format(runner->silent_ms / 1000 * 1000, since, sizeof since);
    qn_reasons_add_holder(reason, runner->place);
    (void)snprintf(reason->because, sizeof reason->because,
                   "its worker has been silent for %s: it is frozen or cut off from the broker, and"
                   " its lease has not expired yet",
                   since);
    add_until(one, reason);
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "see what holds up process %.280s; without it a worker of its queue returns the"
                   " task after the end of the lease",
                   runner->place);
}

static void find_run(struct qn_case *one, const struct runner *runner)
{
    char since[64] = "";
    int64_t started_at_ms = quern_task_info_started_at_ms(one->info);
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_RUNNING, false);
    qn_reasons_add_holder(reason, runner->place);
    if (started_at_ms > 0) {
        qn_moment_format(started_at_ms, since, sizeof since);
    }
    (void)snprintf(reason->because, sizeof reason->because, "it runs on %.320s%s%s", runner->place,
                   started_at_ms > 0 ? " since " : "", since);
    if (started_at_ms == 0 && !runner->is_go) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "it was taken by %.320s, which is about to start it", runner->place);
    }
}

static void find_cancellation(struct qn_case *one, const struct runner *runner)
{
    if (one->info->cancel == QN_CANCEL_NONE) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_CANCELLING, false);
    qn_reasons_add_holder(reason, runner->place);
    (void)snprintf(reason->because, sizeof reason->because,
                   "its cancellation was requested: then it is %s",
                   one->info->cancel == QN_CANCEL_ARCHIVE ? "archived" : "tried again later");
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "nothing, if its handler checks for that; else its worker gives it up after a"
                   " grace");
}

void qn_why_active(struct qn_case *one)
{
    const struct runner runner = find_runner(one);
    if (quern_task_info_orphaned(one->info) || runner.worker == NULL) {
        find_lost(one, &runner);
        return;
    }
    find_silence(one, &runner);
    find_cancellation(one, &runner);
    if (one->reasons->count == 0) {
        find_run(one, &runner);
    }
}
