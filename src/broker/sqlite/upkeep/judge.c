/* SPDX-License-Identifier: MIT */
/* judge.c - see judge.h.
 *
 * A process of this kernel and pid namespace is looked for in /proc (owner.h); of all others only
 * the record tells: for how long it has stayed as it is (heard.h). A file that several hosts share
 * (unsafe_fs=1) has leases on several boot clocks: those of another boot end when that is a minute.
 * Where all of that boot are silent, the host is down, cut off or was rebooted, and nobody is
 * charged: of a worker that died alone, another one on its host knows within a second. */
#include "broker/sqlite/upkeep/judge.h"

#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/owner.h"
#include "broker/sqlite/upkeep/recover_sql.h"

#define SILENT_AFTER_MS 60000

/* Whether its leases are on another clock than ours. */
static bool is_foreign(const struct qn_judging *judging, const char *owner)
{
    return judging->self->unsafe_fs && !qn_owner_same_boot(owner);
}

/* Of a worker that nobody here can see. Its heartbeat was dated by a wall clock that may have been
 * wrong for a moment, as ours may be now: what we have heard and for how long it is silent, by the
 * clock since boot, counts more. Where several hosts share the file nothing else does. */
static void judge_by_record(const struct qn_judging *judging, const struct qn_heard_record *heard,
                            struct qn_judged *worker)
{
    int64_t quiet_ms = judging->now_boot_ms - heard->since_boot_ms;
    int64_t age_ms = judging->now_ms - worker->heartbeat_at_ms;
    bool foreign = is_foreign(judging, worker->owner);
    bool changed = heard->changed && !QN_BUG(HEARTBEAT_ON_WALL);
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
static bool judge(struct qn_judging *judging, struct qn_judged *worker)
{
    const struct qn_heard_record *heard = NULL;
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
    heard = qn_heard_note(&judging->self->heard, worker->death.no, worker->heartbeat_at_ms,
                          judging->now_boot_ms);
    if (heard != NULL) {
        judge_by_record(judging, heard, worker);
    }
    return heard != NULL;
}

static bool is_leaving(const char *status)
{
    return (strcmp(status, "draining") == 0 || strcmp(status, "quiet") == 0) &&
           !QN_BUG(LEAVING_WORKER_CHARGED);
}

static bool add_worker(struct qn_judging *judging, const struct qn_query *query)
{
    size_t count = judging->count;
    if (count == judging->capacity) {
        size_t capacity = count == 0 ? 8 : count * 2;
        struct qn_judged *workers =
            qn_realloc(judging->workers, capacity * sizeof judging->workers[0]);
        if (workers == NULL) {
            return false;
        }
        judging->workers = workers;
        judging->capacity = capacity;
    }
    const char *owner = qn_query_column_text(query, 1);
    int64_t heartbeat_at_ms = qn_query_column_sane(query, 2);
    struct qn_judged *worker = &judging->workers[count];
    *worker = (struct qn_judged){.death = {.no = sqlite3_column_int64(query->statement, 0)},
                                 .heartbeat_at_ms = heartbeat_at_ms,
                                 .was_leaving = is_leaving(qn_query_column_text(query, 5))};
    worker->id = qn_arena_strdup(judging->arena, qn_query_column_text(query, 3));
    worker->death.host = qn_arena_strdup(judging->arena, qn_query_column_text(query, 4));
    worker->owner = qn_arena_strdup(judging->arena, owner);
    judging->count++;
    return worker->id != NULL && worker->death.host != NULL && worker->owner != NULL &&
           judge(judging, worker);
}

/* Whether no worker of its boot is heard of. */
static bool host_is_silent(const struct qn_judging *judging, const struct qn_judged *worker)
{
    size_t size = strcspn(worker->owner, ":") + 1;
    for (size_t i = 0; i < judging->count; i++) {
        const struct qn_judged *other = &judging->workers[i];
        if (!other->is_silent && strncmp(other->owner, worker->owner, size) == 0) {
            return false;
        }
    }
    return true;
}

bool qn_judge_excuses(const struct qn_judging *judging, const struct qn_judged *worker)
{
    return worker->was_leaving ||
           (is_foreign(judging, worker->owner) && host_is_silent(judging, worker));
}

quern_status qn_judge_workers(struct qn_judging *judging, quern_error *err)
{
    bool memory = true;
    qn_heard_begin(&judging->self->heard);
    struct qn_query query = qn_query_start(judging->conn, sql_recover_workers);
    while (memory && qn_query_row(&query)) {
        memory = add_worker(judging, &query);
    }
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}
