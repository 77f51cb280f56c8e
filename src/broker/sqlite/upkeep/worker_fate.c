/* SPDX-License-Identifier: MIT */
/* worker_fate.c - see worker_fate.h.
 *
 * A process of this kernel and pid namespace is looked up in /proc (owner.h); for all others only
 * the record counts: for how long it has not changed (heartbeat_age.h). A file that several hosts
 * share (unsafe_fs=1) has leases on several boot clocks: those of another boot end when that is a
 * minute. If all workers of that boot are silent, the host is down, cut off or was rebooted, and no
 * task is charged: the death of a single worker is detected by another one on its host within a
 * second. */
#include "broker/sqlite/upkeep/worker_fate.h"

#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/vec.h"
#include "broker/owner.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/upkeep/heartbeat_age.h"
#include "broker/sqlite/upkeep/recover_sql.h"

#define SILENT_AFTER_MS 60000

/* Whether its leases are on another clock than ours. */
static bool is_foreign(const struct qn_worker_fates *fates, const char *owner)
{
    return fates->self->unsafe_fs && !qn_owner_same_boot(owner);
}

/* For a worker on another host. Its heartbeat was dated by a wall clock that may have been wrong
 * for a moment, as ours may be now: the time without a heartbeat by our own clock since boot counts
 * more. If several hosts share the file, only that time counts. */
static void decide_by_record(const struct qn_worker_fates *fates,
                             const struct qn_heartbeat_age *age, struct qn_worker_fate *worker)
{
    int64_t quiet_ms = fates->now_boot_ms - age->since_boot_ms;
    int64_t age_ms = fates->now_ms - worker->heartbeat_at_ms;
    bool foreign = is_foreign(fates, worker->owner);
    bool changed = age->changed && !QN_BUG(HEARTBEAT_ON_WALL);
    bool is_dated_well = age_ms >= -QN_HEARTBEAT_MS_LAPSED;
    bool old = !foreign && age_ms > SILENT_AFTER_MS && !changed;
    worker->is_silent = old || quiet_ms > SILENT_AFTER_MS;
    worker->lives = changed || !is_dated_well ? quiet_ms <= QN_HEARTBEAT_MS_LAPSED
                                              : age_ms <= QN_HEARTBEAT_MS_LAPSED;
    if (foreign) {
        worker->fate = worker->is_silent ? QN_FATE_GONE : QN_FATE_FOREIGN;
    } else {
        worker->fate = worker->is_silent ? QN_FATE_SILENT : QN_FATE_KEEP;
    }
}

/* False: memory is out. */
static bool decide(struct qn_worker_fates *fates, struct qn_worker_fate *worker)
{
    const struct qn_heartbeat_age *age = NULL;
    switch (qn_owner_judge(worker->owner)) {
    case QN_OWNER_DEAD:
        worker->fate = QN_FATE_GONE;
        return true;
    case QN_OWNER_ALIVE:
        worker->fate = QN_FATE_KEEP;
        worker->lives = true;
        return true;
    case QN_OWNER_UNKNOWN:
        break;
    }
    age = qn_heartbeat_age_note(&fates->self->heartbeat_ages, worker->death.no,
                                worker->heartbeat_at_ms, fates->now_boot_ms);
    if (age != NULL) {
        decide_by_record(fates, age, worker);
    }
    return age != NULL;
}

static bool is_leaving(const char *status)
{
    return (strcmp(status, "draining") == 0 || strcmp(status, "quiet") == 0) &&
           !QN_BUG(LEAVING_WORKER_CHARGED);
}

static bool add_worker(struct qn_worker_fates *fates, const struct qn_query *query)
{
    struct qn_worker_fate *workers =
        qn_vec_grow(fates->workers, fates->count, &fates->capacity, sizeof *workers);
    if (workers == NULL) {
        return false;
    }
    fates->workers = workers;
    const char *owner = qn_query_column_text(query, 1);
    int64_t heartbeat_at_ms = qn_query_column_sane(query, 2);
    struct qn_worker_fate *worker = &workers[fates->count++];
    *worker = (struct qn_worker_fate){.death = {.no = sqlite3_column_int64(query->statement, 0)},
                                      .heartbeat_at_ms = heartbeat_at_ms,
                                      .was_leaving = is_leaving(qn_query_column_text(query, 5))};
    worker->id = qn_arena_strdup(fates->arena, qn_query_column_text(query, 3));
    worker->death.host = qn_arena_strdup(fates->arena, qn_query_column_text(query, 4));
    worker->owner = qn_arena_strdup(fates->arena, owner);
    return worker->id != NULL && worker->death.host != NULL && worker->owner != NULL &&
           decide(fates, worker);
}

/* Whether all workers of its boot are silent. */
static bool host_is_silent(const struct qn_worker_fates *fates, const struct qn_worker_fate *worker)
{
    size_t size = strcspn(worker->owner, ":") + 1;
    for (size_t i = 0; i < fates->count; i++) {
        const struct qn_worker_fate *other = &fates->workers[i];
        if (!other->is_silent && strncmp(other->owner, worker->owner, size) == 0) {
            return false;
        }
    }
    return true;
}

bool qn_worker_fate_is_excused(const struct qn_worker_fates *fates,
                               const struct qn_worker_fate *worker)
{
    return worker->was_leaving ||
           (is_foreign(fates, worker->owner) && host_is_silent(fates, worker));
}

quern_status qn_worker_fate_read_all(struct qn_worker_fates *fates, quern_error *err)
{
    bool memory = true;
    qn_heartbeat_age_begin(&fates->self->heartbeat_ages);
    struct qn_query query = qn_query_start(fates->conn, sql_recover_workers);
    while (memory && qn_query_row(&query)) {
        memory = add_worker(fates, &query);
    }
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}
