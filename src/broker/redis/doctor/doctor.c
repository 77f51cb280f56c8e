/* SPDX-License-Identifier: MIT */
/* doctor.c - checks the invariants of docs/internals/invariants.md on the live data of a server.
 *
 * First all keys are walked over, to find queues and groups that nobody lists. Then each queue: all
 * that its containers list (containers.c), then the queue as a whole (check_queue.c). Last come
 * the hashes and locks that no container led to (scan.c), and the server (server.c).
 *
 * Nothing is locked, and no script looks at more than a page, so what the pages say together is
 * suspicion only. What is told, and mended, was seen by one script that looked at everything that
 * matters at once. */
#include "broker/redis/doctor/doctor.h"

#include <string.h>

#include "base/error.h"
#include "broker/served.h"

quern_status qn_check_keep(struct qn_redis_check *check, const char *invariant, const char *queue,
                           const char *id, const char *text, bool repaired, quern_error *err)
{
    struct qn_kept_finding *kept = qn_arena_alloc(&check->page, sizeof *kept);
    if (kept == NULL) {
        return qn_error_nomem(err);
    }
    enum qn_severity severity = QN_SEVERITY_VIOLATED;
    if (strcmp(invariant, "I8") == 0 || strcmp(invariant, "server") == 0 ||
        strcmp(invariant, "lock") == 0) {
        severity = QN_SEVERITY_WARNING;
    } else if (strcmp(invariant, "note") == 0) {
        severity = QN_SEVERITY_NOTE;
    }
    *kept =
        (struct qn_kept_finding){.finding = {.invariant = qn_arena_strdup(&check->page, invariant),
                                             .queue = qn_arena_strdup(&check->page, queue),
                                             .id = qn_arena_strdup(&check->page, id),
                                             .text = qn_arena_strdup(&check->page, text),
                                             .severity = (int32_t)severity,
                                             .repaired = repaired}};
    const quern_finding *finding = &kept->finding;
    if (finding->invariant == NULL || finding->queue == NULL || finding->id == NULL ||
        finding->text == NULL) {
        return qn_error_nomem(err);
    }
    *check->last = kept;
    check->last = &kept->next;
    return QUERN_OK;
}

void qn_check_tell(struct qn_redis_check *check)
{
    for (const struct qn_kept_finding *kept = check->findings; kept != NULL; kept = kept->next) {
        check->on_finding(&kept->finding, check->user);
    }
    check->findings = NULL;
    check->last = &check->findings;
    qn_arena_reset(&check->page);
}

/* Notes who lives, and marks the queues that somebody fetches from, a Go server included. This is
 * the one time that a check looks at processes: that takes long where there are many. */
static bool mark_fetched(const quern_worker_info *worker, void *user)
{
    struct qn_redis_check *check = user;
    check->no_memory = !qn_id_set_add(&check->living, worker->id, strlen(worker->id));
    const char *at = worker->queues;
    struct qn_str name;
    while (qn_served_next(&at, &name)) {
        struct qn_checked_queue *queue = qn_check_find_queue(check, name.data, name.size);
        if (queue != NULL) {
            queue->fetched = true;
        }
    }
    return !check->no_memory;
}

static quern_status check_queues(struct qn_redis_check *check, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < check->queue_count; i++) {
        status = qn_check_sweep(check, check->queues[i], err);
        if (status == QUERN_OK) {
            status = qn_check_queue(check, check->queues[i], err);
        }
        qn_check_tell(check);
    }
    return status;
}

static void finish(struct qn_redis_check *check)
{
    for (size_t i = 0; i < check->queue_count; i++) {
        qn_id_set_finish(&check->queues[i]->ids);
        qn_id_set_finish(&check->queues[i]->active);
    }
    qn_id_set_finish(&check->living);
    qn_arena_finish(&check->names);
    qn_arena_finish(&check->page);
}

quern_status qn_redis_check(struct qn_broker *broker, bool repair,
                            void (*on_finding)(const quern_finding *finding, void *user),
                            void *user, quern_error *err)
{
    struct qn_redis_check check = {
        .self = qn_redis_of(broker), .repair = repair, .on_finding = on_finding, .user = user};
    check.last = &check.findings;
    quern_status status = qn_check_find_queues(&check, err);
    if (status == QUERN_OK) {
        status = qn_redis_workers(broker, mark_fetched, &check, err);
        status = status == QUERN_OK && check.no_memory ? qn_error_nomem(err) : status;
        qn_id_set_sort(&check.living);
    }
    if (status == QUERN_OK) {
        status = check_queues(&check, err);
    }
    if (status == QUERN_OK) {
        status = qn_check_keys(&check, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < check.queue_count; i++) {
        status = qn_check_index(&check, check.queues[i], err);
    }
    if (status == QUERN_OK) {
        status = qn_check_server(&check, err);
    }
    qn_check_tell(&check);
    finish(&check);
    return status;
}
