/* SPDX-License-Identifier: MIT */
/* lease_ask.c - requests runs: which lease scripts a round has, and how they share the room.
 *
 * One server gets one script for all queues, which shares the room itself. On a cluster each queue
 * has a script of its own (no two of them need be on one node), all at the same time: so the room
 * is shared here, by the quotas that were drawn, and what came back short is shared once more among
 * the queues that gave all they were asked for. In strict order the first queue is asked for
 * everything, the others how much they have; the second round knows. Where the quotas are rows,
 * queues without one are not asked at all: a call costs the same for one task and for a hundred.
 *
 * Charged tasks and the solo lock are matters of one queue at a time: a script knows nothing of
 * those that run beside it. The queues have their turns at them by the sequence of the request, so
 * that a repeated request is the same; where the quotas are rows, those that have one. */
#include "base/bug.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/exchange.h"
#include "broker/redis/run/lease_lua.h"
#include "broker/redis/run/lease_share.h"
#include "broker/redis/schema/keys.h"
#include "task/isolation.h"

static uint32_t room_left(const struct qn_redis_lease_batch *batch)
{
    uint32_t had = (uint32_t)batch->reply->run_count;
    return batch->exchange->room > had ? batch->exchange->room - had : 0;
}

static uint32_t starts_left(const struct qn_redis_lease_batch *batch)
{
    uint32_t had = (uint32_t)batch->reply->run_count;
    return batch->exchange->start_count_now > had ? batch->exchange->start_count_now - had : 0;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Whether queues without a quota are not asked now: only if others come back short. Not again, so
 * that a node which does not answer holds up no other queue. */
static bool may_wait(const struct qn_redis_lease_batch *batch)
{
    const struct qn_exchange *exchange = batch->exchange;
    return exchange->in_rows && batch->may_split && !exchange->again && room_left(batch) > 0;
}

/* The queue whose turn it is. A row may be as long as an exchange: were it the turn of any queue,
 * one of them could miss its turn each time. */
static size_t choose_turn(const struct qn_exchange *exchange, const uint32_t *want)
{
    size_t queues[QN_QUEUES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < exchange->queue_count; i++) {
        bool is_asked = !exchange->in_rows || (want[i] > 0 && !exchange->queues[i].skip);
        if (is_asked) {
            queues[count++] = i;
        }
    }
    return count == 0 ? 0 : queues[exchange->stamp.sequence % count];
}

static void plan_spread(struct qn_redis_lease_batch *batch)
{
    const struct qn_exchange *exchange = batch->exchange;
    uint32_t want[QN_QUEUES_MAX];
    uint32_t starts = starts_left(batch);
    bool is_first = batch->round_count == 0;
    if (is_first) {
        qn_lease_share_first(exchange, batch->solo_queue, room_left(batch), want);
        batch->turn = choose_turn(exchange, want);
    } else {
        qn_lease_share_again(exchange, batch->waiting, room_left(batch), want);
    }
    size_t turn = batch->turn;
    size_t solo = exchange->solo == QN_SOLO_ASK ? turn : batch->solo_queue;
    batch->call_count = 0;
    for (size_t i = 0; i < exchange->queue_count; i++) {
        if (is_first && want[i] == 0 && may_wait(batch)) {
            exchange->queues[i].unasked = !exchange->queues[i].skip;
            batch->waiting[i] = exchange->queues[i].skip ? 0 : exchange->room;
            continue;
        }
        if (exchange->queues[i].skip || (want[i] == 0 && !is_first)) {
            continue;
        }
        exchange->queues[i].unasked = false;
        batch->calls[batch->call_count++] = (struct qn_lease_call){
            .first = i,
            .count = 1,
            .room = want[i],
            .starts = least(want[i], starts),
            .has_solo = is_first && i == solo && exchange->solo != QN_SOLO_NONE,
            .has_charged = i == turn || qn_lease_is_alone(exchange),
        };
        starts -= least(want[i], starts);
    }
}

static bool plan(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch)
{
    size_t count = batch->is_spread ? batch->exchange->queue_count : 1;
    batch->calls = qn_arena_alloc(pipeline->arena, count * sizeof *batch->calls);
    if (batch->calls == NULL) {
        return false;
    }
    if (batch->is_spread) {
        plan_spread(batch);
    } else {
        batch->call_count = 1;
        batch->calls[0] = (struct qn_lease_call){
            .count = batch->exchange->queue_count,
            .room = room_left(batch),
            .starts = starts_left(batch),
            .has_solo = batch->exchange->solo != QN_SOLO_ASK || batch->part_count == 0,
            .has_charged = true,
        };
    }
    batch->round_count++;
    return true;
}

/* --- The scripts ---------------------------------------------------------------------- */

static uint32_t missing(uint32_t wanted, size_t had)
{
    return wanted > had ? wanted - (uint32_t)had : 0;
}

/* "solo slots held held held"; held: with the runs that came in earlier parts. */
static void put_company(struct qn_pipeline *pipeline, const struct qn_redis_lease_batch *batch,
                        const struct qn_lease_call *call)
{
    static const char letters[] = {[QN_SOLO_NONE] = '0',
                                   [QN_SOLO_ASK] = 'a',
                                   [QN_SOLO_KEEP] = 'k',
                                   [QN_SOLO_RUN] = 'r',
                                   [QN_SOLO_END] = 'e'};
    const struct qn_exchange *exchange = batch->exchange;
    struct qn_isolation held = exchange->isolation;
    char letter = call->has_solo ? letters[exchange->solo] : '0';
    for (size_t i = 0; i < batch->reply->run_count; i++) {
        qn_isolation_add(&held, batch->reply->runs[i]->level);
    }
    for (size_t i = 0; !call->has_charged && i < sizeof held.held / sizeof held.held[0]; i++) {
        held.held[i] = held.slots; /* no room for any more */
    }
    uint32_t number = batch->is_spread ? 1 : batch->solo_queue + 1;
    qn_pipeline_text(pipeline,
                     qn_arena_printf(pipeline->arena, "%c%u %u %u %u %u", letter, number,
                                     held.slots, held.held[0], held.held[1], held.held[2]));
}

static void put_call(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch,
                     struct qn_lease_call *call)
{
    const struct qn_exchange *exchange = batch->exchange;
    size_t parts = batch->parts[call->first];
    call->command = pipeline->command_count;
    qn_pipeline_script(pipeline, &qn_lua_lease, call->count);
    qn_pipeline_limit(pipeline, QN_REPLY_TASKS_MAX);
    for (size_t i = 0; i < call->count; i++) {
        qn_keys_add_prefix(pipeline, exchange->queues[call->first + i].name);
    }
    qn_keys_add_session(pipeline, exchange->stamp.session);
    qn_pipeline_uint(pipeline, QN_BUG(REPLAY_IGNORED) ? 0 : exchange->stamp.sequence);
    /* A later round may ask this queue for runs yet: then no empty answer may be kept now. */
    bool may_follow = call->room == 0 && room_left(batch) > 0;
    bool again = exchange->again && parts == 0 && !may_follow;
    qn_pipeline_int(pipeline, again ? -1 : (int64_t)parts);
    qn_pipeline_uint(pipeline, call->room);
    qn_pipeline_int(pipeline, exchange->lease_ms);
    qn_pipeline_uint(pipeline, call->starts);
    qn_pipeline_text(pipeline, batch->digits);
    qn_pipeline_text(pipeline, exchange->worker_id);
    qn_pipeline_text(pipeline, qn_arena_printf(pipeline->arena, "h:%s",
                                               exchange->host != NULL ? exchange->host : ""));
    put_company(pipeline, batch, call);
    bool in_order = exchange->strict || call->count == 1;
    for (size_t i = 0; !in_order && i < call->count; i++) {
        const struct qn_queue_share *queue = &exchange->queues[i];
        qn_pipeline_uint(pipeline, missing(queue->quota, queue->leased));
        qn_pipeline_uint(pipeline, QN_BUG(WEIGHT_IGNORED) ? 1 : queue->weight);
    }
}

/* Of a queue that is not asked for runs yet: how many it has. */
static void put_size(struct qn_pipeline *pipeline, const struct qn_redis_lease_batch *batch,
                     struct qn_lease_call *call)
{
    if (batch->is_spread && batch->exchange->strict && batch->round_count == 1) {
        call->size_command = pipeline->command_count;
        qn_pipeline_command(pipeline, "LLEN");
        qn_keys_add(pipeline, batch->exchange->queues[call->first].name, "pending");
        qn_pipeline_hasty(pipeline);
    }
}

void qn_redis_lease_ask(struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch)
{
    if (!plan(pipeline, batch)) {
        qn_pipeline_nomem(pipeline);
        return;
    }
    for (size_t i = 0; i < batch->call_count; i++) {
        put_call(pipeline, batch, &batch->calls[i]);
        if (batch->is_spread && (batch->may_split || !batch->exchange->again)) {
            /* The other queues do not wait for one that is being moved. A lease that may have been
             * given already does wait, if that queue cannot be answered later. */
            qn_pipeline_hasty(pipeline);
        }
        put_size(pipeline, batch, &batch->calls[i]);
    }
}

/* --- What it gave --------------------------------------------------------------------- */

void qn_redis_lease_note(const struct qn_pipeline *pipeline, struct qn_redis_lease_batch *batch)
{
    bool is_first = batch->round_count == 1;
    for (size_t i = 0; batch->is_spread && i < batch->call_count; i++) {
        const struct qn_lease_call *call = &batch->calls[i];
        const struct qn_queue_share *queue = &batch->exchange->queues[call->first];
        bool gives = pipeline->commands[call->command].reply->type != QN_REPLY_ERROR &&
                     !queue->paused && !queue->braked;
        uint32_t room = batch->exchange->room;
        const struct qn_reply *size =
            call->size_command > 0 ? pipeline->commands[call->size_command].reply : NULL;
        if (!gives || (call->room > 0 && call->given < call->room && !batch->ended_early)) {
            batch->waiting[call->first] = 0;
        } else if (size != NULL && qn_reply_int(size, 0) < room) {
            batch->waiting[call->first] = (uint32_t)qn_reply_uint(size);
        } else if (is_first) {
            batch->waiting[call->first] = room;
        }
    }
}

bool qn_redis_lease_is_short(const struct qn_redis_lease_batch *batch)
{
    const struct qn_exchange *exchange = batch->exchange;
    bool may = batch->is_spread && exchange->queue_count > 1 && room_left(batch) > 0 &&
               !qn_lease_is_alone(exchange) && !batch->ended_early;
    for (size_t i = 0; may && i < exchange->queue_count; i++) {
        if (batch->waiting[i] > 0) {
            return true;
        }
    }
    return false;
}
