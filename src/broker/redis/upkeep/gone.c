/* SPDX-License-Identifier: MIT */
/* gone.c - a worker that is gone: how many runs it had started when it went.
 *
 * A death is lone where it was exactly one, in all queues of the worker, and each queue is
 * recovered by a script of its own. So the runs are counted while all of them are there, and the
 * number is noted in each queue, by the first worker that recovers it, before any of the runs ends:
 * a later one, which would count only the rest, finds the note. If not everything can be counted
 * two are assumed, as a death that may have been shared convicts no task. */
#include "broker/redis/upkeep/gone.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/arena.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/worker_record.h"

#include "broker/redis/upkeep/count_runs_lua.h"
#include "broker/redis/upkeep/gone_lua.h"

#define PAGE 500
#define PAGES_MAX 64                        /* of one queue; where it takes more two are assumed */
#define RECORD_SIZE_MAX ((uint64_t)1 << 20) /* far more than 256 names of queues */
#define MANY 2                              /* more than one: how many more makes no difference */

/* Counts page by page; each page returns the start of the next one. */
struct counting {
    const char *queue;
    const char *worker_id;
    int64_t from;                   /* 0: the first, or there is none any more */
    const struct qn_reply *anchors; /* NULL: none */
    bool is_lost;                   /* something may have been passed over */
    int64_t count;
};

static quern_status count_page(struct qn_pipeline *pipeline, struct counting *counting,
                               quern_error *err)
{
    const struct qn_reply *reply = NULL;
    const struct qn_reply *anchors = counting->anchors;
    qn_pipeline_script(pipeline, &qn_lua_count_runs, 1);
    qn_keys_add_prefix(pipeline, counting->queue);
    qn_pipeline_text(pipeline, counting->worker_id);
    qn_pipeline_int(pipeline, counting->from);
    qn_pipeline_bytes(pipeline, anchors != NULL ? anchors->data : "",
                      anchors != NULL ? anchors->size : 0);
    qn_pipeline_int(pipeline, PAGE);
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status == QUERN_OK) {
        anchors = qn_reply_at(reply, 2);
        counting->count += qn_reply_int(qn_reply_at(reply, 0), MANY);
        counting->from = qn_reply_int(qn_reply_at(reply, 1), 0);
        counting->anchors = anchors->type == QN_REPLY_TEXT ? anchors : NULL;
        counting->is_lost = qn_reply_int(qn_reply_at(reply, 3), 1) != 0;
    }
    return status;
}

/* Up to MANY, of one queue. When runs end so fast that the place between two pages is lost, it
 * starts over. */
static quern_status count_queue(struct qn_pipeline *pipeline, const char *queue,
                                const char *worker_id, int64_t *count, quern_error *err)
{
    const struct counting start = {.queue = queue, .worker_id = worker_id};
    struct counting counting = start;
    quern_status status = QUERN_OK;
    bool at_end = false;
    for (int page = 0; status == QUERN_OK && !at_end && *count + counting.count < MANY; page++) {
        if (page == PAGES_MAX) {
            counting.count = MANY;
            break;
        }
        status = count_page(pipeline, &counting, err);
        at_end = counting.from <= 0;
        if (status == QUERN_OK && counting.is_lost && *count + counting.count < MANY) {
            counting = start;
            at_end = false;
        }
    }
    *count += counting.count;
    if (status == QUERN_E_CORRUPT) { /* recovery of that queue will report it */
        *count = MANY;
        status = QUERN_OK;
    }
    return status;
}

static quern_status note_queue(struct qn_pipeline *pipeline, const char *queue,
                               const char *worker_id, int64_t *count, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    qn_pipeline_script(pipeline, &qn_lua_gone, 1);
    qn_keys_add_prefix(pipeline, queue);
    qn_pipeline_text(pipeline, worker_id);
    qn_pipeline_int(pipeline, *count);
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status == QUERN_OK) {
        int64_t noted = qn_reply_int(reply, -1);
        *count = noted >= 0 ? noted : *count;
    }
    return status == QUERN_E_CORRUPT ? QUERN_OK : status;
}

static void ask_field(struct qn_pipeline *pipeline, const char *command, const char *worker_id)
{
    qn_pipeline_command(pipeline, command);
    qn_pipeline_text(pipeline, QN_KEY_RECORDS);
    qn_pipeline_text(pipeline, worker_id);
}

/* The record that names all its queues; no queues when there is none. */
static quern_status read_record(struct qn_pipeline *pipeline, const char *worker_id,
                                struct qn_worker_record *ret_record, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    *ret_record = (struct qn_worker_record){0};
    ask_field(pipeline, "HSTRLEN", worker_id);
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status == QUERN_OK && qn_reply_uint(reply) > RECORD_SIZE_MAX) {
        return QUERN_OK;
    }
    if (status == QUERN_OK) {
        ask_field(pipeline, "HGET", worker_id);
        status = qn_pipeline_ask(pipeline, &reply, err);
    }
    if (status == QUERN_OK && reply->type == QN_REPLY_TEXT) {
        status = qn_worker_record_read(pipeline->arena, worker_id, reply, ret_record, err);
    }
    if (status == QUERN_E_CORRUPT) {
        *ret_record = (struct qn_worker_record){0};
        status = QUERN_OK;
    }
    return status;
}

quern_status qn_gone_note(struct qn_pipeline *pipeline, const char *queue, const char *worker_id,
                          quern_error *err)
{
    struct qn_worker_record record;
    quern_status status = read_record(pipeline, worker_id, &record, err);
    int64_t count = record.queue_count == 0 ? MANY : 0;
    for (size_t i = 0; status == QUERN_OK && i < record.queue_count && count < MANY; i++) {
        status = count_queue(pipeline, record.queues[i], worker_id, &count, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < record.queue_count; i++) {
        status = note_queue(pipeline, record.queues[i], worker_id, &count, err);
    }
    return status == QUERN_OK ? note_queue(pipeline, queue, worker_id, &count, err) : status;
}
