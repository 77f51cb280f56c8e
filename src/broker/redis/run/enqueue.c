/* SPDX-License-Identifier: MIT */
/* enqueue.c - stores tasks: a script for each queue and QN_BATCH_MAX of its tasks (enqueue.lua).
 *
 * Each such part goes out as soon as it is made, and the server works on it while the next one is
 * made; the answers are read at the end. So that each of them can be repeated, part n of a queue
 * keeps its reply under the number of the session + n. The first of several brings the text of the
 * script: if it were repeated because the server did not know the script, it would come after the
 * others.
 *
 * Each part is stored at once, but there is no transaction over several: when some are refused
 * (out of memory, a key has the wrong type) the others are stored, as the results show.
 * First of all the queues are put on asynq's list of queues, each time: that costs a microsecond a
 * batch, and a queue that was removed meanwhile comes back.
 *
 * No worker is woken from here: the server itself notifies workers of changes to their keys
 * (listener.h), so a Go client wakes them, too. */
#include "broker/redis/redis.h"

#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text/hash.h"
#include "base/text/number.h"
#include "broker/redis/run/enqueue_lua.h"
#include "broker/redis/run/replicate.h"
#include "broker/redis/run/task_row.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/task_fields.h"
#include "task/limits.h"

#define TWIN_SLOTS ((size_t)4 * QN_BATCH_MAX)
#define NONE SIZE_MAX
#define ATTEMPT_MS_MIN 500
#define BYTES_PER_MS 250 /* of a link that is slow, not silent */

/* Tasks of one queue, at most QN_BATCH_MAX, in their order. */
struct part {
    const char *queue;
    size_t place; /* among the parts of its queue */
    size_t first; /* task */
    size_t last;
    size_t size;
};

struct batch {
    struct qn_pipeline pipeline;
    const struct qn_enqueue *request;
    size_t *next; /* of each task: the one behind it in its part, or NONE */
    struct part *parts;
    size_t part_count;
};

/* The part that takes the next task of this queue. */
static struct part *part_for(struct batch *batch, const char *queue)
{
    size_t i = batch->part_count;
    while (i > 0 && strcmp(batch->parts[i - 1].queue, queue) != 0) {
        i--;
    }
    struct part *newest = i > 0 ? &batch->parts[i - 1] : NULL;
    if (newest != NULL && newest->size < QN_BATCH_MAX) {
        return newest;
    }
    struct part *part = &batch->parts[batch->part_count++];
    *part = (struct part){.queue = queue, .place = newest == NULL ? 0 : newest->place + 1};
    return part;
}

static quern_status make_parts(struct batch *batch, quern_error *err)
{
    struct qn_arena *arena = batch->pipeline.arena;
    batch->next = qn_arena_alloc(arena, batch->request->count * sizeof *batch->next);
    batch->parts = qn_arena_alloc(arena, batch->request->count * sizeof *batch->parts);
    if (batch->next == NULL || batch->parts == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < batch->request->count; i++) {
        if (batch->request->tasks[i].priority != 0) {
            return qn_broker_refuse_priority(err);
        }
        struct part *part = part_for(batch, batch->request->tasks[i].queue);
        if (part->size == 0) {
            part->first = i;
        } else {
            batch->next[part->last] = i;
        }
        batch->next[i] = NONE;
        part->last = i;
        part->size++;
    }
    return QUERN_OK;
}

/* Does an id come twice? A table of hashes answers "no" for certain; if it answers "maybe", the
 * script looks more closely. */
static bool may_have_twins(const struct batch *batch, const struct part *part)
{
    if (part->size == 1) {
        return false;
    }
    uint32_t slots[TWIN_SLOTS] = {0};
    for (size_t i = part->first; i != NONE; i = batch->next[i]) {
        const char *id = batch->request->tasks[i].id;
        uint32_t hash = (uint32_t)qn_hash_bytes(QN_HASH_START, id, strlen(id));
        hash = hash == 0 ? 1 : hash;
        size_t slot = hash % TWIN_SLOTS;
        while (slots[slot] != 0 && slots[slot] != hash) {
            slot = (slot + 1) % TWIN_SLOTS;
        }
        if (slots[slot] == hash) {
            return true;
        }
        slots[slot] = hash;
    }
    return false;
}

static bool all_plain(const struct batch *batch, const struct part *part)
{
    for (size_t i = part->first; i != NONE; i = batch->next[i]) {
        if (!qn_task_row_is_plain(&batch->request->tasks[i])) {
            return false;
        }
    }
    return true;
}

static bool any_policy(const struct batch *batch, const struct part *part)
{
    bool any = false;
    for (size_t i = part->first; i != NONE; i = batch->next[i]) {
        any = any || qn_task_row_has_policy(&batch->request->tasks[i]);
    }
    return any;
}

static quern_status add_part(struct batch *batch, const struct part *part, quern_error *err)
{
    struct qn_pipeline *pipeline = &batch->pipeline;
    if (part == batch->parts && batch->request->count > QN_BATCH_MAX) {
        qn_pipeline_script_text(pipeline, &qn_lua_enqueue, 1);
    } else {
        qn_pipeline_script(pipeline, &qn_lua_enqueue, 1);
    }
    qn_pipeline_hasty(pipeline); /* parts at other nodes do not wait for one that is silent */
    qn_keys_add_prefix(pipeline, part->queue);
    qn_keys_add_session(pipeline, batch->request->stamp.session + part->place);
    qn_pipeline_uint(pipeline, QN_BUG(REPLAY_IGNORED) ? 0 : batch->request->stamp.sequence);
    bool plain = all_plain(batch, part) && !may_have_twins(batch, part);
    if (plain) {
        qn_pipeline_text(pipeline, "");
    } else {
        qn_pipeline_text(pipeline, qn_arena_printf(pipeline->arena, "%zu%s", part->size,
                                                   any_policy(batch, part) ? "+" : ""));
    }
    for (size_t i = part->first; i != NONE; i = batch->next[i]) {
        qn_pipeline_text(pipeline, batch->request->tasks[i].id);
    }
    for (size_t i = part->first; i != NONE; i = batch->next[i]) {
        struct qn_bytes message = {0};
        quern_status status =
            qn_task_fields_encode(pipeline->arena, &batch->request->tasks[i], &message, err);
        if (status != QUERN_OK) {
            return status;
        }
        qn_pipeline_bytes(pipeline, message.data, message.size);
        pipeline->patience_ms += (int64_t)(message.size / BYTES_PER_MS);
    }
    size_t index = 0;
    for (size_t i = part->first; !plain && i != NONE; i = batch->next[i]) {
        qn_task_row_add(pipeline, &batch->request->tasks[i], ++index);
    }
    return QUERN_OK;
}

/* Many small parts share a write; what is left for the last write goes with the reading. */
static quern_status send_parts(struct batch *batch, quern_error *err)
{
    quern_status status = QUERN_OK;
    size_t unsent = 0;
    qn_pipeline_command(&batch->pipeline, "SADD");
    qn_pipeline_hasty(&batch->pipeline);
    qn_pipeline_text(&batch->pipeline, QN_KEY_QUEUES);
    for (size_t i = 0; i < batch->part_count; i++) {
        if (batch->parts[i].place == 0) {
            qn_pipeline_text(&batch->pipeline, batch->parts[i].queue);
        }
    }
    for (size_t i = 0; status == QUERN_OK && i < batch->part_count; i++) {
        status = add_part(batch, &batch->parts[i], err);
        if (status != QUERN_OK) {
            return qn_pipeline_fail(&batch->pipeline, status, err);
        }
        unsent += batch->parts[i].size;
        if (unsent >= QN_BATCH_MAX && i + 1 < batch->part_count) {
            status = qn_pipeline_send(&batch->pipeline, err);
            unsent = 0;
        }
    }
    return status;
}

static quern_status result_of(char letter)
{
    switch (letter) {
    case 'o':
    case 'i':
    case 'r':
        return QUERN_OK;
    case 'd':
        return QUERN_E_DUPLICATE;
    case 'c':
        return QUERN_E_CONFLICT;
    case 'f':
        return QUERN_E_FULL;
    default:
        return QUERN_E_BROKER;
    }
}

/* The next id of a holder in a reply, "5 hello"; NULL: it is not one, or memory is out. */
static const char *take_holder(struct qn_cursor *at, struct qn_arena *arena)
{
    uint64_t size = 0;
    if (!qn_number_take(at, &size) || at->at == at->end || *at->at != ' ' ||
        size > (uint64_t)(at->end - at->at - 1)) {
        return NULL;
    }
    int shown = size > QN_NAME_SIZE_MAX ? QN_NAME_SIZE_MAX : (int)size; /* Go's may be longer */
    const char *id = qn_arena_printf(arena, "%.*s", shown, at->at + 1);
    at->at += 1 + size;
    return id;
}

static bool names_holder(char letter)
{
    return letter == 'd' || letter == 'i' || letter == 'r';
}

/* A letter for each task of the part, then the ids of holders. */
static quern_status take_letters(const struct batch *batch, const struct part *part,
                                 const struct qn_reply *reply, quern_error *err)
{
    const struct qn_enqueue *request = batch->request;
    struct qn_cursor holders = {reply->data + part->size, reply->data + reply->size};
    size_t at = 0;
    for (size_t i = part->first; i != NONE; i = batch->next[i], at++) {
        request->results[i] = result_of(reply->data[at]);
        if (request->results[i] == QUERN_E_FULL && request->ret_limited != NULL) {
            *request->ret_limited = true;
        }
        if (names_holder(reply->data[at])) {
            request->holders[i] = take_holder(&holders, request->arena);
            if (request->holders[i] == NULL) {
                return qn_pipeline_expect(&batch->pipeline, false, "enqueue", err);
            }
        }
    }
    return QUERN_OK;
}

static quern_status read_answer(const struct batch *batch, size_t command,
                                const struct qn_reply **ret_reply, quern_error *err)
{
    quern_status status = qn_pipeline_reply(&batch->pipeline, command, ret_reply, err);
    return status == QUERN_E_BUSY && batch->pipeline.commands[command].lost
               ? qn_error_as_unknown(err, "effect unknown")
               : status;
}

/* The results of one part, from the script with this index. */
static quern_status take_results(const struct batch *batch, const struct part *part, size_t command,
                                 quern_error *err)
{
    const struct qn_reply *reply = NULL;
    quern_status status = read_answer(batch, command, &reply, err);
    bool all = false;
    if (status == QUERN_OK) {
        all = reply->type == QN_REPLY_TEXT && strcmp(reply->data, "o") == 0;
        bool each = reply->type == QN_REPLY_TEXT && reply->size >= part->size;
        status = qn_pipeline_expect(&batch->pipeline, all || each, "enqueue", err);
    }
    if (status == QUERN_OK && !all) {
        status = take_letters(batch, part, reply, err);
    }
    for (size_t i = part->first; (status != QUERN_OK || all) && i != NONE; i = batch->next[i]) {
        batch->request->results[i] = status;
    }
    return status;
}

/* Where the list is at a silent node the tasks are stored all the same: the next enqueue lists the
 * queue, and so does each heartbeat of a worker that serves it. */
static quern_status check_listed(const struct batch *batch, quern_error *err)
{
    const struct qn_reply *listed = NULL;
    if (qn_pipeline_reply(&batch->pipeline, 0, &listed, err) == QUERN_OK ||
        batch->pipeline.commands[0].absent) {
        return QUERN_OK;
    }
    return qn_error_as_unknown(err, "stored, but not listed");
}

/* How the parts came out. */
struct tally {
    size_t refused;
    size_t open;    /* of these, those that may be stored by the same request later */
    size_t unknown; /* of these, those that may be stored by now */
    quern_status first;
    quern_error first_error;
    quern_error open_error;
};

static void count_part(struct tally *tally, quern_status status, const quern_error *error)
{
    bool open = status == QUERN_E_BUSY || status == QUERN_E_UNKNOWN;
    if (status != QUERN_OK && tally->refused++ == 0) {
        tally->first = status;
        tally->first_error = *error;
    }
    if (open && tally->open++ == 0) {
        tally->open_error = *error;
    }
    tally->unknown += status == QUERN_E_UNKNOWN ? 1 : 0;
}

static void put_error(quern_error *err, const quern_error *error)
{
    if (err != NULL) {
        *err = *error;
    }
}

/* Fails only when nothing was stored, or when it has to be done again: the queues could not be
 * listed, or a server was silent, or busy with something else in between. */
static quern_status take_all_results(const struct batch *batch, quern_error *err)
{
    struct tally tally = {0};
    for (size_t i = 0; i < batch->part_count; i++) {
        quern_error error = {0};
        quern_status status = take_results(batch, &batch->parts[i], i + 1, &error);
        count_part(&tally, status, &error);
    }
    if (tally.open > 0 && (tally.open < batch->part_count || tally.unknown > 0)) {
        put_error(err, &tally.open_error);
        if (batch->request->ret_partial != NULL) {
            *batch->request->ret_partial = true;
        }
        return qn_error_as_unknown(err, "stored in part"); /* known when all is repeated */
    }
    if (tally.refused == batch->part_count) {
        put_error(err, &tally.first_error);
        return tally.first;
    }
    return check_listed(batch, err);
}

/* Tasks that were stored now, and that too few replicas have, get that as their result. */
static void replicate(struct qn_redis *self, struct batch *batch)
{
    const struct qn_enqueue *request = batch->request;
    bool waited = false;
    quern_status status = QUERN_OK;
    for (size_t i = 0; i < batch->part_count; i++) {
        const struct part *part = &batch->parts[i];
        for (size_t k = part->first; k != NONE; k = batch->next[k]) {
            bool stored = request->results[k] == QUERN_OK && request->holders[k] == NULL;
            if (stored && !waited) { /* all parts were written before */
                status = qn_replicate_wait(self, &batch->pipeline, part->queue,
                                           request->stamp.session + part->place,
                                           request->ret_few_replicas);
                waited = true;
            }
            request->results[k] = stored ? status : request->results[k];
        }
    }
}

/* Of an attempt that begins shortly before the end of the caller's time, which covers them all. */
static int64_t timeout_ms(const struct qn_redis *self, const struct qn_enqueue *enqueue)
{
    int64_t least_ms = self->timeout_ms < ATTEMPT_MS_MIN ? self->timeout_ms : ATTEMPT_MS_MIN;
    int64_t left_ns = enqueue->deadline_mono_ns - qn_clock_mono_ns();
    return enqueue->deadline_mono_ns == 0
               ? self->timeout_ms
               : qn_number_clamp(left_ns / QN_NS_PER_MS + 1, least_ms, self->timeout_ms);
}

quern_status qn_redis_enqueue(struct qn_broker *broker, const struct qn_enqueue *enqueue,
                              quern_error *err)
{
    QN_ASSERT(enqueue->count <= QN_ENQUEUE_MAX);
    if (enqueue->count == 0) {
        return QUERN_OK;
    }
    struct batch batch = {.request = enqueue};
    qn_redis_begin(&batch.pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    batch.pipeline.timeout_ms = timeout_ms(qn_redis_of(broker), enqueue);
    quern_status status = make_parts(&batch, err);
    if (status == QUERN_OK) {
        status = send_parts(&batch, err);
    }
    if (status == QUERN_OK) {
        status = qn_pipeline_run(&batch.pipeline, err);
    }
    if (status == QUERN_OK) {
        status = take_all_results(&batch, err);
    }
    if (status == QUERN_OK) {
        replicate(qn_redis_of(broker), &batch);
    }
    qn_pipeline_end(&batch.pipeline);
    if (status == QUERN_E_FULL) {
        qn_redis_full_explain(qn_redis_of(broker), err);
    }
    return status;
}
