/* SPDX-License-Identifier: MIT */
/* exchange.c - the central operation: outcomes in, runs out, in one write.
 *
 * The outcome scripts (outcome.c), one a queue, and the lease script (lease.c) go out together;
 * each is atomic, and remembers its answer, so a request whose reply was lost is sent again with
 * the same stamp and takes effect once. Most exchanges end there.
 *
 * When the leased tasks include some past their deadline or with unreadable messages, a second
 * write archives the former, puts the latter aside, and leases as many as are still missing; and so
 * on, until there is no such task any more or there were QN_PRUNE_BATCH_MAX of them. It also marks
 * as started the runs that moved up. Should putting away fail, these tasks keep their lease until
 * it expires, and come again; the exchange itself is not in danger. */
#include "broker/redis/run/exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "broker/redis/redis.h"

/* Did any script since the first one do its work? */
static bool any_took_effect(const struct qn_pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->command_count; i++) {
        const struct qn_reply *reply = pipeline->commands[i].reply;
        if (reply != NULL && reply->type != QN_REPLY_ERROR) {
            return true;
        }
    }
    return false;
}

/* A failure after which the changes are unknown until the request is repeated with this stamp. */
static quern_status as_unknown(quern_status status, quern_error *err)
{
    return status == QUERN_E_UNKNOWN ? status : qn_error_as_unknown(err, "only a part took effect");
}

/* --- Putting away --------------------------------------------------------------------- */

static bool wants_more(const struct qn_redis_lease_batch *batch)
{
    return batch->reply->run_count < batch->exchange->room && !batch->ended_early &&
           batch->aside_count < QN_PRUNE_BATCH_MAX && qn_clock_mono_ns() < batch->enough_at_mono_ns;
}

/* The runs that are to start at once, but were behind others when they were leased. */
static size_t find_starts(const struct qn_redis_lease_batch *batch, const struct qn_leased **starts)
{
    struct qn_exchange_reply *reply = batch->reply;
    size_t count = 0;
    for (size_t i = 0; i < reply->run_count && i < batch->exchange->start_count_now; i++) {
        if (!reply->runs[i]->started) {
            reply->runs[i]->started = true;
            starts[count++] = reply->runs[i];
        }
    }
    return count;
}

/* Where the scripts that put tasks away are in the pipeline. */
struct cleanup {
    struct qn_outcomes *chunks; /* of the refused */
    size_t chunk_count;
    size_t unreadable_at; /* the first script for those; each has one */
};

/* The refused of a chunk, with the stamp 0. */
static struct qn_exchange chunk_of(const struct qn_redis_lease_batch *batch, size_t chunk)
{
    size_t first = chunk * QN_BATCH_MAX;
    size_t left = batch->refused_count - first;
    return (struct qn_exchange){.outcomes = batch->refused + first,
                                .outcome_count = left < QN_BATCH_MAX ? left : QN_BATCH_MAX};
}

static quern_status add_cleanup(struct qn_pipeline *pipeline,
                                const struct qn_redis_lease_batch *batch,
                                struct cleanup *ret_cleanup, quern_error *err)
{
    const struct qn_leased *starts[QN_BATCH_MAX];
    /* Spread, those that have started are not the first of them. */
    size_t start_count = batch->is_spread ? 0 : find_starts(batch, starts);
    size_t chunk_count = batch->refused_count / QN_BATCH_MAX + 1; /* the last may be empty */
    struct qn_outcomes *chunks = qn_arena_alloc(pipeline->arena, chunk_count * sizeof *chunks);
    quern_status status = chunks == NULL ? qn_error_nomem(err) : QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < chunk_count; i++) {
        struct qn_exchange chunk = chunk_of(batch, i);
        chunk.starts = starts;
        chunk.start_count = i == 0 ? start_count : 0;
        status = qn_redis_outcome_add(pipeline, &chunk, &chunks[i], err);
    }
    *ret_cleanup = (struct cleanup){chunks, chunk_count, pipeline->command_count};
    if (status == QUERN_OK) {
        const struct qn_exchange nothing = {0};
        status = qn_redis_outcome_add_unreadable(pipeline, &nothing, batch->unreadable,
                                                 batch->unreadable_count, err);
    }
    return status;
}

/* Those that were put away. The others keep their lease until it expires. */
static void count_late(const struct qn_pipeline *pipeline, const struct qn_redis_lease_batch *batch,
                       const struct cleanup *cleanup)
{
    for (size_t i = 0; i < cleanup->chunk_count; i++) {
        const struct qn_exchange chunk = chunk_of(batch, i);
        enum qn_applied applied[QN_BATCH_MAX];
        for (size_t k = 0; k < chunk.outcome_count; k++) {
            applied[k] = QN_STALE;
        }
        quern_status status =
            qn_redis_outcome_read(pipeline, &chunk, &cleanup->chunks[i], applied, NULL);
        (void)status; /* those of a script that failed stay stale */
        for (size_t k = 0; k < chunk.outcome_count; k++) {
            bool late = chunk.outcomes[k].kind == QN_ARCHIVE && applied[k] != QN_STALE;
            batch->reply->late_count += late ? 1 : 0;
        }
    }
}

static void report_unreadable(const struct qn_pipeline *pipeline,
                              const struct qn_redis_lease_batch *batch,
                              const struct cleanup *cleanup)
{
    const struct qn_exchange *exchange = batch->exchange;
    for (size_t i = 0; i < batch->unreadable_count && exchange->on_unusable != NULL; i++) {
        const struct qn_unreadable *task = &batch->unreadable[i];
        const struct qn_unusable unusable = {
            .queue = task->queue, .id = task->id, .why = task->why};
        if (qn_redis_outcome_is_put_away(pipeline, cleanup->unreadable_at + i)) {
            exchange->on_unusable(&unusable, exchange->user);
        }
    }
}

static quern_status clean_up_batch(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                                   quern_error *err)
{
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && batch->refused_count + batch->unreadable_count > 0) {
        struct cleanup cleanup;
        bool leases = wants_more(batch);
        size_t first = pipeline->command_count;
        status = add_cleanup(pipeline, batch, &cleanup, err);
        if (batch->may_split) {
            qn_pipeline_hasty_from(pipeline, first);
        }
        if (status == QUERN_OK && leases) {
            qn_redis_lease_ask(pipeline, batch);
        }
        if (status == QUERN_OK) {
            status = qn_pipeline_run(pipeline, err);
        }
        if (status == QUERN_OK) {
            count_late(pipeline, batch, &cleanup);
            report_unreadable(pipeline, batch, &cleanup);
        }
        qn_redis_lease_drop_refused(batch);
        batch->unreadable_count = 0;
        if (status == QUERN_OK && leases) {
            status = qn_redis_lease_read(pipeline, batch, err);
        }
    }
    return status;
}

/* By queue, and in the order of leasing within a queue: several parts are put together. */
static void order_runs(const struct qn_redis_lease_batch *batch)
{
    struct qn_exchange_reply *reply = batch->reply;
    struct qn_leased *ordered[QN_BATCH_MAX];
    size_t count = 0;
    for (size_t queue_index = 0; queue_index < batch->exchange->queue_count; queue_index++) {
        for (size_t i = 0; batch->exchange->queues[queue_index].leased > 0 && i < reply->run_count;
             i++) {
            if (reply->runs[i]->queue_index == queue_index) {
                ordered[count++] = reply->runs[i];
            }
        }
    }
    QN_ASSERT(count == reply->run_count);
    memcpy(reply->runs, ordered, count * sizeof ordered[0]);
}

/* --- The exchange --------------------------------------------------------------------- */

/* Spread: while there is room, those queues are asked that were not yet. Not only some of them: the
 * draw may favour the same empty ones each time. */
static quern_status lease_rest(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                               quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0;
         status == QUERN_OK && i < batch->exchange->queue_count &&
         batch->refused_count + batch->unreadable_count == 0 &&
         qn_clock_mono_ns() < batch->enough_at_mono_ns && qn_redis_lease_is_short(batch);
         i++) {
        qn_redis_lease_ask(pipeline, batch);
        status = qn_pipeline_run(pipeline, err);
        status = status == QUERN_OK ? qn_redis_lease_read(pipeline, batch, err) : status;
    }
    return status;
}

static quern_status run_exchange(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                                 quern_error *err)
{
    struct qn_exchange *exchange = batch->exchange;
    struct qn_exchange_reply *reply = batch->reply;
    struct qn_outcomes outcomes = {0};
    quern_status status = qn_redis_outcome_add(pipeline, exchange, &outcomes, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (batch->may_split) {
        qn_pipeline_hasty_from(pipeline, 0);
    }
    if (exchange->queue_count > 0) {
        qn_redis_lease_ask(pipeline, batch);
    }
    status = qn_pipeline_run(pipeline, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (batch->may_split) {
        qn_redis_unanswered_note(pipeline, exchange, reply, &outcomes);
    }
    bool changed = any_took_effect(pipeline);
    if (outcomes.command_count > 0) {
        status = qn_redis_outcome_read(pipeline, exchange, &outcomes, reply->applied, err);
    }
    if (status == QUERN_OK && exchange->queue_count > 0) {
        status = qn_redis_lease_read(pipeline, batch, err);
    }
    if (status == QUERN_OK) {
        status = lease_rest(pipeline, batch, err);
    }
    if (status == QUERN_OK && batch->refused_count + batch->unreadable_count > 0) {
        status = clean_up_batch(pipeline, batch, err);
    }
    if (status == QUERN_OK && batch->round_count > 1) {
        order_runs(batch);
    }
    if (status == QUERN_OK && batch->may_split) {
        status = qn_redis_unanswered_settle(pipeline, exchange, reply, err);
    }
    reply->more = reply->run_count < exchange->room &&
                  (batch->ended_early || batch->aside_count >= QN_PRUNE_BATCH_MAX);
    return status != QUERN_OK && changed ? as_unknown(status, err) : status;
}

quern_status qn_redis_exchange(struct qn_broker *broker, struct qn_exchange *exchange,
                               struct qn_exchange_reply *reply, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    QN_ASSERT(exchange->outcome_count <= QN_BATCH_MAX);
    QN_ASSERT(exchange->room <= QN_BATCH_MAX);
    QN_ASSERT(exchange->queue_count <= QN_QUEUES_MAX);
    QN_ASSERT(exchange->channel < QN_EXCHANGES_MAX);
    enum qn_channel_kind channel = exchange->channel == 0 ? QN_CHANNEL_PUMP : QN_CHANNEL_SECOND;
    struct qn_redis_lease_batch batch = {
        .exchange = exchange,
        .reply = reply,
        .leased_at_boot_ms = qn_clock_boot_ms(broker->clock),
        .enough_at_mono_ns = qn_clock_mono_ns() + self->timeout_ms * QN_NS_PER_MS,
        .is_spread = self->cluster != NULL,
        .may_split = self->cluster != NULL && reply->unanswered != NULL &&
                     (exchange->solo == QN_SOLO_NONE || exchange->solo == QN_SOLO_ASK),
        .solo_queue = exchange->solo_queue < exchange->queue_count ? exchange->solo_queue : 0};
    struct qn_pipeline pipeline;
    qn_exchange_clear(exchange, reply);
    if (batch.is_spread && exchange->solo == QN_SOLO_ASK) {
        exchange->solo_queue = (uint32_t)exchange->queue_count; /* unless one says otherwise */
    }
    qn_redis_begin(&pipeline, self, channel, QN_PIPELINE_WRITES);
    (void)snprintf(batch.digits, sizeof batch.digits, "%03u",
                   (unsigned)qn_random_below(&self->channels[channel].random, 1000));
    quern_status status = run_exchange(&pipeline, &batch, err);
    qn_redis_lease_drop_refused(&batch);
    qn_slab_finish(&batch.slab);
    qn_pipeline_end(&pipeline);
    exchange->again = status != QUERN_OK;
    if (status != QUERN_OK) {
        qn_exchange_free_runs(reply);
    }
    return status;
}
