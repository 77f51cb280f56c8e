/* SPDX-License-Identifier: MIT */
/* service.c - the workers that serve queues and types, and the reason why a task waits.
 *
 * All is judged from one reading of queues, workers and server_info; only the limits of a queue are
 * read when a task of it is judged, as few reasons need them. The first reason that applies
 * is reported: reasons that stop everything come first, reasons that stop one task come last. Types
 * that cannot be known (of a Go server) count as served. The table of all reasons is in
 * docs/guide/waiting.md: if you add one, add it there. */
#include "cli/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/text/moment.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/service_limit.h"
#include "task/limits.h"

#define MEMORY_FREE_MIN ((uint64_t)64 << 10) /* the refused request is gone when we look */
#define DISK_FREE_MIN ((uint64_t)1 << 20)    /* less than that: a commit may fail at any moment */

static void add_item(const char *name, const char *text, void *user)
{
    (void)json_object_set_new(user, name, json_string(text));
}

bool qn_service_read(quern_inspector *inspector, struct qn_service *ret_service, quern_error *err)
{
    struct qn_service service = {.inspector = inspector,
                                 .server_info = qn_memory_must(json_object())};
    if (quern_inspector_queues(inspector, &service.queues, err) != QUERN_OK ||
        quern_inspector_workers(inspector, &service.workers, err) != QUERN_OK ||
        quern_inspector_broker(inspector, add_item, service.server_info, err) != QUERN_OK) {
        qn_service_finish(&service);
        return false;
    }
    *ret_service = service;
    return true;
}

void qn_service_finish(struct qn_service *service)
{
    quern_queue_list_free(service->queues);
    quern_worker_list_free(service->workers);
    json_decref(service->server_info);
    *service = (struct qn_service){.queues = NULL};
}

quern_worker_list *qn_service_workers(quern_inspector *inspector)
{
    quern_worker_list *list = NULL;
    return quern_inspector_workers(inspector, &list, NULL) == QUERN_OK ? list : NULL;
}

/* The queues are "critical=6 default=3"; names may hold blanks. */
static bool serves(const quern_worker_info *worker, const char *queue)
{
    size_t size = strlen(queue);
    for (const char *at = strstr(worker->queues, queue); size > 0 && at != NULL;
         at = strstr(at + 1, queue)) {
        bool begins = at == worker->queues || at[-1] == ' ';
        size_t digits = at[size] == '=' ? strspn(at + size + 1, "0123456789") : 0;
        const char *end = at + size + 1 + digits;
        if (begins && digits > 0 && (*end == ' ' || *end == '\0')) {
            return true;
        }
    }
    return false;
}

/* Of the type, as far as it is known. */
static bool takes_type(const quern_worker_info *worker, const char *type)
{
    const char *pattern = worker->types;
    while (pattern != NULL && *pattern != '\0') {
        size_t size = strcspn(pattern, "\n");
        bool for_all = size == 1 && pattern[0] == '*';
        if (for_all || strncmp(type, pattern, size) == 0) {
            return true;
        }
        pattern += size + (pattern[size] == '\n' ? 1 : 0);
    }
    return worker->types == NULL;
}

size_t qn_service_count_workers(const quern_worker_list *workers, const char *queue)
{
    size_t count = 0;
    for (size_t i = 0; i < quern_worker_list_size(workers); i++) {
        count += serves(quern_worker_list_at(workers, i), queue) ? 1 : 0;
    }
    return count;
}

static const quern_queue_info *find_queue(const struct qn_service *service, const char *name)
{
    for (size_t i = 0; i < quern_queue_list_size(service->queues); i++) {
        const quern_queue_info *queue = quern_queue_list_at(service->queues, i);
        if (strcmp(queue->name, name) == 0) {
            return queue;
        }
    }
    return NULL;
}

/* --- The broker ------------------------------------------------------------------------- */

static uint64_t fact_number(const struct qn_service *service, const char *name)
{
    const char *text = json_string_value(json_object_get(service->server_info, name));
    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

static bool disk_is_full(const struct qn_service *service, struct qn_reason *reason)
{
    const char *path = json_string_value(json_object_get(service->server_info, "path"));
    struct statvfs info;
    if (path == NULL || statvfs(path, &info) != 0) {
        return false;
    }
    uint64_t free_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    if (free_bytes >= DISK_FREE_MIN) {
        return false;
    }
    (void)snprintf(reason->because, sizeof reason->because,
                   "the disk of the database is full: %" PRIu64 " KB free", free_bytes >> 10);
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "free some space where %.300s is; workers then continue by themselves", path);
    return true;
}

static bool memory_is_full(const struct qn_service *service, struct qn_reason *reason)
{
    uint64_t limit = fact_number(service, "memory_max");
    uint64_t used = fact_number(service, "memory_used");
    if (limit == 0 || used + MEMORY_FREE_MIN < limit) {
        return false;
    }
    (void)snprintf(reason->because, sizeof reason->because,
                   "the memory of Redis is full: %" PRIu64 " of %" PRIu64 " KB used", used >> 10,
                   limit >> 10);
    (void)snprintf(
        reason->advice, sizeof reason->advice,
        "raise maxmemory, or delete completed and archived tasks: quern task delete --all"
        " --state completed --queue NAME");
    return true;
}

/* --- Queues and their workers ----------------------------------------------------------- */

const char *qn_service_status_name(quern_worker_status status)
{
    const char *name = quern_worker_status_name(status);
    return name == NULL ? "unknown" : name; /* of a newer library */
}

/* The states of the live workers of a queue. */
struct census {
    size_t all;
    size_t takers;              /* take the type */
    size_t able;                /* of these, fetch tasks */
    size_t free_slots;          /* of these */
    uint64_t hung;              /* handlers of these that ignore their cancellation */
    quern_worker_status status; /* of one that does not fetch */
    int64_t pid;                /* of that one */
    const char *host;
};

static size_t count_free(const quern_worker_info *worker)
{
    uint64_t replaced = QN_REPLACED_MAX(worker->concurrency);
    uint64_t held = worker->hung > replaced ? worker->hung - replaced : 0;
    uint64_t taken = worker->run_count + held;
    return worker->concurrency > taken ? (size_t)(worker->concurrency - taken) : 0;
}

/* to_end: else the first one that can take the task is enough, and the figures are too small. */
static struct census count_workers(const struct qn_service *service, const char *queue,
                                   const char *type, bool to_end)
{
    struct census census = {.all = 0};
    size_t count = quern_worker_list_size(service->workers);
    for (size_t i = 0; i < count && (to_end || census.able == 0); i++) {
        const quern_worker_info *worker = quern_worker_list_at(service->workers, i);
        if (!serves(worker, queue)) {
            continue;
        }
        census.all++;
        if (type != NULL && !takes_type(worker, type)) {
            continue;
        }
        census.takers++;
        if (worker->status == QUERN_WORKER_ACTIVE || worker->status == QUERN_WORKER_BRAKED) {
            census.able++;
            census.free_slots += count_free(worker);
            census.hung += worker->hung;
        } else {
            census.status = worker->status;
            census.pid = worker->pid;
            census.host = worker->host;
        }
    }
    return census;
}

static void describe_unable(const struct census *census, struct qn_reason *reason)
{
    (void)snprintf(reason->because, sizeof reason->because,
                   "no worker that serves it takes tasks now: the one on %.100s, process %" PRId64
                   ", is %.40s",
                   census->host, census->pid, qn_service_status_name(census->status));
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

static bool lacks_workers(const struct census *census, const char *queue, const char *type,
                          struct qn_reason *reason)
{
    if (census->all == 0) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "no live worker serves queue %.256s", queue);
        (void)snprintf(reason->advice, sizeof reason->advice,
                       "start a worker for it: quern work --queue %.200s --exec '%.200s=COMMAND'",
                       queue, type != NULL ? type : "TYPE");
        return true;
    }
    if (census->takers == 0) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "no live worker of queue %.200s serves type %.200s", queue, type);
        (void)snprintf(
            reason->advice, sizeof reason->advice,
            "start a worker that does: quern work --queue %.200s --exec '%.200s=COMMAND'", queue,
            type);
        return true;
    }
    if (census->able == 0) {
        describe_unable(census, reason);
        return true;
    }
    return false;
}

static bool is_braked(const quern_queue_info *queue, struct qn_reason *reason)
{
    if (queue->braked_hosts == 0) {
        return false;
    }
    (void)snprintf(reason->because, sizeof reason->because,
                   "runs of queue %.200s keep dying on %" PRIu32 " %s one at a time", queue->name,
                   queue->braked_hosts,
                   qn_plural(queue->braked_hosts, "host, which tries", "hosts, which try"));
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "see why they die (quern task list --queue %.150s --state retry), fix the "
                   "program, and start its workers again",
                   queue->name);
    return true;
}

/* Reasons that delay a task whether or not it is due. */
static bool is_held_up(const struct qn_service *service, const char *queue, const char *type,
                       struct qn_reason *ret_reason)
{
    const quern_queue_info *info = find_queue(service, queue);
    struct census census = count_workers(service, queue, type, false);
    if (disk_is_full(service, ret_reason)) {
        return true;
    }
    if (info != NULL && info->paused_at_ms != 0) {
        char at[64];
        qn_moment_format(info->paused_at_ms, at, sizeof at);
        (void)snprintf(ret_reason->because, sizeof ret_reason->because,
                       "queue %.256s has been paused since %s", queue, at);
        (void)snprintf(ret_reason->advice, sizeof ret_reason->advice, "quern queue resume %.256s",
                       queue);
        return true;
    }
    return lacks_workers(&census, queue, type, ret_reason);
}

bool qn_service_why_queue(const struct qn_service *service, const char *queue, const char *type,
                          struct qn_reason *ret_reason)
{
    const quern_queue_info *info = find_queue(service, queue);
    return is_held_up(service, queue, type, ret_reason) ||
           (info != NULL && is_braked(info, ret_reason)) || memory_is_full(service, ret_reason);
}

/* --- One task --------------------------------------------------------------------------- */

static bool is_live(const struct qn_service *service, const char *worker_id)
{
    for (size_t i = 0; i < quern_worker_list_size(service->workers); i++) {
        if (strcmp(quern_worker_list_at(service->workers, i)->id, worker_id) == 0) {
            return true;
        }
    }
    return false;
}

static bool why_active(const struct qn_service *service, const quern_task_info *info,
                       struct qn_reason *reason)
{
    const char *queue = quern_task_info_queue(info);
    const char *worker = quern_task_info_worker(info);
    bool orphaned = quern_task_info_orphaned(info);
    bool lost = worker[0] != '\0' && !is_live(service, worker);
    if (!orphaned && !lost) {
        return false;
    }
    (void)snprintf(reason->because, sizeof reason->because, "%s",
                   orphaned ? "its lease has expired, and a worker has to notice it"
                            : "its worker is dead, and its lease has not expired yet");
    if (qn_service_count_workers(service->workers, queue) == 0) {
        (void)snprintf(
            reason->advice, sizeof reason->advice,
            "start a worker for queue %.256s: there is none, and only a worker can return the task",
            queue);
    } else {
        (void)snprintf(reason->advice, sizeof reason->advice,
                       "nothing: a live worker of its queue returns it by itself");
    }
    return true;
}

static bool why_later(const quern_task_info *info, struct qn_reason *reason)
{
    int64_t at_ms = quern_task_info_due_at_ms(info);
    char at[64];
    if (at_ms <= qn_clock_wall_ms(qn_clock_system())) {
        return false;
    }
    bool is_retry = quern_task_info_state(info) == QUERN_TASK_RETRY;
    qn_moment_format(at_ms, at, sizeof at);
    (void)snprintf(reason->because, sizeof reason->because, "%s %s",
                   is_retry ? "it is tried again at" : "it is due at", at);
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "nothing, or run it now: quern task run %.256s", quern_task_info_id(info));
    return true;
}

static bool why_busy(const struct qn_service *service, const quern_task_info *info,
                     struct qn_reason *reason)
{
    struct census census =
        count_workers(service, quern_task_info_queue(info), quern_task_info_type(info), true);
    if (census.able == 0 || census.free_slots > 0) {
        return false;
    }
    char hang[64] = "";
    if (census.hung > 0) {
        (void)snprintf(hang, sizeof hang, " or held by handlers that hang (%" PRIu64 ")",
                       census.hung);
    }
    (void)snprintf(reason->because, sizeof reason->because,
                   "all slots of the workers of its queue are taken (%zu %s)%s", census.able,
                   qn_plural(census.able, "worker", "workers"), hang);
    (void)snprintf(reason->advice, sizeof reason->advice, "%s",
                   census.hung > 0
                       ? "restart the processes with handlers that hang, or start more workers;"
                         " quern worker list shows them"
                       : "nothing, or start more workers; quern worker list shows what they run");
    return true;
}

/* How much of "*" is used by one type or key is not known: that comes last. */
static bool why_pending(const struct qn_service *service, const quern_task_info *info,
                        struct qn_reason *reason)
{
    const char *queue = quern_task_info_queue(info);
    quern_limit_list *own = NULL;
    quern_limit_list *of_all = NULL;
    if (qn_service_why_queue(service, queue, quern_task_info_type(info), reason)) {
        return true;
    }
    bool known =
        quern_inspector_limits(service->inspector, queue, &own, NULL) == QUERN_OK &&
        quern_inspector_limits(service->inspector, QUERN_ALL_QUEUES, &of_all, NULL) == QUERN_OK;
    bool waits = (known && qn_service_limit_why(own, info, false, reason)) ||
                 (known && qn_service_limit_why(of_all, info, false, reason)) ||
                 why_busy(service, info, reason) ||
                 (known && qn_service_limit_why(own, info, true, reason)) ||
                 (known && qn_service_limit_why(of_all, info, true, reason));
    quern_limit_list_free(own);
    quern_limit_list_free(of_all);
    return waits;
}

bool qn_service_why_task(const struct qn_service *service, const quern_task_info *info,
                         struct qn_reason *ret_reason)
{
    const char *queue = quern_task_info_queue(info);
    switch (quern_task_info_state(info)) {
    case QUERN_TASK_ACTIVE:
        return why_active(service, info, ret_reason);
    case QUERN_TASK_SCHEDULED:
    case QUERN_TASK_RETRY:
        /* Tasks that no worker serves are put aside into retry again and again: their due time is
         * not the reason. */
        return is_held_up(service, queue, quern_task_info_type(info), ret_reason) ||
               why_later(info, ret_reason) ||
               qn_service_why_queue(service, queue, quern_task_info_type(info), ret_reason);
    case QUERN_TASK_PENDING:
        return why_pending(service, info, ret_reason);
    case QUERN_TASK_AGGREGATING:
        (void)snprintf(
            ret_reason->because, sizeof ret_reason->because,
            "it waits in group %.256s until a worker with an aggregator makes one task of its"
            " members",
            quern_task_info_group(info));
        (void)snprintf(ret_reason->advice, sizeof ret_reason->advice,
                       "nothing, if such a worker runs (quern work --aggregate); or run it by"
                       " itself: quern task run %.256s",
                       quern_task_info_id(info));
        return true;
    case QUERN_TASK_ARCHIVED:
    case QUERN_TASK_COMPLETED:
        return false;
    }
    return false;
}
