/* SPDX-License-Identifier: MIT */
/* recover.c - returns the tasks of workers that are gone.
 *
 * A look on the reading connection comes first: which workers are dead (their process is gone, see
 * owner.h), is any lease expired? Usually nothing is found, and nothing is locked. Then, in one
 * transaction, up to `limit` leases end as by a crash, through the same ledger as crashed runs: of
 * dead workers at once, of all others when their lease is over. The death of one worker is one
 * event of the crash streak, however many runs it held.
 *
 * Leases are on the clock of this boot. After a reboot the first call finds another boot id in
 * quern_meta and voids all that workers of this boot do not hold. A file that several hosts share
 * (unsafe_fs=1) has leases on several clocks: those of another boot are judged by the heartbeat on
 * the wall clock instead. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/error.h"
#include "broker/owner.h"
#include "broker/sqlite/ledger.h"
#include "broker/sqlite/recover_sql.h"
#include "broker/sqlite/redate_sql.h"

#define SILENT_AFTER_MS 60000
#define LEASE_VOID 1 /* quern_task.lease_until */

enum fate {
    KEEP,    /* alive, or only its lease can tell */
    GONE,    /* its leases end now */
    SILENT,  /* cannot be judged, no heartbeat for long: its record goes once it holds nothing */
    FOREIGN, /* its leases are on another clock: not to be judged yet */
};

struct worker {
    int64_t no;
    enum fate fate;
};

struct lease {
    int64_t seq;
    uint64_t token;
    const char *id; /* in the arena */
    bool started;
    int64_t worker;
    int64_t lease_until;
};

struct recovering {
    struct qn_sqlite *self;
    struct qn_conn *conn;
    struct qn_ledger ledger;
    struct qn_arena arena; /* ids */
    struct worker *workers;
    size_t worker_count;
    bool new_boot;
    char boot_id[QN_BOOT_ID_SIZE];
    int64_t now_boot_ms;
    struct qn_recovery *report; /* room for `limit`; told after the commit */
    struct lease *leases;       /* the same; read before they are ended */
    size_t limit;
    size_t count;
};

static enum fate judge(const struct recovering *recovering, const char *owner,
                       int64_t heartbeat_at_ms)
{
    bool silent = recovering->ledger.now_ms - heartbeat_at_ms > SILENT_AFTER_MS;
    if (!qn_owner_same_boot(owner)) {
        if (recovering->self->unsafe_fs) {
            return silent ? GONE : FOREIGN;
        }
        return silent ? SILENT : KEEP;
    }
    switch (qn_owner_judge(owner)) {
    case QN_OWNER_DEAD:
        return GONE;
    case QN_OWNER_ALIVE:
        return KEEP;
    case QN_OWNER_UNKNOWN:
        break;
    }
    return silent ? SILENT : KEEP;
}

static quern_status read_workers(struct recovering *recovering, quern_error *err)
{
    size_t capacity = 0;
    bool out_of_memory = false;
    struct qn_query query = qn_query_start(recovering->conn, sql_recover_workers);
    while (!out_of_memory && qn_query_row(&query)) {
        if (recovering->worker_count == capacity) {
            capacity = capacity == 0 ? 8 : capacity * 2;
            struct worker *workers =
                qn_realloc(recovering->workers, capacity * sizeof recovering->workers[0]);
            if (workers == NULL) {
                out_of_memory = true;
                break;
            }
            recovering->workers = workers;
        }
        recovering->workers[recovering->worker_count++] =
            (struct worker){.no = sqlite3_column_int64(query.statement, 0),
                            .fate = judge(recovering, qn_query_column_text(&query, 1),
                                          qn_column_moment_ms(query.statement, 2))};
    }
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && out_of_memory ? qn_error_nomem(err) : status;
}

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
    quern_status status = qn_sqlite_read_begin(recovering->self, &recovering->conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = read_workers(recovering, err);
    if (status == QUERN_OK) {
        status = read_boot(recovering, &unset, err);
    }
    if (status == QUERN_OK) {
        status = any_expired(recovering, &expired, err);
    }
    qn_sqlite_read_end(recovering->self);
    bool work = expired || recovering->new_boot;
    for (size_t i = 0; i < recovering->worker_count; i++) {
        enum fate fate = recovering->workers[i].fate;
        work = work || fate == GONE || fate == SILENT;
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
    return status;
}

static size_t left(const struct recovering *recovering)
{
    return recovering->limit - recovering->count;
}

/* Reads all rows of a statement that has LIMIT left(recovering). */
static quern_status read_leases(struct recovering *recovering, struct qn_query *query,
                                size_t *ret_count, quern_error *err)
{
    size_t count = 0;
    bool memory = true;
    while (memory && qn_query_row(query)) {
        QN_ASSERT(count < left(recovering));
        struct lease *lease = &recovering->leases[count++];
        *lease = (struct lease){
            .seq = sqlite3_column_int64(query->statement, 0),
            .token = (uint64_t)sqlite3_column_int64(query->statement, 1),
            .id = qn_arena_strdup(&recovering->arena, qn_query_column_text(query, 2)),
            .started = sqlite3_column_int(query->statement, 3) != 0,
            .worker = sqlite3_column_int64(query->statement, 4),
            .lease_until = sqlite3_column_int64(query->statement, 5)};
        memory = lease->id != NULL;
    }
    *ret_count = count;
    quern_status status = qn_query_finish(query, err);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}

static quern_status end_lease(struct recovering *recovering, struct qn_ledger_queue *queue,
                              const struct lease *lease, quern_cause cause, bool charge,
                              quern_error *err)
{
    struct qn_crash crash = {.seq = lease->seq,
                             .token = lease->token,
                             .id = lease->id,
                             .started = lease->started,
                             .cause = cause};
    enum qn_crash_result result = QN_CRASH_STALE;
    quern_status status = qn_crash_apply(&recovering->ledger, queue, &crash, charge, &result, err);
    if (status != QUERN_OK) {
        return status;
    }
    recovering->report[recovering->count++] =
        (struct qn_recovery){.queue = queue->name,
                             .id = lease->id,
                             .cause = cause,
                             .charged = result == QN_CRASH_CHARGED || result == QN_CRASH_POISON,
                             .archived = result == QN_CRASH_POISON};
    return QUERN_OK;
}

/* The death of one worker: an event of the streak in the first call that ends runs of it. */
struct death {
    int64_t worker_no;
    bool noted;
    bool first_call;
};

static quern_status note_death(struct recovering *recovering, struct death *death, quern_error *err)
{
    if (death->noted) {
        return QUERN_OK;
    }
    int64_t changes = 0;
    struct qn_query query = qn_query_start(recovering->conn, sql_recover_note_death);
    qn_query_int(&query, death->worker_no);
    quern_status status = qn_query_run(&query, &changes, err);
    death->noted = true;
    death->first_call = changes > 0;
    return status;
}

/* The leases of one dead worker in one queue, the most suspect task first: it names the event. */
static quern_status end_worker(struct recovering *recovering, struct qn_ledger_queue *queue,
                               struct death *death, quern_error *err)
{
    bool charge = qn_crash_chargeable(queue);
    bool counted = false;
    size_t count = 0;
    struct qn_query query = qn_query_start(recovering->conn, sql_recover_of_worker);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, death->worker_no);
    qn_query_int(&query, (int64_t)left(recovering));
    quern_status status = read_leases(recovering, &query, &count, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct lease *lease = &recovering->leases[i];
        status = end_lease(recovering, queue, lease, QUERN_CAUSE_WORKER_DIED, charge, err);
        if (status == QUERN_OK && !counted && lease->started) {
            counted = true;
            status = note_death(recovering, death, err);
            if (status == QUERN_OK && death->first_call) {
                qn_crash_streak(queue, lease->id);
            }
        }
    }
    return status;
}

static bool is_foreign(const struct recovering *recovering, int64_t worker_no)
{
    for (size_t i = 0; i < recovering->worker_count; i++) {
        if (recovering->workers[i].no == worker_no) {
            return recovering->workers[i].fate == FOREIGN;
        }
    }
    return false;
}

static quern_status end_if_ours(struct recovering *recovering, struct qn_ledger_queue *queue,
                                const struct lease *lease, quern_error *err)
{
    if (is_foreign(recovering, lease->worker)) {
        return QUERN_OK;
    }
    quern_cause cause =
        lease->lease_until == LEASE_VOID ? QUERN_CAUSE_WORKER_DIED : QUERN_CAUSE_LEASE_EXPIRED;
    quern_status status =
        end_lease(recovering, queue, lease, cause, qn_crash_chargeable(queue), err);
    if (status == QUERN_OK && lease->started) {
        qn_crash_streak(queue, lease->id);
    }
    return status;
}

/* The leases of a queue that are over, whoever held them; foreign ones are paged past. */
static quern_status end_expired(struct recovering *recovering, struct qn_ledger_queue *queue,
                                quern_error *err)
{
    struct lease last = {0};
    quern_status status = QUERN_OK;
    size_t count = 1;
    while (status == QUERN_OK && count > 0 && left(recovering) > 0) {
        struct qn_query query = qn_query_start(recovering->conn, sql_recover_expired);
        qn_query_int(&query, queue->no);
        qn_query_int(&query, recovering->now_boot_ms);
        qn_query_int(&query, last.lease_until);
        qn_query_int(&query, last.worker);
        qn_query_int(&query, last.seq);
        qn_query_int(&query, (int64_t)left(recovering));
        status = read_leases(recovering, &query, &count, err);
        for (size_t i = 0; status == QUERN_OK && i < count; i++) {
            last = recovering->leases[i];
            status = end_if_ours(recovering, queue, &last, err);
        }
    }
    return status;
}

static quern_status end_dead_workers(struct recovering *recovering, const char *const *queues,
                                     size_t queue_count, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t w = 0; status == QUERN_OK && w < recovering->worker_count && left(recovering) > 0;
         w++) {
        const struct worker *worker = &recovering->workers[w];
        struct death death = {.worker_no = worker->no};
        for (size_t i = 0; status == QUERN_OK && worker->fate == GONE && i < queue_count; i++) {
            struct qn_ledger_queue *queue = NULL;
            status = qn_ledger_queue(&recovering->ledger, queues[i], &queue, err);
            if (status == QUERN_OK) {
                status = end_worker(recovering, queue, &death, err);
            }
        }
        if (status == QUERN_OK && (worker->fate == GONE || worker->fate == SILENT)) {
            struct qn_query query = qn_query_start(recovering->conn, sql_recover_remove_worker);
            qn_query_int(&query, worker->no);
            status = qn_query_run(&query, NULL, err);
        }
    }
    return status;
}

static quern_status end_leases(struct recovering *recovering, const char *const *queues,
                               size_t queue_count, quern_error *err)
{
    quern_status status = enter_boot(recovering, err);
    if (status == QUERN_OK) {
        status = end_dead_workers(recovering, queues, queue_count, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < queue_count; i++) {
        struct qn_ledger_queue *queue = NULL;
        status = qn_ledger_queue(&recovering->ledger, queues[i], &queue, err);
        if (status == QUERN_OK) {
            status = end_expired(recovering, queue, err);
        }
    }
    if (status == QUERN_OK) {
        status = qn_ledger_write(&recovering->ledger, err);
    }
    return status;
}

static quern_status run(struct recovering *recovering, const char *const *queues,
                        size_t queue_count, quern_error *err)
{
    recovering->report = qn_alloc_zero(recovering->limit, sizeof recovering->report[0]);
    recovering->leases = qn_alloc_zero(recovering->limit, sizeof recovering->leases[0]);
    if (recovering->report == NULL || recovering->leases == NULL) {
        return qn_error_nomem(err); /* qn_sqlite_recover frees the other */
    }
    quern_status status = qn_sqlite_begin(recovering->self, false, &recovering->conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    recovering->ledger.conn = recovering->conn;
    status = end_leases(recovering, queues, queue_count, err);
    if (status != QUERN_OK) {
        qn_sqlite_rollback(recovering->self);
        return status;
    }
    return qn_sqlite_commit(recovering->self, err);
}

quern_status qn_sqlite_recover(struct qn_broker *broker, const char *const *queues,
                               size_t queue_count, size_t limit,
                               void (*on_recovery)(const struct qn_recovery *recovery, void *user),
                               void *user, size_t *ret_recovered, quern_error *err)
{
    struct recovering recovering = {.self = qn_sqlite_of(broker),
                                    .now_boot_ms = qn_clock_boot_ms(broker->clock),
                                    .limit = limit};
    qn_ledger_init(&recovering.ledger, NULL, qn_clock_wall_ms(broker->clock));
    recovering.ledger.shift_ms = qn_sqlite_shift_ms(recovering.self);
    bool work = false;
    bool more = false; /* the next call puts them right */
    quern_status status = qn_sqlite_redate(recovering.self, &more, err);
    if (status == QUERN_OK) {
        status = peek(&recovering, &work, err);
    }
    if (status == QUERN_OK && work && limit > 0) {
        status = run(&recovering, queues, queue_count, err);
    }
    if (status == QUERN_OK) {
        if (recovering.ledger.wake) {
            qn_sqlite_wake(recovering.self);
        }
        for (size_t i = 0; on_recovery != NULL && i < recovering.count; i++) {
            on_recovery(&recovering.report[i], user);
        }
        *ret_recovered = recovering.count;
    }
    qn_free(recovering.report);
    qn_free(recovering.leases);
    qn_free(recovering.workers);
    qn_arena_finish(&recovering.arena);
    qn_ledger_finish(&recovering.ledger);
    return status;
}
