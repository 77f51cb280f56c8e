/* SPDX-License-Identifier: MIT */
/* enqueue.c - stores tasks: one script a queue (enqueue.lua), all in one write.
 *
 * Each script stores its tasks at once, but there is no transaction over several queues: when some
 * of them are refused (memory is out, a key has the wrong type) the others are stored, and the
 * results tell which. In the same write the queues are put on asynq's list of queues, each time:
 * that costs a microsecond a batch, and a queue that somebody else has removed comes back.
 *
 * Nobody is woken from here: the server itself tells workers of changes to their keys (watch.h), so
 * a Go client wakes them, too. */
#include "broker/redis/redis.h"

#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "broker/redis/enqueue_lua.h"
#include "broker/redis/fields.h"

#define TWIN_SLOTS ((size_t)4 * QN_BATCH_MAX)

struct batch {
    struct qn_talk talk;
    const struct qn_task *tasks;
    size_t count;
    const char *queues[QN_BATCH_MAX]; /* each once */
    size_t queue_sizes[QN_BATCH_MAX]; /* tasks for it */
    size_t queue_count;
    uint8_t queue_of[QN_BATCH_MAX]; /* of each task */
};

static size_t find_queue(const struct batch *batch, const char *queue)
{
    size_t i = 0;
    while (i < batch->queue_count && strcmp(batch->queues[i], queue) != 0) {
        i++;
    }
    return i;
}

static void sort_by_queue(struct batch *batch)
{
    size_t last = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const char *queue = batch->tasks[i].queue;
        bool is_last = batch->queue_count > 0 && strcmp(batch->queues[last], queue) == 0;
        last = is_last ? last : find_queue(batch, queue);
        if (last == batch->queue_count) {
            batch->queues[last] = queue;
            batch->queue_count++;
        }
        batch->queue_of[i] = (uint8_t)last;
        batch->queue_sizes[last]++;
    }
}

/* Does an id of this queue come twice? A table of hashes says "no" for certain; when it says
 * "maybe", the script looks more closely. */
static bool may_have_twins(const struct batch *batch, size_t queue)
{
    uint32_t slots[TWIN_SLOTS] = {0};
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->queue_of[i] != queue) {
            continue;
        }
        uint32_t hash = 2166136261U; /* FNV-1a */
        for (const char *c = batch->tasks[i].id; *c != '\0'; c++) {
            hash = (hash ^ (unsigned char)*c) * 16777619U;
        }
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

/* Nothing but a pending task, whose message says it all? */
static bool is_plain(const struct qn_task *task, char opts[QN_FIELD_SIZE], size_t *ret_opts_size)
{
    *ret_opts_size = qn_field_opts_write(task, opts);
    return task->state == QUERN_TASK_PENDING && task->unique_key == NULL && *ret_opts_size == 0;
}

static bool all_plain(const struct batch *batch, size_t queue)
{
    for (size_t i = 0; i < batch->count; i++) {
        char opts[QN_FIELD_SIZE];
        size_t opts_size = 0;
        if (batch->queue_of[i] == queue && !is_plain(&batch->tasks[i], opts, &opts_size)) {
            return false;
        }
    }
    return true;
}

static const char *or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

/* What the script must know of a task that is more than a pending one. */
static void add_row(struct qn_talk *talk, const struct qn_task *task, size_t index)
{
    char opts[QN_FIELD_SIZE];
    size_t opts_size = 0;
    if (is_plain(task, opts, &opts_size)) {
        return;
    }
    const void *copy = qn_arena_copy(talk->arena, opts, opts_size);
    if (copy == NULL) {
        talk->failed = true;
        return;
    }
    qn_talk_uint(talk, index);
    qn_talk_text(talk, quern_task_state_name(task->state));
    qn_talk_int(talk, task->process_at_ms);
    qn_talk_text(talk, or_empty(task->unique_key));
    qn_talk_int(talk, task->unique_ms);
    qn_talk_text(talk, task->state == QUERN_TASK_AGGREGATING ? task->group : "");
    qn_talk_bytes(talk, copy, opts_size);
}

static quern_status add_script(struct batch *batch, size_t queue, struct qn_stamp stamp,
                               quern_error *err)
{
    struct qn_talk *talk = &batch->talk;
    qn_talk_script(talk, &qn_lua_enqueue, 1);
    qn_talk_prefix(talk, batch->queues[queue]);
    qn_talk_session(talk, stamp.session);
    qn_talk_uint(talk, QN_BUG(REPLAY_IGNORED) ? 0 : stamp.sequence);
    if (all_plain(batch, queue) && !may_have_twins(batch, queue)) {
        qn_talk_text(talk, "");
    } else {
        qn_talk_uint(talk, batch->queue_sizes[queue]);
    }
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->queue_of[i] == queue) {
            qn_talk_text(talk, batch->tasks[i].id);
        }
    }
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->queue_of[i] == queue) {
            struct qn_asynq_bytes message = {0};
            quern_status status =
                qn_redis_task_encode(talk->arena, &batch->tasks[i], &message, err);
            if (status != QUERN_OK) {
                return status;
            }
            qn_talk_bytes(talk, message.data, message.size);
        }
    }
    size_t index = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->queue_of[i] == queue) {
            add_row(talk, &batch->tasks[i], ++index);
        }
    }
    return QUERN_OK;
}

static quern_status result_of(char letter)
{
    switch (letter) {
    case 'o':
        return QUERN_OK;
    case 'd':
        return QUERN_E_DUPLICATE;
    case 'c':
        return QUERN_E_CONFLICT;
    default:
        return QUERN_E_BROKER;
    }
}

/* The results of one queue, from the script with this index. */
static quern_status take_results(const struct batch *batch, size_t queue, size_t command,
                                 quern_status *results, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    quern_status status = qn_talk_reply(&batch->talk, command, &reply, err);
    bool all = false;
    if (status == QUERN_OK) {
        all = reply->type == QN_REPLY_TEXT && strcmp(reply->data, "o") == 0;
        bool each = reply->type == QN_REPLY_TEXT && reply->size == batch->queue_sizes[queue];
        status = qn_reply_expect(&batch->talk, all || each, "enqueue", err);
    }
    size_t at = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->queue_of[i] == queue) {
            results[i] = status != QUERN_OK || all ? status : result_of(reply->data[at++]);
        }
    }
    return status;
}

/* Fails only when nothing was stored, or when the queues could not be listed. */
static quern_status take_all_results(const struct batch *batch, quern_status *results,
                                     quern_error *err)
{
    size_t refused = 0;
    quern_status first_refusal = QUERN_OK;
    for (size_t queue = 0; queue < batch->queue_count; queue++) {
        quern_error *unless_known = first_refusal == QUERN_OK ? err : NULL;
        quern_status status = take_results(batch, queue, queue + 1, results, unless_known);
        refused += status == QUERN_OK ? 0 : 1;
        first_refusal = first_refusal == QUERN_OK ? status : first_refusal;
    }
    if (refused == batch->queue_count) {
        return first_refusal;
    }
    const struct qn_reply *listed = NULL;
    if (qn_talk_reply(&batch->talk, 0, &listed, err) != QUERN_OK) {
        qn_error_prefix(err, "stored, but not listed");
        if (err != NULL) {
            err->code = QUERN_E_UNKNOWN;
        }
        return QUERN_E_UNKNOWN;
    }
    return QUERN_OK;
}

quern_status qn_redis_enqueue(struct qn_broker *broker, struct qn_stamp stamp,
                              const struct qn_task *tasks, size_t count, quern_status *results,
                              quern_error *err)
{
    QN_ASSERT(count <= QN_BATCH_MAX);
    if (count == 0) {
        return QUERN_OK;
    }
    struct batch batch = {.tasks = tasks, .count = count};
    quern_status status = QUERN_OK;
    sort_by_queue(&batch);
    qn_talk_begin(&batch.talk, qn_redis_of(broker), QN_LANE_REST, QN_TALK_WRITES);
    qn_talk_command(&batch.talk, "SADD");
    qn_talk_text(&batch.talk, "asynq:queues");
    for (size_t i = 0; i < batch.queue_count; i++) {
        qn_talk_text(&batch.talk, batch.queues[i]);
    }
    for (size_t i = 0; status == QUERN_OK && i < batch.queue_count; i++) {
        status = add_script(&batch, i, stamp, err);
    }
    if (status == QUERN_OK) {
        status = qn_talk_run(&batch.talk, err);
    }
    if (status == QUERN_OK) {
        status = take_all_results(&batch, results, err);
    }
    qn_talk_end(&batch.talk);
    return status;
}
