/* SPDX-License-Identifier: MIT */
/* exchange.c - the central operation: outcomes in, runs out, in one transaction.
 *
 * If this request was answered before, the same outcomes and runs are returned. Else: apply the
 * outcomes, note which runs have started, serve requests for solo locks, lease up to `room` runs,
 * write the counters and brakes, store the reply, commit. A failure before the commit undoes all of
 * it. Sleeping workers are woken after the commit when a task came back to pending or will be due
 * before all others; and after a repeated request, as the first may not have got so far. */
#include "broker/sqlite/run/exchange.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "broker/sqlite/queue/brake.h"
#include "broker/sqlite/queue/solo.h"
#include "broker/sqlite/run/delay_clock.h"
#include "broker/sqlite/run/outcome_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/session.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/wait_sql.h"
#include "broker/sqlite/wake/waiters.h"
#include "task/brake.h"
#include "task/isolation.h"

/* The answer as it is remembered. */
struct packed {
    int64_t first_token;
    uint32_t run_count;
    uint32_t late_count;
    uint32_t more;
    uint32_t solo_queue;
    uint8_t applied[QN_BATCH_MAX];
};

struct exchanging {
    struct qn_queue_counters counters;
    struct qn_exchange *exchange;
    struct qn_exchange_reply *reply;
    struct qn_lease_terms terms;
    bool known; /* answered before */
};

static size_t packed_size(const struct qn_exchange *exchange)
{
    return offsetof(struct packed, applied) + exchange->outcome_count;
}

/* Whether the task is over now; else it will run again, or nothing was changed. */
static bool is_end(const struct qn_outcome *outcome, enum qn_applied applied)
{
    bool ends = outcome->kind == QN_DONE || outcome->kind == QN_DROP ||
                outcome->kind == QN_ARCHIVE || outcome->kind == QN_CANCEL;
    return applied == QN_SALVAGED || applied == QN_ARCHIVED || (applied == QN_APPLIED && ends);
}

static quern_status apply_outcomes(struct qn_queue_counters *counters,
                                   const struct qn_exchange *exchange,
                                   struct qn_exchange_reply *reply, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < exchange->outcome_count; i++) {
        const struct qn_outcome *outcome = &exchange->outcomes[i];
        status = qn_outcome_apply(counters, outcome, &reply->applied[i], err);
        if (status == QUERN_OK && is_end(outcome, reply->applied[i])) {
            const struct qn_task *task = &outcome->run->task;
            qn_notices_add(&counters->ends, qn_notices_task(task->queue, task->id));
        }
    }
    return status;
}

static quern_status mark_starts(struct qn_queue_counters *counters,
                                const struct qn_exchange *exchange, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < exchange->start_count; i++) {
        struct qn_query query = qn_query_start(counters->conn, sql_mark_started);
        qn_query_int(&query, exchange->starts[i]->row);
        qn_query_int(&query, (int64_t)exchange->starts[i]->token);
        qn_query_int(&query, counters->now_ms);
        status = qn_query_run(&query, NULL, err);
    }
    return status;
}

static quern_status has_pending(struct qn_conn *conn, int64_t queue_no, bool *ret_has,
                                quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_queue_has_pending);
    qn_query_int(&query, queue_no);
    *ret_has = qn_query_row(&query) && sqlite3_column_int(query.statement, 0) != 0;
    return qn_query_finish(&query, err);
}

static quern_status wait_for_solo(struct qn_queue_counters *counters,
                                  const struct qn_exchange *exchange,
                                  const struct qn_counted_queue *queue, int64_t *ret_wait_ms,
                                  quern_error *err)
{
    int32_t level = -1;
    bool rests = queue->solo.state == QN_SOLO_FREE; /* else its return sends a wake-up of its own */
    int64_t wait_ms = rests ? qn_solo_wait_ms(&queue->solo, counters->now_ms) : 0;
    quern_status status =
        wait_ms > 0 ? qn_solo_level(counters->conn, queue->no, &level, err) : QUERN_OK;
    *ret_wait_ms = qn_isolation_is_solo(&exchange->isolation, level) ? wait_ms : 0;
    return status;
}

/* When the next probe may go. The end of a running probe sends a wake-up of its own. A probe that
 * is due but was not leased may be a task that must run alone. */
static quern_status wait_for_probe(struct qn_queue_counters *counters,
                                   const struct qn_exchange *exchange,
                                   const struct qn_counted_queue *queue, int64_t *ret_wait_ms,
                                   quern_error *err)
{
    int64_t probe = 0;
    bool has = false;
    quern_status status = qn_brake_probe(counters->conn, queue->no, &queue->brake, &probe, err);
    if (status == QUERN_OK && probe == 0) {
        status = has_pending(counters->conn, queue->no, &has, err);
    }
    *ret_wait_ms = has ? qn_brake_wait_ms(&queue->brake, counters->now_ms) : 0;
    return status == QUERN_OK && has && *ret_wait_ms == 0
               ? wait_for_solo(counters, exchange, queue, ret_wait_ms, err)
               : status;
}

/* Fills the part of the reply about the caller's queues. */
static quern_status describe_queues(struct qn_queue_counters *counters,
                                    struct qn_exchange *exchange, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < exchange->queue_count; i++) {
        struct qn_queue_share *out = &exchange->queues[i];
        struct qn_counted_queue *queue = NULL;
        status = qn_queue_counters_queue(counters, out->name, &queue, err);
        if (status != QUERN_OK) {
            return status;
        }
        out->paused = queue->paused;
        out->braked = qn_brake_is_on(&queue->brake);
        out->deaths = queue->brake.streak < UINT32_MAX ? (uint32_t)queue->brake.streak : UINT32_MAX;
        out->wait_ms = 0;
        int64_t limit_wait_ms = queue->limit_wait_ms;
        if (queue->no != 0 && !queue->paused) {
            status = out->braked ? wait_for_probe(counters, exchange, queue, &out->wait_ms, err)
                                 : wait_for_solo(counters, exchange, queue, &out->wait_ms, err);
        }
        if (limit_wait_ms > 0 && (out->wait_ms == 0 || limit_wait_ms < out->wait_ms)) {
            out->wait_ms = limit_wait_ms;
        }
    }
    return status;
}

static quern_status keep_reply(const struct exchanging *self, quern_error *err)
{
    const struct qn_exchange *exchange = self->exchange;
    struct packed packed = {.first_token = self->terms.first_token,
                            .run_count = (uint32_t)self->reply->run_count,
                            .late_count = (uint32_t)self->reply->late_count,
                            .more = self->reply->more ? 1 : 0,
                            .solo_queue = self->terms.solo_queue};
    for (size_t i = 0; i < exchange->outcome_count; i++) {
        packed.applied[i] = (uint8_t)self->reply->applied[i];
    }
    const struct qn_bytes bytes = {.data = &packed, .size = packed_size(exchange)};
    return qn_sqlite_session_keep(self->counters.conn, exchange->stamp, self->counters.now_ms,
                                  bytes, err);
}

static quern_status find_reply(struct exchanging *self, quern_error *err)
{
    struct qn_exchange *exchange = self->exchange;
    struct packed packed = {0};
    const struct qn_room room = {.data = &packed, .size = packed_size(exchange)};
    quern_status status =
        qn_sqlite_session_find(self->counters.conn, exchange->stamp, room, &self->known, err);
    if (status != QUERN_OK || !self->known) {
        return status;
    }
    for (size_t i = 0; i < exchange->outcome_count; i++) {
        self->reply->applied[i] = (enum qn_applied)packed.applied[i];
    }
    if (packed.run_count > exchange->room) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the request that was sent before asked for more");
    }
    self->terms.first_token = packed.first_token;
    self->terms.run_count = packed.run_count;
    self->terms.solo_queue = packed.solo_queue;
    self->reply->late_count = packed.late_count;
    self->reply->more = packed.more != 0;
    return qn_lease_again(self->counters.conn, exchange, &self->terms, self->reply, err);
}

/* All that is done inside the transaction. */
static quern_status work(struct exchanging *self, quern_error *err)
{
    struct qn_queue_counters *counters = &self->counters;
    struct qn_exchange *exchange = self->exchange;
    quern_status status = find_reply(self, err);
    if (status != QUERN_OK || self->known) {
        return status == QUERN_OK ? describe_queues(counters, exchange, err) : status;
    }
    status = apply_outcomes(counters, exchange, self->reply, err);
    if (status == QUERN_OK) {
        status = mark_starts(counters, exchange, err);
    }
    if (status == QUERN_OK && (exchange->room > 0 || exchange->solo != QN_SOLO_NONE)) {
        status = qn_lease_take(counters, exchange, &self->terms, self->reply, err);
    }
    if (status == QUERN_OK) {
        status = describe_queues(counters, exchange, err);
    }
    if (status == QUERN_OK) {
        status = qn_queue_counters_write(counters, err);
    }
    if (status == QUERN_OK) {
        status = keep_reply(self, err);
    }
    return status;
}

static void init_counters(struct exchanging *self, struct qn_sqlite *sqlite, struct qn_conn *conn)
{
    const struct qn_lease_terms *terms = &self->terms;
    qn_queue_counters_init(&self->counters, conn, terms->now_wall_ms);
    self->counters.host = self->exchange->host;
    self->counters.worker_id = self->exchange->worker_id;
    self->counters.reporter = (struct qn_run_reporter){.host = self->exchange->host,
                                                       .worker_id = self->exchange->worker_id};
    self->counters.now_boot_ms = terms->now_boot_ms;
    self->counters.is_leaving = self->exchange->is_leaving;
    self->counters.shift_ms =
        qn_delay_clock_shift_of(sqlite, terms->now_wall_ms, terms->now_boot_ms);
}

quern_status qn_sqlite_exchange(struct qn_broker *broker, struct qn_exchange *exchange,
                                struct qn_exchange_reply *reply, quern_error *err)
{
    struct qn_sqlite *sqlite = qn_sqlite_of(broker);
    QN_ASSERT(exchange->outcome_count <= QN_BATCH_MAX);
    struct exchanging self = {.exchange = exchange,
                              .reply = reply,
                              .terms = {.solo_queue = (uint32_t)exchange->queue_count}};
    struct qn_conn *conn = NULL;
    qn_exchange_clear(exchange, reply);
    quern_status status = qn_transaction_begin(sqlite, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    /* Not before: a limit of starts takes a clock that goes back from one writer to the next for
     * one that was turned back, and lets time pass twice. */
    qn_clock_both_ms(broker->clock, &self.terms.now_wall_ms, &self.terms.now_boot_ms);
    init_counters(&self, sqlite, conn);
    status = work(&self, err);
    if (status == QUERN_OK && !self.known) {
        status = qn_transaction_commit(sqlite, err);
    } else {
        qn_transaction_rollback(sqlite);
    }
    if (status == QUERN_OK && (self.counters.wake || self.known)) {
        qn_waiters_wake(sqlite);
    }
    if (self.known) {
        self.counters.ends.all = true; /* the first request named them, or died before */
    }
    if (status == QUERN_OK) {
        qn_waiters_report_ends(sqlite, &self.counters.ends);
    }
    if (status != QUERN_OK) {
        qn_exchange_free_runs(reply);
    } else if (exchange->solo != QN_SOLO_NONE) {
        exchange->solo_queue = self.terms.solo_queue;
    }
    qn_queue_counters_finish(&self.counters);
    return status;
}
