/* SPDX-License-Identifier: MIT */
/* exchange.c - the heart: outcomes in, runs out, in one transaction.
 *
 * Was this request answered before? Then the same answer again. Else: apply the outcomes, note
 * which runs have started, lease up to `room` runs, write the counters, remember the answer,
 * commit. A failure before the commit undoes all of it. Sleeping workers are woken after the commit
 * when a task came back to pending or will be due before all others. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "broker/sqlite/exchange.h"
#include "broker/sqlite/outcome_sql.h"

/* The answer as it is remembered. */
struct packed {
    int64_t first_token;
    uint32_t run_count;
    uint32_t more;
    uint8_t applied[QN_BATCH_MAX];
};

static size_t packed_size(const struct qn_exchange *exchange)
{
    return offsetof(struct packed, applied) + exchange->outcome_count;
}

static quern_status apply_outcomes(struct qn_ledger *ledger, const struct qn_exchange *exchange,
                                   struct qn_exchange_reply *reply, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < exchange->outcome_count; i++) {
        status = qn_outcome_apply(ledger, &exchange->outcomes[i], &reply->applied[i], err);
    }
    return status;
}

static quern_status mark_starts(struct qn_ledger *ledger, const struct qn_exchange *exchange,
                                quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < exchange->start_count; i++) {
        struct qn_query query = qn_query_start(ledger->conn, sql_mark_started);
        qn_query_int(&query, exchange->starts[i]->row);
        qn_query_int(&query, (int64_t)exchange->starts[i]->token);
        qn_query_int(&query, ledger->now_ms);
        status = qn_query_run(&query, NULL, err);
    }
    return status;
}

/* What the caller learns of its queues. */
static quern_status describe_queues(struct qn_ledger *ledger, struct qn_exchange *exchange,
                                    quern_error *err)
{
    for (size_t i = 0; i < exchange->queue_count; i++) {
        struct qn_ledger_queue *queue = NULL;
        quern_status status = qn_ledger_queue(ledger, exchange->queues[i].name, &queue, err);
        if (status != QUERN_OK) {
            return status;
        }
        exchange->queues[i].paused = queue->paused;
        exchange->queues[i].crash_streak = (uint32_t)queue->crash_streak;
    }
    return QUERN_OK;
}

static quern_status keep_reply(struct qn_ledger *ledger, const struct qn_exchange *exchange,
                               const struct qn_lease_terms *terms,
                               const struct qn_exchange_reply *reply, quern_error *err)
{
    struct packed packed = {.first_token = terms->first_token,
                            .run_count = (uint32_t)reply->run_count,
                            .more = reply->more ? 1 : 0};
    for (size_t i = 0; i < exchange->outcome_count; i++) {
        packed.applied[i] = (uint8_t)reply->applied[i];
    }
    return qn_sqlite_session_keep(ledger->conn, exchange->stamp, ledger->now_ms, &packed,
                                  packed_size(exchange), err);
}

static quern_status find_reply(struct qn_ledger *ledger, struct qn_exchange *exchange,
                               struct qn_lease_terms *terms, struct qn_exchange_reply *reply,
                               bool *ret_known, quern_error *err)
{
    struct packed packed = {0};
    quern_status status = qn_sqlite_session_find(ledger->conn, exchange->stamp, &packed,
                                                 packed_size(exchange), ret_known, err);
    if (status != QUERN_OK || !*ret_known) {
        return status;
    }
    for (size_t i = 0; i < exchange->outcome_count; i++) {
        reply->applied[i] = (enum qn_applied)packed.applied[i];
    }
    if (packed.run_count > exchange->room) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the request that was sent before asked for more");
    }
    terms->first_token = packed.first_token;
    reply->more = packed.more != 0;
    return qn_lease_again(ledger->conn, exchange, terms, packed.run_count, reply, err);
}

/* All that is done inside the transaction, for a request that is new. */
static quern_status work(struct qn_ledger *ledger, struct qn_exchange *exchange,
                         struct qn_lease_terms *terms, struct qn_exchange_reply *reply,
                         quern_error *err)
{
    quern_status status = apply_outcomes(ledger, exchange, reply, err);
    if (status == QUERN_OK) {
        status = mark_starts(ledger, exchange, err);
    }
    if (status == QUERN_OK && exchange->room > 0) {
        status = qn_lease_take(ledger, exchange, terms, reply, err);
    }
    if (status == QUERN_OK) {
        status = describe_queues(ledger, exchange, err);
    }
    if (status == QUERN_OK) {
        status = qn_ledger_write(ledger, err);
    }
    if (status == QUERN_OK) {
        status = keep_reply(ledger, exchange, terms, reply, err);
    }
    return status;
}

quern_status qn_sqlite_exchange(struct qn_broker *broker, struct qn_exchange *exchange,
                                struct qn_exchange_reply *reply, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    QN_ASSERT(exchange->outcome_count <= QN_BATCH_MAX);
    struct qn_lease_terms terms = {.now_wall_ms = qn_clock_wall_ms(broker->clock),
                                   .now_boot_ms = qn_clock_boot_ms(broker->clock)};
    struct qn_conn *conn = NULL;
    qn_exchange_clear(exchange, reply);
    quern_status status = qn_sqlite_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_ledger ledger;
    qn_ledger_init(&ledger, conn, terms.now_wall_ms);
    ledger.shift_ms = qn_sqlite_shift_ms(self);
    bool known = false;
    status = find_reply(&ledger, exchange, &terms, reply, &known, err);
    if (status == QUERN_OK && known) {
        status = describe_queues(&ledger, exchange, err);
    } else if (status == QUERN_OK) {
        status = work(&ledger, exchange, &terms, reply, err);
    }
    if (status == QUERN_OK && !known) {
        status = qn_sqlite_commit(self, err);
    } else {
        qn_sqlite_rollback(self);
    }
    if (status == QUERN_OK && (ledger.wake || known)) {
        qn_sqlite_wake(self);
    }
    if (status != QUERN_OK) {
        qn_exchange_free_runs(reply);
    }
    qn_ledger_finish(&ledger);
    return status;
}
