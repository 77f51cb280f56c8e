/* SPDX-License-Identifier: MIT */
/* recover.c - returns the tasks of workers that are gone.
 *
 * A query on the reading connection comes first: which workers are dead (their process is gone, see
 * owner.h), has any lease expired? Usually nothing is found, and nothing is locked. Then, in one
 * transaction, up to `limit` leases are ended: of dead workers at once, of all others when their
 * lease has expired. Runs that had started are charged with the death of their worker
 * (worker_death.c), unless there was no death: the worker was leaving, or it is alive and only its
 * lease has expired.
 *
 * If a process has held the lock for long, no lease could be extended: then only those of dead
 * workers end, for a moment (note_wait in transaction.c).
 *
 * Leases are on the clock of this boot. After a reboot the first call finds another boot id in
 * quern_meta and voids all leases that workers of this boot do not hold; no task is charged with
 * that. If several hosts share the file, see worker_fate.c. */
#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "broker/owner.h"
#include "broker/sqlite/queue/brake.h"
#include "broker/sqlite/queue/deaths.h"
#include "broker/sqlite/queue/solo.h"
#include "broker/sqlite/run/delay_clock.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/upkeep/recover_sql.h"
#include "broker/sqlite/upkeep/redate.h"
#include "broker/sqlite/upkeep/redate_sql.h"
#include "broker/sqlite/upkeep/worker_death.h"
#include "broker/sqlite/upkeep/worker_fate.h"
#include "broker/sqlite/wake/waiters.h"
#include "task/brake.h"
#include "task/deaths.h"
#include "task/past_runs.h"

#define LEASE_VOID 1 /* quern_task.lease_until */

struct lease {
    int64_t seq;
    uint64_t token;
    const char *id; /* in the arena */
    bool started;
    int64_t worker;
    int64_t lease_until;
    int64_t started_at_ms;
    quern_cause begun; /* why its run was started */
    quern_cause cause; /* why it ends; not read */
};

struct recovering {
    struct qn_sqlite *self;
    struct qn_conn *conn;
    struct qn_queue_counters counters;
    struct qn_arena arena; /* ids and hosts */
    struct qn_worker_fates fates;
    bool new_boot;
    char boot_id[QN_BOOT_ID_SIZE];
    int64_t now_boot_ms;
    struct qn_recovery *report; /* room for `limit`; reported after the commit */
    struct lease *leases;       /* the same; read before they are ended */
    size_t limit;
    size_t count;
};

static quern_status read_boot(struct recovering *recovering, bool *ret_unset, quern_error *err)
{
    *ret_unset = false;
    if (recovering->self->unsafe_fs || !qn_owner_boot_id(recovering->boot_id)) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(recovering->conn, sql_recover_boot);
    if (qn_query_row(&query)) {
        const char *stored = qn_query_column_text(&query, 0);
        *ret_unset = stored[0] == '\0';
        recovering->new_boot = strcmp(stored, recovering->boot_id) != 0;
    }
    return qn_query_finish(&query, err);
}

static quern_status any_expired(struct recovering *recovering, bool *ret_any, quern_error *err)
{
    struct qn_query query = qn_query_start(recovering->conn, sql_recover_peek);
    qn_query_int(&query, recovering->now_boot_ms);
    *ret_any = qn_query_row(&query);
    return qn_query_finish(&query, err);
}

/* Is there anything to do? */
static quern_status peek(struct recovering *recovering, bool *ret_work, quern_error *err)
{
    bool unset = false;
    bool expired = false;
    quern_status status = qn_transaction_read_begin(recovering->self, &recovering->conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    recovering->fates.conn = recovering->conn;
    status = qn_worker_fate_read_all(&recovering->fates, err);
    if (status == QUERN_OK) {
        status = read_boot(recovering, &unset, err);
    }
    if (status == QUERN_OK) {
        status = any_expired(recovering, &expired, err);
    }
    qn_transaction_read_end(recovering->self);
    bool work = expired || recovering->new_boot;
    for (size_t i = 0; i < recovering->fates.count; i++) {
        enum qn_fate fate = recovering->fates.workers[i].fate;
        work = work || fate == QN_FATE_GONE || fate == QN_FATE_SILENT;
    }
    *ret_work = work;
    return status;
}

static quern_status enter_boot(struct recovering *recovering, quern_error *err)
{
    bool unset = false;
    quern_status status = read_boot(recovering, &unset, err); /* another process may have done it */
    if (status != QUERN_OK || !recovering->new_boot) {
        return status;
    }
    struct qn_query query = qn_query_start(recovering->conn, sql_recover_set_boot);
    qn_query_text(&query, recovering->boot_id);
    status = qn_query_run(&query, NULL, err);
    if (status == QUERN_OK) {
        query = qn_query_start(recovering->conn, sql_redate_forget);
        status = qn_query_run(&query, NULL, err);
    }
    if (status == QUERN_OK && !unset) {
        query = qn_query_start(recovering->conn, sql_recover_void);
        qn_query_text(&query, recovering->boot_id);
        status = qn_query_run(&query, NULL, err);
    }
    if (status == QUERN_OK && !unset) {
        query = qn_query_start(recovering->conn, sql_recover_void_sets);
        qn_query_text(&query, recovering->boot_id);
        status = qn_query_run(&query, NULL, err);
    }
    return status;
}

static size_t remaining_count(const struct recovering *recovering)
{
    return recovering->limit - recovering->count;
}

/* Reads all rows of a statement that has LIMIT remaining_count(recovering). */
static quern_status read_leases(struct recovering *recovering, struct qn_query *query,
                                size_t *ret_count, quern_error *err)
{
    size_t count = 0;
    bool memory = true;
    while (memory && qn_query_row(query)) {
        QN_ASSERT(count < remaining_count(recovering));
        struct lease *lease = &recovering->leases[count++];
        *lease = (struct lease){
            .seq = sqlite3_column_int64(query->statement, 0),
            .token = (uint64_t)sqlite3_column_int64(query->statement, 1),
            .id = qn_arena_strdup(&recovering->arena, qn_query_column_text(query, 2)),
            .started = sqlite3_column_int(query->statement, 3) != 0,
            .worker = sqlite3_column_int64(query->statement, 4),
            .lease_until = sqlite3_column_int64(query->statement, 5),
            .started_at_ms = qn_query_column_sane(query, 6),
            .begun = (quern_cause)sqlite3_column_int(query->statement, 7)};
        memory = lease->id != NULL;
    }
    *ret_count = count;
    quern_status status = qn_query_finish(query, err);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}

/* The moment at which the run died, and the runs beside it, as far as known. */
static quern_status describe_death(struct recovering *recovering,
                                   const struct qn_counted_queue *queue,
                                   struct qn_worker_fate *worker, struct qn_end *end,
                                   quern_error *err)
{
    struct qn_brake brake = {0};
    quern_status status = qn_worker_death_note(&recovering->counters, &worker->death, err);
    if (status == QUERN_OK && end->started) {
        status = qn_brake_read(recovering->conn, queue->no, worker->death.host, &brake, err);
    }
    end->is_death = true;
    end->is_lone = worker->death.is_lone;
    end->seen_at_ms = worker->heartbeat_at_ms;
    end->ok_at_ms = brake.ok_at_ms;
    return status;
}

static struct qn_worker_fate *find_worker(const struct recovering *recovering, int64_t no)
{
    for (size_t i = 0; i < recovering->fates.count; i++) {
        if (recovering->fates.workers[i].death.no == no) {
            return &recovering->fates.workers[i];
        }
    }
    return NULL;
}

/* The run as it is noted: that of a dead worker lived until the last sign of life at least. */
static struct qn_bytes write_entry(const struct recovering *recovering, const struct lease *lease,
                                   qn_past_run_text out)
{
    const struct qn_worker_fate *worker = find_worker(recovering, lease->worker);
    bool died = lease->cause == QUERN_CAUSE_WORKER_DIED;
    int64_t now_ms = recovering->counters.now_ms;
    int64_t seen_at_ms = died && worker != NULL ? worker->heartbeat_at_ms : now_ms;
    bool is_later = seen_at_ms > lease->started_at_ms && seen_at_ms < now_ms;
    int64_t ago_ms = is_later ? now_ms - seen_at_ms : 0;
    char text[QN_PAST_RUN_WORKER_SIZE_MAX];
    size_t text_size =
        worker == NULL
            ? 0
            : qn_past_run_worker(worker->death.host, qn_owner_pid(worker->owner), worker->id, text);
    const struct qn_past_run run = {
        .end = died ? QUERN_RUN_WORKER_DIED : QUERN_RUN_LEASE_EXPIRED,
        .cause = lease->begun,
        .took_ms = now_ms - ago_ms - lease->started_at_ms,
        .ago_ms = ago_ms,
        .worker = {text, text_size},
    };
    return (struct qn_bytes){out, qn_past_run_write(&run, out)};
}

/* worker: the one that has died; NULL: none. */
static quern_status end_lease(struct recovering *recovering, struct qn_counted_queue *queue,
                              const struct lease *lease, struct qn_worker_fate *worker,
                              quern_error *err)
{
    qn_past_run_text entry;
    struct qn_end end = {.seq = lease->seq,
                         .token = lease->token,
                         .started = lease->started,
                         .started_at_ms = lease->started_at_ms,
                         .cause = lease->cause,
                         .run = lease->started ? write_entry(recovering, lease, entry)
                                               : (struct qn_bytes){NULL, 0}};
    struct qn_ended ended = {0};
    bool is_charged = worker != NULL && !qn_worker_fate_is_excused(&recovering->fates, worker);
    quern_status status =
        is_charged ? describe_death(recovering, queue, worker, &end, err) : QUERN_OK;
    if (status == QUERN_OK) {
        status = qn_deaths_end(&recovering->counters, queue, &end, &ended, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    if (ended.archived) {
        qn_notices_add(&recovering->counters.ends, qn_notices_task(queue->name, lease->id));
    }
    recovering->report[recovering->count++] = (struct qn_recovery){.queue = queue->name,
                                                                   .id = lease->id,
                                                                   .cause = lease->cause,
                                                                   .charged = ended.charged,
                                                                   .archived = ended.archived};
    return QUERN_OK;
}

/* The leases of one dead worker in one queue. */
static quern_status end_worker(struct recovering *recovering, struct qn_counted_queue *queue,
                               struct qn_worker_fate *worker, quern_error *err)
{
    size_t count = 0;
    struct qn_query query = qn_query_start(recovering->conn, sql_recover_of_worker);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, worker->death.no);
    qn_query_int(&query, (int64_t)remaining_count(recovering));
    quern_status status = read_leases(recovering, &query, &count, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        recovering->leases[i].cause = QUERN_CAUSE_WORKER_DIED;
        status = end_lease(recovering, queue, &recovering->leases[i], worker, err);
    }
    return status;
}

/* A lease is void after a reboot, or when its worker has withdrawn. A worker that is silent when
 * one of its leases has expired is dead. */
static quern_status end_if_ours(struct recovering *recovering, struct qn_counted_queue *queue,
                                struct lease *lease, quern_error *err)
{
    struct qn_worker_fate *worker = find_worker(recovering, lease->worker);
    if (worker != NULL && worker->fate == QN_FATE_FOREIGN) {
        return QUERN_OK;
    }
    bool is_void = lease->lease_until == LEASE_VOID;
    bool died = worker != NULL && !is_void && (!worker->lives || QN_BUG(LIVING_OWNER_CHARGED));
    lease->cause = is_void || died ? QUERN_CAUSE_WORKER_DIED : QUERN_CAUSE_LEASE_EXPIRED;
    return end_lease(recovering, queue, lease, died ? worker : NULL, err);
}

/* The expired leases of a queue, of all workers; foreign ones are skipped. */
static quern_status end_expired(struct recovering *recovering, struct qn_counted_queue *queue,
                                quern_error *err)
{
    struct lease last = {0};
    quern_status status = QUERN_OK;
    size_t count = 1;
    while (status == QUERN_OK && count > 0 && remaining_count(recovering) > 0) {
        struct qn_query query = qn_query_start(recovering->conn, sql_recover_expired);
        qn_query_int(&query, queue->no);
        qn_query_int(&query, recovering->now_boot_ms);
        qn_query_int(&query, last.lease_until);
        qn_query_int(&query, last.worker);
        qn_query_int(&query, last.seq);
        qn_query_int(&query, (int64_t)remaining_count(recovering));
        status = read_leases(recovering, &query, &count, err);
        for (size_t i = 0; status == QUERN_OK && i < count; i++) {
            last = recovering->leases[i];
            status = end_if_ours(recovering, queue, &last, err);
        }
    }
    return status;
}

/* The record goes when nothing is left that belongs to it. */
static quern_status remove_worker(struct recovering *recovering,
                                  const struct qn_worker_fate *worker, quern_error *err)
{
    quern_status status = qn_solo_return(recovering->conn, worker->id, recovering->counters.now_ms,
                                         QN_SOLO_DEATH_MS, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(recovering->conn, sql_recover_remove_worker);
    qn_query_int(&query, worker->death.no);
    return qn_query_run(&query, NULL, err);
}

static quern_status end_dead_workers(struct recovering *recovering, struct qn_names queues,
                                     quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t w = 0;
         status == QUERN_OK && w < recovering->fates.count && remaining_count(recovering) > 0;
         w++) {
        struct qn_worker_fate *worker = &recovering->fates.workers[w];
        for (size_t i = 0; status == QUERN_OK && worker->fate == QN_FATE_GONE && i < queues.count;
             i++) {
            struct qn_counted_queue *queue = NULL;
            status = qn_queue_counters_queue(&recovering->counters, queues.items[i], &queue, err);
            if (status == QUERN_OK) {
                status = end_worker(recovering, queue, worker, err);
            }
        }
        if (status == QUERN_OK &&
            (worker->fate == QN_FATE_GONE || worker->fate == QN_FATE_SILENT)) {
            status = remove_worker(recovering, worker, err);
        }
    }
    return status;
}

static quern_status end_leases(struct recovering *recovering, struct qn_names queues,
                               quern_error *err)
{
    quern_status status = enter_boot(recovering, err);
    if (status == QUERN_OK) {
        status = end_dead_workers(recovering, queues, err);
    }
    bool rests = qn_clock_mono_ns() < atomic_load(&recovering->self->rest_until_mono_ns);
    for (size_t i = 0; status == QUERN_OK && i < queues.count && !rests; i++) {
        struct qn_counted_queue *queue = NULL;
        status = qn_queue_counters_queue(&recovering->counters, queues.items[i], &queue, err);
        if (status == QUERN_OK) {
            status = end_expired(recovering, queue, err);
        }
    }
    if (status == QUERN_OK) {
        status = qn_queue_counters_write(&recovering->counters, err);
    }
    return status;
}

static quern_status run_recovery(struct recovering *recovering, struct qn_names queues,
                                 quern_error *err)
{
    recovering->report = qn_alloc_zero(recovering->limit, sizeof recovering->report[0]);
    recovering->leases = qn_alloc_zero(recovering->limit, sizeof recovering->leases[0]);
    if (recovering->report == NULL || recovering->leases == NULL) {
        return qn_error_nomem(err); /* qn_sqlite_recover frees the other */
    }
    quern_status status = qn_transaction_begin(recovering->self, false, &recovering->conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    recovering->counters.conn = recovering->conn;
    status = end_leases(recovering, queues, err);
    if (status != QUERN_OK) {
        qn_transaction_rollback(recovering->self);
        return status;
    }
    return qn_transaction_commit(recovering->self, err);
}

quern_status qn_sqlite_recover(struct qn_broker *broker, struct qn_upkeep upkeep,
                               const struct qn_recovery_sink *sink, size_t *ret_recovered,
                               quern_error *err)
{
    struct recovering recovering = {.self = qn_sqlite_of(broker), .limit = upkeep.limit};
    int64_t now_ms = 0;
    qn_clock_both_ms(broker->clock, &now_ms, &recovering.now_boot_ms);
    recovering.fates = (struct qn_worker_fates){.self = recovering.self,
                                                .arena = &recovering.arena,
                                                .now_ms = now_ms,
                                                .now_boot_ms = recovering.now_boot_ms};
    qn_queue_counters_init(&recovering.counters, NULL, now_ms);
    recovering.counters.shift_ms =
        qn_delay_clock_shift_of(recovering.self, now_ms, recovering.now_boot_ms);
    bool work = false;
    bool more = false; /* the next call puts them right */
    quern_status status = qn_sqlite_redate(recovering.self, &more, err);
    if (status == QUERN_OK) {
        status = peek(&recovering, &work, err);
    }
    if (status == QUERN_OK && work && upkeep.limit > 0) {
        status = run_recovery(&recovering, upkeep.queues, err);
    }
    if (status == QUERN_OK) {
        if (recovering.counters.wake) {
            qn_waiters_wake(recovering.self);
        }
        qn_waiters_report_ends(recovering.self, &recovering.counters.ends);
        for (size_t i = 0; sink != NULL && i < recovering.count; i++) {
            sink->on_recovery(&recovering.report[i], sink->user);
        }
        *ret_recovered = recovering.count;
    }
    qn_free(recovering.report);
    qn_free(recovering.leases);
    qn_free(recovering.fates.workers);
    qn_arena_finish(&recovering.arena);
    qn_queue_counters_finish(&recovering.counters);
    return status;
}
