/* SPDX-License-Identifier: MIT */
/* judge.c - see judge.h.
 *
 * A process of this kernel and pid namespace is looked for in /proc (owner.h); of all others only
 * the heartbeat tells. A file that several hosts share (unsafe_fs=1) has leases on several boot
 * clocks: those of another boot end when their worker's record has not changed for a minute of our
 * clock (heard.h), whatever the wall clocks say. Where all of that boot are silent, the host is
 * down, cut off or was rebooted, and nobody is charged: of a worker that died alone, another one on
 * its host knows within a second. */
#include "broker/sqlite/judge.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bug.h"
#include "base/error.h"
#include "broker/owner.h"
#include "broker/sqlite/recover_sql.h"

#define SILENT_AFTER_MS 60000

/* Whether its leases are on another clock than ours. */
static bool is_foreign(const struct qn_judging *judging, const char *owner)
{
    return judging->self->unsafe_fs && !qn_owner_same_boot(owner);
}

/* False: memory is out. */
static bool find_silence(struct qn_judging *judging, struct qn_judged *worker)
{
    int64_t age_ms = judging->now_ms - worker->heartbeat_at_ms;
    bool memory = true;
    if (is_foreign(judging, worker->owner)) {
        memory = qn_heard_note(&judging->self->heard, worker->death.no, worker->heartbeat_at_ms,
                               judging->now_boot_ms, &age_ms);
    }
    worker->is_silent = age_ms > SILENT_AFTER_MS;
    return memory;
}

static enum qn_fate judge(const struct qn_judging *judging, const char *owner, bool silent)
{
    if (is_foreign(judging, owner)) {
        return silent ? QN_FATE_GONE : QN_FATE_FOREIGN;
    }
    if (!qn_owner_same_boot(owner)) {
        return silent ? QN_FATE_SILENT : QN_FATE_KEEP;
    }
    switch (qn_owner_judge(owner)) {
    case QN_OWNER_DEAD:
        return QN_FATE_GONE;
    case QN_OWNER_ALIVE:
        return QN_FATE_KEEP;
    case QN_OWNER_UNKNOWN:
        break;
    }
    return silent ? QN_FATE_SILENT : QN_FATE_KEEP;
}

static bool lives(const struct qn_judging *judging, const char *owner, int64_t heartbeat_at_ms)
{
    return qn_owner_judge(owner) == QN_OWNER_ALIVE ||
           judging->now_ms - heartbeat_at_ms <= QN_HEARTBEAT_MS_LAPSED;
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
                                 .lives = lives(judging, owner, heartbeat_at_ms),
                                 .is_excused = is_leaving(qn_query_column_text(query, 5))};
    worker->id = qn_arena_strdup(judging->arena, qn_query_column_text(query, 3));
    worker->death.host = qn_arena_strdup(judging->arena, qn_query_column_text(query, 4));
    worker->owner = qn_arena_strdup(judging->arena, owner);
    judging->count++;
    if (worker->id == NULL || worker->death.host == NULL || worker->owner == NULL ||
        !find_silence(judging, worker)) {
        return false;
    }
    worker->fate = judge(judging, worker->owner, worker->is_silent);
    return true;
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

static void excuse_silent_hosts(struct qn_judging *judging)
{
    for (size_t i = 0; i < judging->count; i++) {
        struct qn_judged *worker = &judging->workers[i];
        if (worker->fate == QN_FATE_GONE && is_foreign(judging, worker->owner)) {
            worker->is_excused = worker->is_excused || host_is_silent(judging, worker);
        }
    }
}

quern_status qn_judge_workers(struct qn_judging *judging, quern_error *err)
{
    bool memory = true;
    qn_heard_begin(&judging->self->heard);
    struct qn_query query = qn_query_start(judging->conn, sql_recover_workers);
    while (memory && qn_query_row(&query)) {
        memory = add_worker(judging, &query);
    }
    excuse_silent_hosts(judging);
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}
