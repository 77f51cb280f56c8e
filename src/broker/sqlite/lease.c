/* SPDX-License-Identifier: MIT */
/* lease.c - takes runs for a worker: the second half of an exchange.
 *
 * First all runs are read, queue by queue, each queue from where the last reading ended: its quota,
 * then what other queues could not fill (design.md 4.2). Within a queue the tasks with a crash on
 * record stand in an index of their own; both rows are merged by place, with at most suspect_max
 * suspects in all. A task past its deadline goes to the archive instead and is not counted; when
 * many were, taking ends early, so that the transaction stays short, and the caller is told so.
 * Then the runs, in the order in which the caller gets them, are given their tokens and written. */
#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/exchange.h"
#include "broker/sqlite/lease_sql.h"
#include "task/choice.h"

struct row {
    struct qn_leased *run;
    int64_t place;
};

struct turn_state {
    int64_t place; /* the last one read */
    int64_t suspect_place;
    bool empty;
};

struct taking {
    struct qn_ledger *ledger;
    struct qn_exchange *exchange;
    struct qn_lease_terms *terms;
    struct qn_leased **runs;
    struct qn_lot lot; /* of the runs */
    size_t count;
    size_t late_count; /* archived so far */
    uint32_t suspects_left;
    struct turn_state turns[QN_QUEUES_MAX];
};

/* Copies the present row into one block; the columns are those of lease.sql. */
static struct qn_leased *copy_row(struct qn_lot *lot, sqlite3_stmt *row, const char *queue)
{
    quern_header headers[QN_HEADER_COUNT_MAX];
    const void *packed = sqlite3_column_blob(row, 14);
    size_t packed_size = (size_t)sqlite3_column_bytes(row, 14);
    size_t header_count = qn_sqlite_headers_count(packed, packed_size);
    qn_sqlite_headers_unpack(packed, packed_size, headers, header_count);
    size_t payload_size = (size_t)sqlite3_column_bytes(row, 4);
    const void *payload = sqlite3_column_blob(row, 4);
    if (payload == NULL && sqlite3_column_type(row, 4) != SQLITE_NULL) {
        payload = ""; /* SQLite has no address for an empty blob */
    }
    struct qn_leased leased = {
        .task =
            {
                .id = (const char *)sqlite3_column_text(row, 2),
                .queue = queue,
                .type = (const char *)sqlite3_column_text(row, 3),
                .payload = payload,
                .payload_size = payload_size,
                .retry_max = qn_column_count(row, 5),
                .retry = qn_column_retry(row, 6),
                .process_at_ms = qn_column_moment_ms(row, 18),
                .timeout_ms = qn_column_duration_ms(row, 9),
                .deadline_at_ms = qn_column_moment_ms(row, 10),
                .retention_ms = qn_column_duration_ms(row, 11),
                .unique_key = (const char *)sqlite3_column_text(row, 12),
                .group = (const char *)sqlite3_column_text(row, 13),
                .headers = headers,
                .header_count = header_count,
                .state = QUERN_TASK_ACTIVE,
            },
        .token = (uint64_t)sqlite3_column_int64(row, 19),
        .row = sqlite3_column_int64(row, 0),
        .retry_count = qn_column_count(row, 15),
        .crash_count = qn_column_count(row, 16),
        .cause = (quern_cause)sqlite3_column_int(row, 17),
        .started = sqlite3_column_int(row, 20) != 0,
    };
    bool whole = leased.task.id != NULL && leased.task.type != NULL; /* else memory was out */
    return whole ? qn_leased_copy(lot, &leased) : NULL;
}

static void free_rows(struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(rows[i].run);
    }
}

/* Reads up to `limit` rows with a place after `place`. */
static quern_status read_rows(struct taking *taking, const char *sql, size_t turn,
                              const struct qn_ledger_queue *queue, int64_t place, size_t limit,
                              struct row *rows, size_t *ret_count, quern_error *err)
{
    size_t count = 0;
    bool full = false;
    struct qn_query query = qn_query_start(taking->ledger->conn, sql);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, place);
    qn_query_int(&query, (int64_t)limit);
    while (!full && qn_query_row(&query)) {
        rows[count].place = sqlite3_column_int64(query.statement, 1);
        rows[count].run = copy_row(&taking->lot, query.statement, queue->name);
        full = rows[count].run == NULL;
        if (!full) {
            rows[count].run->queue_index = (uint16_t)turn;
            count++;
        }
    }
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && full) {
        status = qn_error_nomem(err);
    }
    if (status != QUERN_OK) {
        free_rows(rows, count);
        return status;
    }
    *ret_count = count;
    return QUERN_OK;
}

/* Takes up to `want` rows of both kinds in the order of their places; frees the rest. */
static size_t merge(struct taking *taking, size_t turn, struct row *pending, size_t pending_count,
                    struct row *suspects, size_t suspect_count, size_t want)
{
    struct turn_state *state = &taking->turns[turn];
    size_t p = 0;
    size_t s = 0;
    while (p + s < want && (p < pending_count || s < suspect_count)) {
        bool suspect =
            s < suspect_count && (p == pending_count || suspects[s].place < pending[p].place);
        struct row *row = suspect ? &suspects[s++] : &pending[p++];
        if (suspect) {
            state->suspect_place = row->place;
        } else {
            state->place = row->place;
        }
        taking->runs[taking->count++] = row->run;
    }
    taking->suspects_left -= (uint32_t)s;
    free_rows(pending + p, pending_count - p);
    free_rows(suspects + s, suspect_count - s);
    return p + s;
}

static quern_status archive_late(struct taking *taking, struct qn_ledger_queue *queue,
                                 const struct qn_leased *run, quern_error *err)
{
    struct qn_query query = qn_query_start(taking->ledger->conn, sql_lease_too_late);
    qn_query_int(&query, run->row);
    qn_query_int(&query, taking->terms->now_wall_ms);
    queue->processed++;
    queue->failed++;
    queue->changed = true;
    return qn_query_run(&query, NULL, err);
}

/* Of the last `taken` runs, those past their deadline are archived; returns through *ret_kept how
 * many are left. */
static quern_status drop_late(struct taking *taking, struct qn_ledger_queue *queue, size_t taken,
                              size_t *ret_kept, quern_error *err)
{
    size_t first = taking->count - taken;
    size_t kept = 0;
    quern_status status = QUERN_OK;
    for (size_t i = 0; i < taken; i++) {
        struct qn_leased *run = taking->runs[first + i];
        int64_t deadline_at_ms = run->task.deadline_at_ms;
        bool late = deadline_at_ms > 0 && deadline_at_ms <= taking->terms->now_wall_ms &&
                    !QN_BUG(DEADLINE_IGNORED);
        if (late && status == QUERN_OK) {
            status = archive_late(taking, queue, run, err);
            taking->late_count++;
            taking->suspects_left += run->crash_count > 0 ? 1 : 0;
            qn_leased_free(run);
        } else {
            taking->runs[first + kept++] = run;
        }
    }
    taking->count = first + kept;
    *ret_kept = kept;
    return status;
}

/* One reading of a queue; *ret_read says how many rows there were, late ones included. */
static quern_status read_turn(struct taking *taking, size_t turn, struct qn_ledger_queue *queue,
                              size_t want, size_t *ret_read, quern_error *err)
{
    struct row pending[QN_BATCH_MAX];
    struct row suspects[QN_BATCH_MAX];
    size_t pending_count = 0;
    size_t suspect_count = 0;
    size_t suspect_want = taking->suspects_left < want ? taking->suspects_left : want;
    struct turn_state *state = &taking->turns[turn];
    quern_status status = read_rows(taking, sql_lease_pending, turn, queue, state->place, want,
                                    pending, &pending_count, err);
    if (status == QUERN_OK && suspect_want > 0) {
        status = read_rows(taking, sql_lease_suspect, turn, queue, state->suspect_place,
                           suspect_want, suspects, &suspect_count, err);
        if (status != QUERN_OK) {
            free_rows(pending, pending_count);
        }
    }
    if (status == QUERN_OK) {
        *ret_read = merge(taking, turn, pending, pending_count, suspects, suspect_count, want);
    }
    return status;
}

static bool ends_early(const struct taking *taking)
{
    return taking->late_count >= QN_PRUNE_BATCH_MAX;
}

/* Takes up to `want` runs of one queue. Short means that it has no more to give, or that taking
 * ends early. */
static quern_status take_turn(struct taking *taking, size_t turn, size_t want, quern_error *err)
{
    struct qn_queue_turn *out = &taking->exchange->queues[turn];
    struct turn_state *state = &taking->turns[turn];
    struct qn_ledger_queue *queue = NULL;
    quern_status status = qn_ledger_queue(taking->ledger, out->name, &queue, err);
    if (status != QUERN_OK) {
        return status;
    }
    state->empty = queue->no == 0 || queue->paused;
    while (status == QUERN_OK && want > 0 && !state->empty && !ends_early(taking)) {
        size_t taken = 0;
        size_t kept = 0;
        status = read_turn(taking, turn, queue, want, &taken, err);
        if (status != QUERN_OK) {
            return status;
        }
        state->empty = taken < want;
        status = drop_late(taking, queue, taken, &kept, err);
        out->leased += (uint32_t)kept;
        want -= kept;
    }
    return status;
}

static quern_status take_strict(struct taking *taking, quern_error *err)
{
    quern_status status = QUERN_OK;
    size_t room = taking->exchange->room;
    for (size_t i = 0; status == QUERN_OK && i < taking->exchange->queue_count; i++) {
        if (taking->count < room && !ends_early(taking)) {
            status = take_turn(taking, i, room - taking->count, err);
        }
    }
    return status;
}

static quern_status take_weighted(struct taking *taking, quern_error *err)
{
    const struct qn_exchange *exchange = taking->exchange;
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
            size_t room = exchange->room - taking->count;
            size_t part = want[i] < room ? want[i] : room;
            quern_status status = part > 0 ? take_turn(taking, i, part, err) : QUERN_OK;
            if (status != QUERN_OK) {
                return status;
            }
            more[i] = !taking->turns[i].empty;
            want[i] = 0;
        }
        size_t missing = exchange->room - taking->count;
        if (missing == 0 || ends_early(taking) ||
            qn_choice_redraw(weights, more, queue_count, missing, want) == 0) {
            return QUERN_OK;
        }
    }
}

/* By queue, and within it in the order of taking: what redraws brought is moved to its queue. */
static void order_runs(struct taking *taking)
{
    struct qn_leased *ordered[QN_BATCH_MAX];
    size_t at = 0;
    for (size_t turn = 0; turn < taking->exchange->queue_count; turn++) {
        for (size_t i = 0; taking->exchange->queues[turn].leased > 0 && i < taking->count; i++) {
            if (taking->runs[i]->queue_index == turn) {
                ordered[at++] = taking->runs[i];
            }
        }
    }
    QN_ASSERT(at == taking->count);
    memcpy(taking->runs, ordered, at * sizeof ordered[0]);
}

static quern_status find_worker(struct qn_conn *conn, const char *id, int64_t *ret_no,
                                quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_worker_no);
    qn_query_text(&query, id);
    *ret_no = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    return qn_query_finish(&query, err);
}

static quern_status write_leases(struct taking *taking, quern_error *err)
{
    const struct qn_exchange *exchange = taking->exchange;
    struct qn_lease_terms *terms = taking->terms;
    struct qn_conn *conn = taking->ledger->conn;
    int64_t worker_no = 0;
    quern_status status = find_worker(conn, exchange->worker_id, &worker_no, err);
    if (status == QUERN_OK) {
        status = qn_sqlite_numbers(conn, taking->count, &terms->first_token, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < taking->count; i++) {
        struct qn_leased *run = taking->runs[i];
        run->token = (uint64_t)terms->first_token + i;
        run->fence = run->token;
        run->leased_at_boot_ms = terms->now_boot_ms;
        run->started = i < exchange->start_count_now;
        struct qn_query query = qn_query_start(conn, sql_lease_write);
        qn_query_int(&query, run->row);
        qn_query_int(&query, (int64_t)run->token);
        qn_query_int(&query, terms->now_boot_ms + exchange->lease_ms);
        qn_query_int(&query, worker_no);
        qn_query_int(&query, run->started ? 1 : 0);
        qn_query_int(&query, run->started ? terms->now_wall_ms : 0);
        status = qn_query_run(&query, NULL, err);
    }
    return status;
}

quern_status qn_lease_take(struct qn_ledger *ledger, struct qn_exchange *exchange,
                           struct qn_lease_terms *terms, struct qn_exchange_reply *reply,
                           quern_error *err)
{
    QN_ASSERT(exchange->room <= QN_BATCH_MAX);
    QN_ASSERT(exchange->queue_count <= QN_QUEUES_MAX);
    struct taking taking = {.ledger = ledger,
                            .exchange = exchange,
                            .terms = terms,
                            .runs = reply->runs,
                            .suspects_left = exchange->suspect_max};
    quern_status status =
        exchange->strict ? take_strict(&taking, err) : take_weighted(&taking, err);
    if (status == QUERN_OK && taking.count > 0) {
        order_runs(&taking);
        status = write_leases(&taking, err);
    }
    qn_lot_finish(&taking.lot);
    if (status != QUERN_OK) {
        for (size_t i = 0; i < taking.count; i++) {
            qn_leased_free(taking.runs[i]);
            taking.runs[i] = NULL;
        }
        return status;
    }
    reply->run_count = taking.count;
    reply->more = taking.count < exchange->room && ends_early(&taking);
    return QUERN_OK;
}

quern_status qn_lease_again(struct qn_conn *conn, struct qn_exchange *exchange,
                            const struct qn_lease_terms *terms, size_t count,
                            struct qn_exchange_reply *reply, quern_error *err)
{
    struct qn_ledger ledger;
    struct row rows[QN_BATCH_MAX];
    qn_ledger_init(&ledger, conn, terms->now_wall_ms);
    struct taking taking = {.ledger = &ledger, .exchange = exchange};
    quern_status status = QUERN_OK;
    int64_t last_token = terms->first_token + (int64_t)count - 1;
    for (size_t i = 0; status == QUERN_OK && count > 0 && i < exchange->queue_count; i++) {
        struct qn_ledger_queue *queue = NULL;
        size_t found = 0;
        status = qn_ledger_queue(&ledger, exchange->queues[i].name, &queue, err);
        if (status == QUERN_OK) {
            status = read_rows(&taking, sql_lease_replay, i, queue, terms->first_token,
                               (size_t)last_token, rows, &found, err);
        }
        for (size_t r = 0; status == QUERN_OK && r < found; r++) {
            if (taking.count == count) { /* two tasks with one token: damaged; see the doctor */
                qn_leased_free(rows[r].run);
                continue;
            }
            rows[r].run->fence = rows[r].run->token;
            rows[r].run->leased_at_boot_ms = terms->now_boot_ms;
            exchange->queues[i].leased++;
            reply->runs[taking.count++] = rows[r].run;
        }
    }
    qn_ledger_finish(&ledger);
    qn_lot_finish(&taking.lot);
    for (size_t i = 0; status != QUERN_OK && i < taking.count; i++) {
        qn_leased_free(reply->runs[i]);
        reply->runs[i] = NULL;
    }
    reply->run_count = status == QUERN_OK ? taking.count : 0;
    return status;
}
