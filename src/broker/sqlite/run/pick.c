/* SPDX-License-Identifier: MIT */
/* pick.c - chooses the pending tasks of a queue for a worker.
 *
 * Uncharged tasks are in one index, charged ones in another, by level. The streams that the worker
 * may take from are merged by place; one that it has no room for is left out, so no task behind
 * it waits. For charged tasks only the place is read before they are taken, for the others
 * everything at once. A task past its deadline, or one that has not started in time, goes to the
 * archive instead.
 *
 * A braked queue gives one probe at a time. A task that must run alone is given only to a worker
 * that has the solo lock, as its only run. */
#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/queue/brake.h"
#include "broker/sqlite/queue/solo.h"
#include "broker/sqlite/run/lease_batch.h"
#include "broker/sqlite/run/lease_sql.h"
#include "broker/sqlite/run/limits/sort.h"
#include "task/brake.h"
#include "task/isolation.h"

static bool may_start(const struct qn_lease_batch *batch)
{
    return batch->starts_left > 0 && !qn_lease_batch_ends_early(batch);
}

/* --- Taking one ------------------------------------------------------------------------ */

static quern_status archive_late(struct qn_lease_batch *batch, struct qn_counted_queue *queue,
                                 struct qn_leased *run, const char *why, quern_error *err)
{
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lease_too_late);
    qn_query_int(&query, run->row);
    qn_query_int(&query, batch->terms->now_wall_ms);
    qn_query_text(&query, why);
    if (!QN_BUG(LATE_UNREPORTED)) {
        qn_notices_add(&batch->counters->ends, qn_notices_task(queue->name, run->task.id));
    }
    qn_leased_free(run);
    queue->processed++;
    queue->failed++;
    queue->changed = true;
    batch->late_count++;
    return qn_query_run(&query, NULL, err);
}

quern_status qn_pick_take(struct qn_lease_batch *batch, struct qn_counted_queue *queue,
                          struct qn_leased *run, quern_error *err)
{
    const char *why_late = qn_leased_why_late(run, batch->terms->now_wall_ms);
    if (why_late != NULL) {
        return archive_late(batch, queue, run, why_late, err);
    }
    batch->runs[batch->count++] = run;
    batch->exchange->queues[run->queue_index].leased++;
    return queue->limits == 0 ? QUERN_OK : qn_lease_limits_take(batch, queue, run, err);
}

/* Reads the pending task; *ret_run is NULL when it is not that any more, or may not run now. */
static quern_status read_open(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                              int64_t seq, struct qn_leased **ret_run, quern_error *err)
{
    bool may = true;
    quern_status status = qn_lease_row_read(batch, source, seq, ret_run, err);
    struct qn_leased *run = *ret_run;
    if (status == QUERN_OK && run != NULL && source->queue->limits != 0) {
        const struct qn_lease_kind kind = {.type = run->task.type, .key = run->task.limit_key};
        status = qn_lease_limits_may(batch, source, &kind, &may, err);
    }
    if (run != NULL && (status != QUERN_OK || !may)) {
        qn_leased_free(run);
        *ret_run = NULL;
    }
    return status;
}

/* The same for a task that is started in any case. *ret_done: it was taken or archived. */
static quern_status take_started(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                                 int64_t seq, bool *ret_done, quern_error *err)
{
    struct qn_leased *run = NULL;
    quern_status status = read_open(batch, source, seq, &run, err);
    *ret_done = run != NULL;
    if (status != QUERN_OK || run == NULL) {
        return status;
    }
    int64_t level = run->level;
    size_t before = batch->count;
    int64_t row = run->row;
    status = qn_pick_take(batch, source->queue, run, err);
    if (status == QUERN_OK && source->queue->sort != 0) {
        status = qn_sort_row(batch->counters->conn, source->queue, row, err);
    }
    if (batch->count > before) {
        qn_isolation_add(&batch->isolation, level);
        batch->starts_left--;
    }
    return status;
}

/* --- Streams --------------------------------------------------------------------------- */

static quern_status count_streams(struct qn_lease_batch *batch,
                                  const struct qn_lease_source *source, quern_error *err)
{
    struct qn_queue_progress *state = &batch->progress[source->index];
    int32_t top = -1;
    if (state->count_known) {
        return QUERN_OK;
    }
    state->count_known = true;
    for (size_t i = 0; i < QN_STREAMS; i++) {
        state->places[i] = INT64_MIN; /* those with a priority are below 0 */
    }
    quern_status status = qn_solo_level(batch->counters->conn, source->queue->no, &top, err);
    state->stream_count = (uint32_t)(top + 2);
    return status;
}

/* The lowest level of those that must run alone; QN_LEVELS: none must. */
static uint32_t solo_level(const struct qn_lease_batch *batch)
{
    uint32_t level = 1;
    while (level < QN_LEVELS && !qn_isolation_is_solo(&batch->isolation, level)) {
        level++;
    }
    return level;
}

/* How many charged tasks of the level may be taken now, besides those that must run alone. */
static uint32_t room(const struct qn_lease_batch *batch, uint32_t level)
{
    if (level >= solo_level(batch) && !QN_BUG(SOLO_IN_COMPANY)) {
        return 0;
    }
    uint32_t left = qn_isolation_room(&batch->isolation, level);
    return left < batch->starts_left ? left : batch->starts_left;
}

/* --- Merging --------------------------------------------------------------------------- */

struct position {
    int64_t seq;
    int64_t place;
};

/* The rows read of one of them. */
struct stream {
    struct position positions[QN_BATCH_MAX];
    size_t count;
    size_t at;
    bool more; /* there may be more than was read */
};

struct streams {
    size_t want;
    struct qn_rows rows; /* those of stream 0, all of them read */
    struct stream items[QN_STREAMS];
};

static quern_status read_uncharged(struct qn_lease_batch *batch,
                                   const struct qn_lease_source *source, struct streams *streams,
                                   quern_error *err)
{
    struct stream *stream = &streams->items[0];
    bool terms = source->queue->terms;
    struct qn_query query =
        qn_query_start(batch->counters->conn, terms ? sql_lease_pending_terms : sql_lease_pending);
    qn_query_int(&query, source->queue->no);
    qn_query_int(&query, batch->progress[source->index].places[0]);
    qn_query_int(&query, (int64_t)streams->want);
    quern_status status = qn_lease_row_read_all(batch, source, &query, &streams->rows, err);
    stream->count = streams->rows.count;
    for (size_t i = 0; i < stream->count; i++) {
        stream->positions[i].place = streams->rows.items[i].place;
    }
    stream->more = stream->count == streams->want;
    return status;
}

static quern_status read_charged(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                                 uint32_t level, struct streams *streams, quern_error *err)
{
    struct stream *stream = &streams->items[1 + level];
    size_t limit = room(batch, level) < streams->want ? room(batch, level) : streams->want;
    if (limit == 0) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lease_charged);
    qn_query_int(&query, source->queue->no);
    qn_query_int(&query, level);
    qn_query_int(&query, batch->progress[source->index].places[1 + level]);
    qn_query_int(&query, (int64_t)limit);
    while (qn_query_row(&query)) {
        stream->positions[stream->count++] =
            (struct position){.seq = sqlite3_column_int64(query.statement, 0),
                              .place = sqlite3_column_int64(query.statement, 1)};
    }
    stream->more = stream->count == limit;
    return qn_query_finish(&query, err);
}

static bool is_open(const struct qn_lease_batch *batch, uint32_t index)
{
    return index == 0 || room(batch, index - 1) > 0;
}

/* Which of the first `count` has the task that comes next; false: there is none, or, with
 * *ret_more, it is unknown. */
static bool find_next(const struct qn_lease_batch *batch, const struct streams *streams,
                      uint32_t count, uint32_t *ret_index, bool *ret_more)
{
    bool found = false;
    int64_t place = 0;
    *ret_more = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct stream *stream = &streams->items[i];
        bool read_out = stream->at == stream->count;
        if (!is_open(batch, i) || (read_out && !stream->more)) {
            continue;
        }
        if (read_out) {
            *ret_more = true;
            return false;
        }
        if (!found || stream->positions[stream->at].place < place) {
            found = true;
            place = stream->positions[stream->at].place;
            *ret_index = i;
        }
    }
    return found;
}

static quern_status merge(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                          struct streams *streams, quern_error *err)
{
    struct qn_queue_progress *state = &batch->progress[source->index];
    quern_status status = QUERN_OK;
    size_t full = batch->count + streams->want;
    uint32_t index = 0;
    bool more = true;
    bool done = false;
    while (status == QUERN_OK && batch->count < full && !qn_lease_batch_ends_early(batch) &&
           find_next(batch, streams, state->stream_count, &index, &more)) {
        struct stream *stream = &streams->items[index];
        size_t at = stream->at++;
        state->places[index] = stream->positions[at].place;
        status = index == 0 ? qn_pick_take(batch, source->queue, streams->rows.items[at].run, err)
                            : take_started(batch, source, stream->positions[at].seq, &done, err);
    }
    for (size_t i = streams->items[0].at; i < streams->items[0].count; i++) {
        qn_leased_free(streams->rows.items[i].run);
    }
    state->empty = batch->count < full && !more && !qn_lease_batch_ends_early(batch);
    return status;
}

static void init_streams(struct streams *streams, size_t want)
{
    streams->want = want;
    for (size_t i = 0; i < QN_STREAMS; i++) {
        streams->items[i].count = streams->items[i].at = 0;
        streams->items[i].more = false;
    }
}

static quern_status read_levels(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                                struct streams *streams, quern_error *err)
{
    quern_status status = QUERN_OK;
    uint32_t count = batch->progress[source->index].stream_count;
    for (uint32_t level = 0; status == QUERN_OK && level + 1 < count; level++) {
        status = read_charged(batch, source, level, streams, err);
    }
    return status;
}

quern_status qn_pick_pending(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                             size_t want, quern_error *err)
{
    struct streams streams;
    init_streams(&streams, want);
    quern_status status = count_streams(batch, source, err);
    if (status == QUERN_OK && QN_BUG(CHARGED_NOT_OVERTAKEN) &&
        batch->progress[source->index].stream_count > 1 && room(batch, 1) == 0) {
        batch->progress[source->index].empty = true;
        return QUERN_OK;
    }
    if (status == QUERN_OK) {
        status = read_levels(batch, source, &streams, err);
    }
    if (status == QUERN_OK) {
        status = read_uncharged(batch, source, &streams, err);
    }
    return status == QUERN_OK ? merge(batch, source, &streams, err) : status;
}

quern_status qn_pick_charged(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                             size_t want, quern_error *err)
{
    struct streams streams;
    struct qn_queue_progress *state = &batch->progress[source->index];
    init_streams(&streams, want);
    quern_status status = count_streams(batch, source, err);
    if (status != QUERN_OK || state->stream_count == 1) {
        return status;
    }
    status = read_levels(batch, source, &streams, err);
    if (status == QUERN_OK) {
        streams.rows.count = 0;
        status = merge(batch, source, &streams, err);
    }
    return status;
}

/* --- Probes ---------------------------------------------------------------------------- */

static quern_status is_due(struct qn_lease_batch *batch, const struct qn_counted_queue *queue,
                           bool *ret_due, quern_error *err)
{
    int64_t probe = 0;
    *ret_due = qn_brake_wait_ms(&queue->brake, batch->counters->now_ms) == 0;
    if (!*ret_due) {
        return QUERN_OK;
    }
    quern_status status =
        qn_brake_probe(batch->counters->conn, queue->no, &queue->brake, &probe, err);
    *ret_due = probe == 0;
    return status;
}

/* Of these charges; none is taken where it is not time for one. */
static quern_status take_probe(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                               struct qn_level_range range, quern_error *err)
{
    const struct qn_counted_queue *queue = source->queue;
    size_t before = batch->count;
    bool due = false;
    quern_status status = is_due(batch, queue, &due, err);
    while (status == QUERN_OK && due && batch->count == before && may_start(batch)) {
        struct qn_candidate chosen = {0};
        status = qn_brake_choose(batch->counters->conn, queue, range, &chosen, err);
        due = false;
        if (status == QUERN_OK && chosen.seq != 0) {
            status = take_started(batch, source, chosen.seq, &due, err);
        }
    }
    batch->progress[source->index].probe = batch->count > before;
    return status;
}

quern_status qn_pick_probe(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                           quern_error *err)
{
    struct qn_level_range range = {0};
    while (range.last + 1 < QN_LEVELS && room(batch, range.last + 1) > 0) {
        range.last++;
    }
    return take_probe(batch, source, range, err);
}

/* --- Alone ----------------------------------------------------------------------------- */

static quern_status find_solo(struct qn_lease_batch *batch, const struct qn_counted_queue *queue,
                              int64_t *ret_seq, quern_error *err)
{
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lease_solo);
    qn_query_int(&query, queue->no);
    qn_query_int(&query, solo_level(batch));
    *ret_seq = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    return qn_query_finish(&query, err);
}

quern_status qn_pick_solo(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                          quern_error *err)
{
    struct qn_level_range range = {.first = solo_level(batch), .last = QN_ALONE_CHARGES};
    if (range.first == QN_LEVELS) {
        return QUERN_OK;
    }
    if (qn_brake_is_on(&source->queue->brake)) {
        return take_probe(batch, source, range, err);
    }
    quern_status status = QUERN_OK;
    size_t before = batch->count;
    bool again = true;
    while (status == QUERN_OK && again && batch->count == before && may_start(batch)) {
        int64_t seq = 0;
        status = find_solo(batch, source->queue, &seq, err);
        again = false;
        if (status == QUERN_OK && seq != 0) {
            status = take_started(batch, source, seq, &again, err);
        }
    }
    return status;
}

/* Whether the limits let the first of them run. */
static quern_status first_may_run(struct qn_lease_batch *batch,
                                  const struct qn_lease_source *source, bool *ret_may,
                                  quern_error *err)
{
    int64_t seq = 0;
    struct qn_leased *run = NULL;
    quern_status status = find_solo(batch, source->queue, &seq, err);
    if (status == QUERN_OK && seq != 0) {
        status = read_open(batch, source, seq, &run, err);
    }
    *ret_may = run != NULL;
    qn_leased_free(run);
    return status;
}

quern_status qn_pick_solo_waits(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                                bool *ret_waits, quern_error *err)
{
    const struct qn_counted_queue *queue = source->queue;
    quern_status status = count_streams(batch, source, err);
    *ret_waits = batch->progress[source->index].stream_count > 1 + solo_level(batch);
    if (status == QUERN_OK && *ret_waits && queue->limits != 0) {
        status = first_may_run(batch, source, ret_waits, err);
    }
    if (status != QUERN_OK || !*ret_waits || !qn_brake_is_on(&queue->brake)) {
        return status;
    }
    const struct qn_level_range any = {.first = 0, .last = QN_ALONE_CHARGES};
    struct qn_candidate chosen = {0};
    status = is_due(batch, queue, ret_waits, err);
    if (status == QUERN_OK && *ret_waits) {
        status = qn_brake_choose(batch->counters->conn, queue, any, &chosen, err);
        *ret_waits = qn_isolation_is_solo(&batch->isolation, chosen.level);
    }
    return status;
}
