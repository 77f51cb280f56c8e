/* SPDX-License-Identifier: MIT */
/* lease.c - the second half of an exchange: asks for runs (lease.lua) and reads what comes.
 *
 * The script cannot read messages. So what turns out here to be past its deadline, or to be no
 * message at all, has been leased already; it is handed out apart from the runs, and the exchange
 * puts it away. Deadlines that are in our own fields the script knows, and gives such tasks beyond
 * the room.
 *
 * A run is one block: what the reply holds is decoded into the arena of the talk and copied. */
#include "broker/redis/exchange.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bug.h"
#include "base/error.h"
#include "broker/redis/fields.h"
#include "broker/redis/redis.h"

#include "broker/redis/lease_lua.h"

#define LATE_MAX QN_BATCH_MAX /* beyond the room, in one part */
#define PLACES 4              /* of a run in a list of the reply: id, message, run, opts;past */

static uint32_t missing(uint32_t wanted, size_t had)
{
    return wanted > had ? wanted - (uint32_t)had : 0;
}

void qn_taking_ask(struct qn_talk *talk, struct qn_taking *taking)
{
    const struct qn_exchange *exchange = taking->exchange;
    size_t had = taking->reply->run_count;
    taking->command = talk->command_count;
    qn_talk_script(talk, &qn_lua_lease, exchange->queue_count);
    for (size_t i = 0; i < exchange->queue_count; i++) {
        qn_talk_prefix(talk, exchange->queues[i].name);
    }
    qn_talk_session(talk, exchange->stamp.session);
    qn_talk_uint(talk, QN_BUG(REPLAY_IGNORED) ? 0 : exchange->stamp.sequence);
    qn_talk_uint(talk, taking->part_count);
    qn_talk_uint(talk, missing(exchange->room, had));
    qn_talk_text(talk, exchange->strict ? "1" : "0");
    qn_talk_int(talk, exchange->lease_ms);
    qn_talk_uint(talk, missing(exchange->start_count_now, had));
    qn_talk_uint(talk, missing(exchange->suspect_max, taking->suspects_taken));
    qn_talk_uint(talk, LATE_MAX);
    qn_talk_text(talk, taking->digits);
    qn_talk_text(talk, exchange->worker_id);
    for (size_t i = 0; i < exchange->queue_count; i++) {
        const struct qn_queue_turn *queue = &exchange->queues[i];
        qn_talk_uint(talk, missing(queue->quota, queue->leased));
        qn_talk_uint(talk, QN_BUG(WEIGHT_IGNORED) ? 1 : queue->weight);
    }
}

/* --- Reading the answer --------------------------------------------------------------- */

/* One run of the reply. */
struct found {
    const struct qn_reply *id;
    const struct qn_reply *message;
    const struct qn_reply *run;
    const struct qn_reply *extra;
    size_t queue_index;
    uint64_t token;
    int64_t now_ms;
};

static void read_extra(const struct qn_reply *extra, struct qn_field_opts *ret_opts,
                       bool *ret_has_opts, struct qn_field_past *ret_past)
{
    *ret_past = (struct qn_field_past){0};
    *ret_has_opts = false;
    if (extra->type != QN_REPLY_TEXT) {
        return;
    }
    const char *end = extra->data + extra->size;
    const char *middle = memchr(extra->data, ';', extra->size);
    const char *past = middle == NULL ? end : middle + 1;
    size_t opts_size = middle == NULL ? 0 : (size_t)(middle - extra->data);
    if (opts_size > 0) {
        qn_field_opts_read(extra->data, opts_size, ret_opts);
        *ret_has_opts = true;
    }
    qn_field_past_read(past, (size_t)(end - past), ret_past);
}

static int64_t since_ms(const struct qn_field_run *run, const struct qn_field_opts *opts,
                        int64_t now_ms)
{
    if (run->since_ns > 0) {
        return run->since_ns / 1000000;
    }
    return opts != NULL ? opts->enqueued_at_ms : now_ms; /* a Go inspector put it into pending */
}

/* Why this run happens. Go notes no cause, but it counts. */
static quern_cause cause_of(const struct qn_field_past *past, int64_t retry_count)
{
    if (past->cause > 0 && past->cause <= QUERN_CAUSE_BROKER_LOST) {
        return (quern_cause)past->cause;
    }
    return retry_count > 0 ? QUERN_CAUSE_RETRY : QUERN_CAUSE_NONE;
}

/* Decodes it to one block. QUERN_E_CORRUPT: it cannot be read. */
static quern_status read_run(struct qn_talk *talk, const struct qn_taking *taking,
                             const struct found *found, struct qn_leased **ret_run)
{
    struct qn_field_opts opts;
    struct qn_field_past past;
    struct qn_field_run run;
    struct qn_asynq_task message;
    bool has_opts = false;
    const char *run_text = qn_reply_text(found->run);
    read_extra(found->extra, &opts, &has_opts, &past);
    qn_field_run_read(run_text, strlen(run_text), &run);
    struct qn_leased leased = {
        .token = found->token,
        .fence = found->token / 1000,
        .leased_at_boot_ms = taking->leased_at_boot_ms,
        .crash_count = past.crash_count,
        .queue_index = (uint16_t)found->queue_index,
        .started = run.started == 1,
        .raw = found->message->data,
        .raw_size = found->message->size,
    };
    quern_status status =
        qn_redis_task_decode(talk->arena, found->message->data, found->message->size,
                             taking->exchange->queues[found->queue_index].name, found->id->data,
                             has_opts ? &opts : NULL, &message, &leased.task, NULL);
    if (status != QUERN_OK) {
        return status == QUERN_E_NOMEM ? status : QUERN_E_CORRUPT;
    }
    leased.task.state = QUERN_TASK_ACTIVE;
    leased.task.process_at_ms = since_ms(&run, has_opts ? &opts : NULL, found->now_ms);
    leased.retry_count = message.retry_count;
    leased.cause = cause_of(&past, message.retry_count);
    *ret_run = qn_leased_copy(&leased);
    return *ret_run == NULL ? QUERN_E_NOMEM : QUERN_OK;
}

static void refuse(struct qn_taking *taking, struct qn_leased *take_run, enum qn_outcome_kind kind)
{
    taking->refused[taking->refused_count++] = (struct qn_outcome){
        .run = take_run,
        .kind = kind,
        .cause = kind == QN_GIVE_BACK ? take_run->cause : QUERN_CAUSE_NONE,
        .error = kind == QN_ARCHIVE ? "deadline exceeded" : NULL,
    };
}

static void sort_in(struct qn_taking *taking, struct qn_leased *take_run, int64_t now_ms)
{
    struct qn_exchange_reply *reply = taking->reply;
    int64_t deadline_at_ms = take_run->task.deadline_at_ms;
    if (deadline_at_ms > 0 && deadline_at_ms <= now_ms && !QN_BUG(DEADLINE_IGNORED)) {
        taking->aside_count++;
        refuse(taking, take_run, QN_ARCHIVE);
    } else if (reply->run_count >= taking->exchange->room) {
        /* Our field called it late, its message does not. */
        refuse(taking, take_run, QN_GIVE_BACK);
    } else {
        taking->suspects_taken += take_run->crash_count > 0 ? 1 : 0;
        taking->exchange->queues[take_run->queue_index].leased++;
        reply->runs[reply->run_count++] = take_run;
    }
}

static quern_status take_found(struct qn_talk *talk, struct qn_taking *taking,
                               const struct found *found)
{
    if (found->message->type != QN_REPLY_TEXT) {
        return QUERN_OK; /* a replay, and the run is over */
    }
    struct qn_leased *run = NULL;
    quern_status status = QUERN_E_CORRUPT;
    if (strlen(qn_reply_text(found->id)) == found->id->size) {
        status = read_run(talk, taking, found, &run);
    }
    if (status == QUERN_OK) {
        sort_in(taking, run, found->now_ms);
    } else if (status == QUERN_E_CORRUPT) {
        taking->aside_count++;
        taking->unreadable[taking->unreadable_count++] = (struct qn_unreadable){
            .queue = taking->exchange->queues[found->queue_index].name,
            .id = found->id->data,
            .id_size = found->id->size,
            .token = found->token,
        };
        status = QUERN_OK;
    }
    return status;
}

static quern_status take_part(struct qn_talk *talk, struct qn_taking *taking,
                              const struct qn_reply *part, int64_t now_ms)
{
    struct found found = {.token = qn_reply_uint(qn_reply_at(part, 0)), .now_ms = now_ms};
    quern_status status = QUERN_OK;
    for (size_t i = 0; i < taking->exchange->queue_count; i++) {
        const struct qn_reply *list = qn_reply_at(part, i + 1);
        found.queue_index = i;
        for (size_t k = 0; status == QUERN_OK && k + PLACES <= list->count; k += PLACES) {
            found.id = list->items[k];
            found.message = list->items[k + 1];
            found.run = list->items[k + 2];
            found.extra = list->items[k + 3];
            status = take_found(talk, taking, &found);
            found.token += 1000;
        }
    }
    taking->ended_early =
        qn_reply_int(qn_reply_at(part, taking->exchange->queue_count + 1), 0) != 0;
    return status;
}

static void describe_queues(struct qn_exchange *exchange, const struct qn_reply *info)
{
    for (size_t i = 0; i < exchange->queue_count; i++) {
        struct qn_field_past streak = {0};
        const char *text = qn_reply_text(qn_reply_at(info, 2 * i + 1));
        qn_field_past_read(text, strlen(text), &streak); /* "count id": a count comes first, too */
        exchange->queues[i].paused = qn_reply_int(qn_reply_at(info, 2 * i), 0) != 0;
        exchange->queues[i].crash_streak = (uint32_t)streak.crash_count;
    }
}

/* How many runs there may be in all parts. */
static size_t count_places(const struct qn_reply *reply)
{
    size_t count = 0;
    for (size_t i = 2; i < reply->count; i++) {
        for (size_t k = 1; k < reply->items[i]->count; k++) {
            count += reply->items[i]->items[k]->count / PLACES;
        }
    }
    return count;
}

static void undo(struct qn_taking *taking, size_t first_run)
{
    struct qn_exchange_reply *reply = taking->reply;
    while (reply->run_count > first_run) {
        struct qn_leased *run = reply->runs[--reply->run_count];
        taking->exchange->queues[run->queue_index].leased--;
        qn_leased_free(run);
    }
    qn_taking_drop_refused(taking);
}

quern_status qn_taking_read(struct qn_talk *talk, struct qn_taking *taking, quern_error *err)
{
    size_t first_run = taking->reply->run_count;
    const struct qn_reply *reply = NULL;
    taking->refused_count = 0;
    taking->unreadable_count = 0;
    quern_status status = qn_talk_reply(talk, taking->command, &reply, err);
    if (status == QUERN_OK) {
        bool fits = reply->type == QN_REPLY_ARRAY && reply->count >= 2;
        status = qn_reply_expect(talk, fits, "lease", err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    size_t count = count_places(reply);
    taking->refused = qn_arena_alloc(talk->arena, count * sizeof *taking->refused);
    taking->unreadable = qn_arena_alloc(talk->arena, count * sizeof *taking->unreadable);
    if (taking->refused == NULL || taking->unreadable == NULL) {
        return qn_error_nomem(err);
    }
    describe_queues(taking->exchange, reply->items[1]);
    for (size_t i = 2; status == QUERN_OK && i < reply->count; i++) {
        status = take_part(talk, taking, reply->items[i], qn_reply_int(reply->items[0], 0));
    }
    if (status != QUERN_OK) {
        undo(taking, first_run);
        return qn_error_nomem(err);
    }
    taking->part_count += reply->count - 2;
    return QUERN_OK;
}

void qn_taking_drop_refused(struct qn_taking *taking)
{
    for (size_t i = 0; i < taking->refused_count; i++) {
        /* Our own block; the outcome only borrows it. */
        qn_leased_free((struct qn_leased *)(uintptr_t)taking->refused[i].run);
    }
    taking->refused_count = 0;
}
