/* SPDX-License-Identifier: MIT */
/* lease.c - takes runs for a worker: the second half of an exchange.
 *
 * First all runs are picked (pick.c), queue by queue, each queue from where the last reading ended:
 * its quota, then what other queues could not fill (src/task/choice.h). When many tasks were past
 * their deadline, leasing ends early, so that the transaction stays short, and the reply reports
 * that. Then the runs, in the order in which the caller gets them, are given their tokens and
 * written. */
#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "broker/sqlite/queue/locks.h"
#include "broker/sqlite/run/lease_batch.h"
#include "broker/sqlite/run/lease_sql.h"
#include "broker/sqlite/run/limits/lanes.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "task/brake.h"
#include "task/choice.h"

/* Takes up to `want` runs of one queue. Short means that it has no more to give, or that taking
 * ends early. */
static quern_status take_from_queue(struct qn_lease_batch *batch, size_t queue_index, size_t want,
                                    quern_error *err)
{
    struct qn_queue_progress *state = &batch->progress[queue_index];
    struct qn_lease_source source;
    quern_status status = qn_lease_batch_source(batch, queue_index, &source, err);
    if (status != QUERN_OK) {
        return status;
    }
    const struct qn_counted_queue *queue = source.queue;
    state->empty = state->empty || queue->no == 0 || queue->paused;
    if (!state->empty && qn_brake_is_on(&queue->brake)) {
        state->empty = true;
        return qn_pick_probe(batch, &source, err);
    }
    size_t full = batch->count + want;
    size_t room = want;
    if (!state->empty && queue->limits != 0) {
        status = qn_lease_limits_room(batch, &source, want, &room, err);
        full = batch->count + room;
    }
    while (status == QUERN_OK && batch->count < full && !state->empty &&
           !qn_lease_batch_ends_early(batch)) {
        status = queue->lanes == 0 ? qn_pick_pending(batch, &source, full - batch->count, err)
                                   : qn_lanes_pick(batch, &source, full - batch->count, err);
    }
    if (room < want) {
        state->empty = true;
        status = status == QUERN_OK ? qn_lease_limits_room(batch, &source, 1, &room, err) : status;
    }
    return status;
}

static quern_status take_strict(struct qn_lease_batch *batch, quern_error *err)
{
    quern_status status = QUERN_OK;
    size_t room = batch->exchange->room;
    for (size_t i = 0; status == QUERN_OK && i < batch->exchange->queue_count; i++) {
        if (batch->count < room && !qn_lease_batch_ends_early(batch)) {
            status = take_from_queue(batch, i, room - batch->count, err);
        }
    }
    return status;
}

static quern_status take_weighted(struct qn_lease_batch *batch, quern_error *err)
{
    const struct qn_exchange *exchange = batch->exchange;
    size_t queue_count = exchange->queue_count;
    uint32_t weights[QN_QUEUES_MAX];
    uint32_t want[QN_QUEUES_MAX];
    bool more[QN_QUEUES_MAX];
    for (size_t i = 0; i < queue_count; i++) {
        weights[i] = exchange->queues[i].weight;
        want[i] = exchange->queues[i].quota;
    }
    for (;;) {
        for (size_t i = 0; i < queue_count; i++) {
            size_t room = exchange->room - batch->count;
            size_t part = want[i] < room ? want[i] : room;
            quern_status status = part > 0 ? take_from_queue(batch, i, part, err) : QUERN_OK;
            if (status != QUERN_OK) {
                return status;
            }
            more[i] = !batch->progress[i].empty;
            want[i] = 0;
        }
        size_t missing = exchange->room - batch->count;
        if (missing == 0 || qn_lease_batch_ends_early(batch) ||
            qn_choice_redraw(weights, more, queue_count, missing, want) == 0) {
            return QUERN_OK;
        }
    }
}

/* By queue, and within it in the order of leasing: runs from redraws are moved to their queue. */
static void order_runs(struct qn_lease_batch *batch)
{
    struct qn_leased *ordered[QN_BATCH_MAX];
    size_t at = 0;
    for (size_t queue_index = 0; queue_index < batch->exchange->queue_count; queue_index++) {
        for (size_t i = 0; batch->exchange->queues[queue_index].leased > 0 && i < batch->count;
             i++) {
            if (batch->runs[i]->queue_index == queue_index) {
                ordered[at++] = batch->runs[i];
            }
        }
    }
    QN_ASSERT(at == batch->count);
    memcpy(batch->runs, ordered, at * sizeof ordered[0]);
}

static quern_status find_worker(struct qn_conn *conn, const char *id, int64_t *ret_no,
                                quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_worker_no);
    qn_query_text(&query, id);
    *ret_no = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    return qn_query_finish(&query, err);
}

/* The run of a braked queue is its probe from now on. */
static quern_status note_probe(struct qn_lease_batch *batch, const struct qn_leased *run,
                               quern_error *err)
{
    struct qn_counted_queue *queue = NULL;
    quern_status status = qn_queue_counters_queue(batch->counters, run->task.queue, &queue, err);
    if (status == QUERN_OK) {
        queue->brake.probe_token = run->token;
        queue->brake_changed = true;
    }
    return status;
}

static quern_status repair(struct qn_lease_batch *batch, const struct qn_leased *run,
                           quern_error *err)
{
    if (run->retry_count <= run->task.retry_max) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lease_repair);
    qn_query_int(&query, run->row);
    return qn_query_run(&query, NULL, err);
}

/* `again`: the run before was written to the same effect but for its row and token; a statement
 * keeps the values that are not bound again, and binding them costs a lease one percent. */
static quern_status write_lease(struct qn_lease_batch *batch, struct qn_leased *run,
                                int64_t worker_no, bool again, quern_error *err)
{
    const struct qn_lease_terms *terms = batch->terms;
    quern_status status = repair(batch, run, err);
    if (status != QUERN_OK) {
        return status;
    }
    run->fence = run->token;
    run->leased_at_boot_ms = terms->now_boot_ms;
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lease_write);
    qn_query_int(&query, run->row);
    qn_query_int(&query, (int64_t)run->token);
    if (!again) {
        qn_query_int(&query, terms->now_boot_ms + batch->exchange->lease_ms);
        qn_query_int(&query, worker_no);
        qn_query_int(&query, run->started ? 1 : 0);
        qn_query_int(&query, run->started ? terms->now_wall_ms : 0);
    }
    status = qn_query_run(&query, NULL, err);
    if (status == QUERN_OK && run->task.unique_key != NULL) {
        status =
            qn_locks_leased(batch->counters->conn, run->row, run->task.unique_until,
                            (struct qn_span){terms->now_wall_ms, batch->exchange->lease_ms}, err);
    }
    if (status == QUERN_OK && batch->progress[run->queue_index].probe) {
        status = note_probe(batch, run, err);
    }
    return status;
}

static bool is_started(struct qn_lease_batch *batch, const struct qn_leased *run)
{
    bool in_any_case = run->crash_count > 0 && !QN_BUG(CHARGE_NOT_MARKED);
    if (in_any_case || batch->progress[run->queue_index].probe) {
        return true;
    }
    bool started = batch->starts_left > 0;
    batch->starts_left -= started ? 1 : 0;
    return started;
}

static quern_status write_leases(struct qn_lease_batch *batch, quern_error *err)
{
    struct qn_lease_terms *terms = batch->terms;
    struct qn_conn *conn = batch->counters->conn;
    int64_t worker_no = 0;
    quern_status status = find_worker(conn, batch->exchange->worker_id, &worker_no, err);
    if (status == QUERN_OK) {
        status = qn_tables_numbers(conn, batch->count, &terms->first_token, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < batch->count; i++) {
        struct qn_leased *run = batch->runs[i];
        run->token = (uint64_t)terms->first_token + i;
        run->started = is_started(batch, run);
        bool again = i > 0 && batch->runs[i - 1]->started == run->started;
        status = write_lease(batch, run, worker_no, again, err);
    }
    return status;
}

static quern_status pick_all(struct qn_lease_batch *batch, uint32_t *ret_solo_queue,
                             quern_error *err)
{
    const struct qn_exchange *exchange = batch->exchange;
    bool usual = false;
    quern_status status = qn_lease_solo(batch, ret_solo_queue, &usual, err);
    if (status == QUERN_OK && usual && exchange->room > 0) {
        status = exchange->strict ? take_strict(batch, err) : take_weighted(batch, err);
    }
    return status;
}

/* Writes what was used of limits and whose turn was last, unless the lease has failed already. */
static quern_status finish_limits(struct qn_lease_batch *batch, quern_status status,
                                  quern_error *err)
{
    if (status == QUERN_OK) {
        status = qn_meters_write(&batch->meters, err);
    }
    qn_meters_finish(&batch->meters);
    quern_status finished = qn_lanes_finish(batch, status == QUERN_OK, err);
    return status == QUERN_OK ? finished : status;
}

quern_status qn_lease_take(struct qn_queue_counters *counters, struct qn_exchange *exchange,
                           struct qn_lease_terms *terms, struct qn_exchange_reply *reply,
                           quern_error *err)
{
    QN_ASSERT(exchange->room <= QN_BATCH_MAX);
    QN_ASSERT(exchange->queue_count <= QN_QUEUES_MAX);
    struct qn_lease_batch batch = {.counters = counters,
                                   .exchange = exchange,
                                   .terms = terms,
                                   .runs = reply->runs,
                                   .starts_left = exchange->start_count_now,
                                   .isolation = exchange->isolation};
    qn_meters_init(&batch.meters, counters->conn, terms->now_wall_ms);
    quern_status status = pick_all(&batch, &terms->solo_queue, err);
    if (status == QUERN_OK && batch.count > 0) {
        order_runs(&batch);
        status = write_leases(&batch, err);
    }
    status = finish_limits(&batch, status, err);
    qn_slab_finish(&batch.slab);
    if (status != QUERN_OK) {
        for (size_t i = 0; i < batch.count; i++) {
            qn_leased_free(batch.runs[i]);
            batch.runs[i] = NULL;
        }
        return status;
    }
    reply->run_count = terms->run_count = batch.count;
    reply->late_count = batch.late_count;
    reply->more = batch.count < exchange->room && qn_lease_batch_ends_early(&batch);
    return QUERN_OK;
}

/* The runs of one queue that have one of these tokens. */
static quern_status take_again(struct qn_lease_batch *batch, size_t queue_index, quern_error *err)
{
    const struct qn_lease_terms *terms = batch->terms;
    struct qn_rows rows;
    struct qn_lease_source source;
    quern_status status = qn_lease_batch_source(batch, queue_index, &source, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lease_replay);
    qn_query_int(&query, source.queue->no);
    qn_query_int(&query, terms->first_token);
    qn_query_int(&query, terms->first_token + (int64_t)terms->run_count - 1);
    status = qn_lease_row_read_all(batch, &source, &query, &rows, err);
    for (size_t i = 0; i < rows.count; i++) {
        struct qn_leased *run = rows.items[i].run;
        if (batch->count == terms->run_count) { /* two tasks with one token: see the doctor */
            qn_leased_free(run);
            continue;
        }
        run->fence = run->token;
        run->leased_at_boot_ms = terms->now_boot_ms;
        batch->exchange->queues[queue_index].leased++;
        batch->runs[batch->count++] = run;
    }
    return status;
}

quern_status qn_lease_again(struct qn_conn *conn, struct qn_exchange *exchange,
                            struct qn_lease_terms *terms, struct qn_exchange_reply *reply,
                            quern_error *err)
{
    struct qn_queue_counters counters;
    qn_queue_counters_init(&counters, conn, terms->now_wall_ms);
    struct qn_lease_batch batch = {
        .counters = &counters, .exchange = exchange, .terms = terms, .runs = reply->runs};
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && terms->run_count > 0 && i < exchange->queue_count;
         i++) {
        status = take_again(&batch, i, err);
    }
    qn_queue_counters_finish(&counters);
    qn_slab_finish(&batch.slab);
    for (size_t i = 0; status != QUERN_OK && i < batch.count; i++) {
        qn_leased_free(reply->runs[i]);
        reply->runs[i] = NULL;
    }
    reply->run_count = status == QUERN_OK ? batch.count : 0;
    return status;
}
