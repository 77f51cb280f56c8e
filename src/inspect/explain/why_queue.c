/* SPDX-License-Identifier: MIT */
/* why_queue.c - the reasons that concern a queue: full storage, a pause, its workers, its brake. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "base/text/moment.h"
#include "base/text/plural.h"
#include "inspect/explain/case.h"
#include "inspect/explain/census.h"

#define MEMORY_FREE_MIN ((uint64_t)64 << 10) /* the refused request is gone when we look */
#define DISK_FREE_MIN ((uint64_t)1 << 20)    /* less than that: a commit may fail at any moment */

static void find_full_disk(const struct qn_reading *reading, struct qn_reasons *reasons)
{
    struct statvfs info;
    if (reading->path[0] == '\0' || statvfs(reading->path, &info) != 0) {
        return;
    }
    uint64_t free_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    if (free_bytes >= DISK_FREE_MIN) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(reasons, QUERN_WHY_DISK_FULL, true);
    (void)snprintf(reason->because, sizeof reason->because,
                   "the disk of the database is full: %" PRIu64 " KB free", free_bytes >> 10);
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "free some space where %.300s is; workers then continue by themselves",
                   reading->path);
}

static void find_full_memory(const struct qn_reading *reading, struct qn_reasons *reasons)
{
    uint64_t limit = reading->memory_max;
    uint64_t used = reading->memory_used;
    if (limit == 0 || used + MEMORY_FREE_MIN < limit) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(reasons, QUERN_WHY_MEMORY_FULL, true);
    (void)snprintf(reason->because, sizeof reason->because,
                   "the memory of Redis is full: %" PRIu64 " of %" PRIu64 " KB used", used >> 10,
                   limit >> 10);
    (void)snprintf(
        reason->advice, sizeof reason->advice,
        "raise maxmemory, or delete completed and archived tasks: quern task delete --all"
        " --state completed --queue NAME");
}

static void find_pause(const struct qn_why_scope *scope, struct qn_reasons *reasons)
{
    const quern_queue_info *queue = qn_reading_queue(scope->reading, scope->queue);
    char at[64];
    if (queue == NULL || queue->paused_at_ms == 0) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(reasons, QUERN_WHY_PAUSED, true);
    qn_moment_format(queue->paused_at_ms, at, sizeof at);
    (void)snprintf(reason->because, sizeof reason->because, "queue %.256s has been paused since %s",
                   scope->queue, at);
    (void)snprintf(reason->advice, sizeof reason->advice, "quern queue resume %.256s",
                   scope->queue);
}

/* --- Its workers ------------------------------------------------------------------------ */

static quern_why why_unable(quern_worker_status status)
{
    switch (status) {
    case QUERN_WORKER_QUIET:
        return QUERN_WHY_WORKERS_QUIET;
    case QUERN_WORKER_STUCK:
        return QUERN_WHY_WORKERS_STUCK;
    case QUERN_WORKER_STALLED:
        return QUERN_WHY_WORKERS_STALLED;
    case QUERN_WORKER_UNKNOWN:
    case QUERN_WORKER_ACTIVE:
    case QUERN_WORKER_DRAINING:
    case QUERN_WORKER_BRAKED:
        return QUERN_WHY_WORKERS_STOP;
    }
    return QUERN_WHY_WORKERS_STOP;
}

static void describe_unable(const struct qn_census *census, struct qn_reasons *reasons)
{
    struct qn_reason *reason = qn_reasons_add(reasons, why_unable(census->status), true);
    char holder[320];
    (void)snprintf(holder, sizeof holder, "%.256s:%" PRId64, census->host, census->pid);
    qn_reasons_add_holder(reason, holder);
    (void)snprintf(reason->because, sizeof reason->because,
                   "no worker that serves it takes tasks now: the one on %.100s, process %" PRId64
                   ", is %.40s",
                   census->host, census->pid, qn_census_status_name(census->status));
    if (census->status == QUERN_WORKER_STUCK) {
        (void)snprintf(reason->advice, sizeof reason->advice,
                       "its handlers hang: restart that process, and make its handlers check for "
                       "cancellation");
    } else if (census->status == QUERN_WORKER_STALLED) {
        (void)snprintf(reason->advice, sizeof reason->advice,
                       "the broker answers others: restart that process; its log says what it"
                       " waits for");
    } else if (census->status == QUERN_WORKER_QUIET) {
        (void)snprintf(reason->advice, sizeof reason->advice,
                       "let it take tasks again: kill -CONT %" PRId64 ", or start another worker",
                       census->pid);
    } else {
        (void)snprintf(reason->advice, sizeof reason->advice, "start another worker");
    }
}

static void find_lack_of_workers(const struct qn_why_scope *scope, struct qn_reasons *reasons)
{
    const char *queue = scope->queue;
    const char *type = scope->type;
    const struct qn_census census =
        qn_census_take(scope->reading->workers, queue, type, scope->now_ms);
    if (census.able > 0) {
        return;
    }
    if (census.takers > 0) {
        describe_unable(&census, reasons);
        return;
    }
    struct qn_reason *reason =
        qn_reasons_add(reasons, census.all == 0 ? QUERN_WHY_NO_WORKER : QUERN_WHY_NO_HANDLER, true);
    if (census.all == 0) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "no live worker serves queue %.256s", queue);
        (void)snprintf(reason->advice, sizeof reason->advice,
                       "start a worker for it: quern work --queue %.200s --exec '%.200s=COMMAND'",
                       queue, type != NULL ? type : "TYPE");
        return;
    }
    (void)snprintf(reason->because, sizeof reason->because,
                   "no live worker of queue %.200s serves type %.200s", queue, type);
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "start a worker that does: quern work --queue %.200s --exec '%.200s=COMMAND'",
                   queue, type);
}

static void find_brake(const struct qn_why_scope *scope, struct qn_reasons *reasons)
{
    const quern_queue_info *queue = qn_reading_queue(scope->reading, scope->queue);
    if (queue == NULL || queue->braked_hosts == 0) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(reasons, QUERN_WHY_BRAKED, true);
    reason->until_at_ms = queue->probe_at_ms > scope->now_ms ? queue->probe_at_ms : 0;
    (void)snprintf(reason->because, sizeof reason->because,
                   "runs of queue %.200s keep dying on %" PRIu32 " %s one at a time", queue->name,
                   queue->braked_hosts,
                   qn_plural(queue->braked_hosts, "host, which tries", "hosts, which try"));
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "see why they die (quern task list --queue %.150s --state retry), fix the "
                   "program, and start its workers again",
                   queue->name);
}

void qn_why_queue_held(const struct qn_why_scope *scope, struct qn_reasons *reasons)
{
    find_full_disk(scope->reading, reasons);
    find_pause(scope, reasons);
    find_lack_of_workers(scope, reasons);
}

void qn_why_queue_slow(const struct qn_why_scope *scope, struct qn_reasons *reasons)
{
    find_brake(scope, reasons);
    find_full_memory(scope->reading, reasons);
}
