/* SPDX-License-Identifier: MIT */
/* extend.c - extends the leases of this worker's runs.
 *
 * One script for each queue and QN_BATCH_MAX runs, all in one pipeline, on a channel that nothing
 * else uses: a late extension costs a second run. Without a run it only opens the connection. The
 * answer brings the cancellations, so that none is lost when its message was. */
#include <string.h>

#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/extend_lua.h"
#include "broker/redis/schema/keys.h"

/* The script that answers for each extension, and the place of the answer in it. */
struct place {
    size_t command;
    size_t index;
    bool added;
};

/* One call, on one channel. */
struct extend_call {
    struct qn_redis *self;
    struct qn_pipeline pipeline;
    enum qn_channel_kind channel;
    struct qn_extension *extensions;
    struct place *places; /* one for each extension */
    size_t count;
    int64_t lease_ms;
};

/* A new connection may be one to a server that was restarted: a request for the text would cost one
 * more round trip, and the extension may be too late. (Nodes of a cluster are asked all the
 * same.) */
static bool knows_script(const struct extend_call *call)
{
    const struct qn_connection *connection = &call->pipeline.channel->connection;
    return call->channel == QN_CHANNEL_LEASES && connection->socket.fd >= 0 &&
           connection->opened_count == call->self->extend_known_by;
}

/* The lock of a unique task holds for two leases more at least. */
static void add_lock(struct extend_call *call, const struct qn_task *task, size_t index)
{
    bool holds = task->unique_until != QUERN_UNIQUE_UNTIL_STARTED &&
                 task->unique_until != QUERN_UNIQUE_UNTIL_EXPIRED;
    if (task->unique_key != NULL && task->unique_span_ms > 0 && holds) {
        int64_t least_ms = 2 * call->lease_ms;
        qn_pipeline_uint(&call->pipeline, index + 1);
        qn_pipeline_text(&call->pipeline, task->unique_key);
        qn_pipeline_int(&call->pipeline,
                        task->unique_span_ms > least_ms ? task->unique_span_ms : least_ms);
    }
}

/* Adds the script of the queue of extension number `first`, with all that fits. */
static void add_script(struct extend_call *call, size_t first)
{
    struct qn_pipeline *pipeline = &call->pipeline;
    const struct qn_extension *extensions = call->extensions;
    struct place *places = call->places;
    const char *queue = extensions[first].run->task.queue;
    size_t command = pipeline->command_count;
    size_t added = 0;
    if (call->self->cluster != NULL || knows_script(call)) {
        qn_pipeline_script(pipeline, &qn_lua_extend, 1);
    } else {
        qn_pipeline_script_text(pipeline, &qn_lua_extend, 1);
    }
    qn_pipeline_hasty(pipeline); /* the leases of other queues do not wait for its node */
    qn_keys_add_prefix(pipeline, queue);
    qn_pipeline_int(pipeline, call->lease_ms);
    for (size_t i = first; i < call->count && added < QN_BATCH_MAX; i++) {
        if (!places[i].added && strcmp(extensions[i].run->task.queue, queue) == 0) {
            places[i] = (struct place){.command = command, .index = added++, .added = true};
        }
    }
    qn_pipeline_uint(pipeline, added);
    for (size_t i = first; i < call->count; i++) {
        if (places[i].added && places[i].command == command) {
            qn_pipeline_text(pipeline, extensions[i].run->task.id);
            qn_pipeline_uint(pipeline, extensions[i].run->token);
        }
    }
    for (size_t i = first; i < call->count; i++) {
        if (places[i].added && places[i].command == command) {
            add_lock(call, &extensions[i].run->task, places[i].index);
        }
    }
}

static void take_answer(struct qn_extension *extension, char answer)
{
    extension->held = answer != '0';
    extension->cancel = answer == '2'   ? QN_CANCEL_RETRY
                        : answer == '3' ? QN_CANCEL_ARCHIVE
                                        : QN_CANCEL_NONE;
}

static quern_status take_answers(struct extend_call *call, quern_error *err)
{
    struct qn_pipeline *pipeline = &call->pipeline;
    for (size_t i = 0; i < call->count; i++) {
        const struct place *place = &call->places[i];
        const struct qn_reply *reply = NULL;
        quern_status status = qn_pipeline_reply(pipeline, place->command, &reply, err);
        if (status == QUERN_E_CORRUPT) {
            /* The key of the leases is something else: all of this queue are lost, others not. */
            take_answer(&call->extensions[i], '0');
            continue;
        }
        if (status == QUERN_E_BUSY && call->self->cluster != NULL) {
            call->extensions[i].unanswered = true;
            continue;
        }
        if (status == QUERN_OK) {
            status = qn_pipeline_expect(pipeline, place->index < reply->size, "extend", err);
        }
        if (status != QUERN_OK) {
            return status;
        }
        take_answer(&call->extensions[i], reply->data[place->index]);
    }
    return QUERN_OK;
}

static quern_status extend_all(struct extend_call *call, quern_error *err)
{
    struct qn_pipeline *pipeline = &call->pipeline;
    size_t count = call->count;
    call->places = qn_arena_alloc(pipeline->arena, count * sizeof(struct place) + 1);
    if (call->places == NULL) {
        return qn_error_nomem(err);
    }
    memset(call->places, 0, count * sizeof(struct place));
    for (size_t i = 0; i < count; i++) {
        call->extensions[i].unanswered = false;
    }
    if (count == 0) {
        qn_pipeline_command(pipeline, "PING"); /* so that a dead connection is found in time */
    }
    for (size_t i = 0; i < count; i++) {
        if (!call->places[i].added) {
            add_script(call, i);
        }
    }
    quern_status status = qn_pipeline_run(pipeline, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_any_present(pipeline, 0, err);
    }
    if (status == QUERN_OK) {
        status = take_answers(call, err);
    }
    if (status == QUERN_OK && count > 0 && call->channel == QN_CHANNEL_LEASES) {
        call->self->extend_known_by = pipeline->channel->connection.opened_count;
    }
    return status;
}

/* Answers may be late by half a lease; that long, and a little longer, is waited for them. A
 * connection that is dead without a word then still leaves time for another one. */
static int64_t timeout_of(int64_t lease_ms)
{
    return lease_ms * 7 / 12;
}

/* *ret_no_connection: nothing was sent, as there is no connection. */
static quern_status extend_on(struct extend_call *call, enum qn_channel_kind channel,
                              bool *ret_no_connection, quern_error *err)
{
    struct qn_pipeline *pipeline = &call->pipeline;
    call->channel = channel;
    qn_redis_begin(pipeline, call->self, channel, QN_PIPELINE_WRITES);
    pipeline->timeout_ms = timeout_of(call->lease_ms);
    quern_status status = extend_all(call, err);
    *ret_no_connection = status != QUERN_OK && !pipeline->maybe_done && status != QUERN_E_TIMEOUT;
    qn_pipeline_end(pipeline);
    return status;
}

quern_status qn_redis_extend(struct qn_broker *broker, struct qn_extension *extensions,
                             size_t count, int64_t lease_ms, quern_error *err)
{
    struct extend_call call = {.self = qn_redis_of(broker),
                               .extensions = extensions,
                               .count = count,
                               .lease_ms = lease_ms};
    bool no_connection = false;
    quern_status status = extend_on(&call, QN_CHANNEL_LEASES, &no_connection, err);
    if (no_connection && count > 0) {
        /* The server may have no room for one more connection, and one of ours may be open. */
        status = extend_on(&call, QN_CHANNEL_KEEPER, &no_connection, err);
    }
    return status;
}
