/* SPDX-License-Identifier: MIT */
/* doctor.c - checks the invariants of docs/internals/invariants.md on the live data of a server.
 *
 * First come the keys that all queues share (registries.c). Then all keys are scanned, to find
 * queues and groups that are not listed. Then each queue: all
 * entries of its containers (containers.c), then the queue as a whole (queue.c), its limits
 * (limits.c), its entries of schedulers (entries.c) and its trash (trash.c). Last come the
 * hashes and locks that no container led to (scan.c), and the server (server.c).
 *
 * Nothing is locked, and no script reads more than a page, so the pages together give suspicions
 * only. Every finding that is reported or repaired was confirmed by one script that read everything
 * relevant at once. */
#include "broker/redis/doctor/doctor.h"

#include <string.h>

#include "base/error.h"
#include "broker/served.h"

/* Notes the live workers, and marks the queues that they serve, Go servers included. A check looks
 * at processes only here, since that takes long if there are many. */
static bool mark_fetched(const quern_worker_info *worker, void *user)
{
    struct qn_redis_doctor *doctor = user;
    doctor->no_memory = !qn_id_set_add(&doctor->living, worker->id, strlen(worker->id));
    const char *at = worker->queues;
    struct qn_str name;
    while (qn_served_next(&at, &name)) {
        struct qn_checked_queue *queue = qn_scan_find_queue(doctor, name.data, name.size);
        if (queue != NULL) {
            queue->fetched = true;
        }
    }
    return !doctor->no_memory;
}

static quern_status check_queues(struct qn_redis_doctor *doctor, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < doctor->queue_count; i++) {
        status = qn_containers_walk(doctor, doctor->queues[i], err);
        if (status == QUERN_OK) {
            status = qn_redis_queue_check(doctor, doctor->queues[i], err);
        }
        if (status == QUERN_OK) {
            status = qn_redis_limits_check(doctor, doctor->queues[i], err);
        }
        if (status == QUERN_OK) {
            status = qn_redis_entries_check(doctor, doctor->queues[i], err);
        }
        if (status == QUERN_OK) {
            status = qn_redis_trash_check(doctor, doctor->queues[i], err);
        }
        qn_redis_findings_report(&doctor->findings);
        qn_arena_reset(&doctor->page);
    }
    return status;
}

static void finish(struct qn_redis_doctor *doctor)
{
    for (size_t i = 0; i < doctor->queue_count; i++) {
        qn_id_set_finish(&doctor->queues[i]->ids);
        qn_id_set_finish(&doctor->queues[i]->active);
    }
    qn_id_set_finish(&doctor->living);
    qn_arena_finish(&doctor->names);
    qn_arena_finish(&doctor->page);
    qn_redis_findings_finish(&doctor->findings);
}

quern_status qn_redis_doctor(struct qn_broker *broker, bool repair,
                             void (*on_finding)(const quern_finding *finding, void *user),
                             void *user, quern_error *err)
{
    struct qn_redis_doctor doctor = {.self = qn_redis_of(broker),
                                     .repair = repair,
                                     .findings = {.on_finding = on_finding, .user = user}};
    quern_status status = qn_redis_registries_check(&doctor, err);
    if (status == QUERN_OK) {
        status = qn_scan_queues(&doctor, err);
    }
    if (status == QUERN_OK) {
        status = qn_redis_workers(broker, mark_fetched, &doctor, err);
        status = status == QUERN_E_CORRUPT ? QUERN_OK : status; /* reported by registries.c */
        status = status == QUERN_OK && doctor.no_memory ? qn_error_nomem(err) : status;
        qn_id_set_sort(&doctor.living);
    }
    if (status == QUERN_OK) {
        status = check_queues(&doctor, err);
    }
    if (status == QUERN_OK) {
        status = qn_scan_keys(&doctor, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < doctor.queue_count; i++) {
        status = qn_containers_walk_index(&doctor, doctor.queues[i], err);
    }
    if (status == QUERN_OK) {
        status = qn_redis_server_check(&doctor, err);
    }
    qn_redis_findings_report(&doctor.findings);
    finish(&doctor);
    return status;
}
