/* SPDX-License-Identifier: MIT */
/* extend.c - prolongs the leases of this worker's runs.
 *
 * One script for each queue and QN_BATCH_MAX runs, all in one pipeline, on a channel that nothing
 * else uses: a late extension costs a second run. Without a run it only opens the connection. The
 * answer brings the cancellations, so that none is lost when its message was. */
#include <string.h>

#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/extend_lua.h"

/* The script that answers for each extension, and the place of the answer in it. */
struct place {
    size_t command;
    size_t index;
    bool added;
};

/* A new connection may be one to a server that was restarted: to be asked for the text would cost
 * one more answer, which may be late. */
static bool knows_script(struct qn_pipeline *pipeline)
{
    const struct qn_connection *connection =
        &pipeline->self->channels[pipeline->channel].connection;
    return pipeline->channel == QN_CHANNEL_LEASES && connection->fd >= 0 &&
           connection->opened_count == pipeline->self->extend_known_by;
}

/* Adds the script of the queue of extension number `first`, with all that fits. */
static void add_script(struct qn_pipeline *pipeline, const struct qn_extension *extensions,
                       size_t count, size_t first, int64_t lease_ms, struct place *places)
{
    const char *queue = extensions[first].run->task.queue;
    size_t command = pipeline->command_count;
    size_t added = 0;
    if (knows_script(pipeline)) {
        qn_pipeline_script(pipeline, &qn_lua_extend, 1);
    } else {
        qn_pipeline_script_text(pipeline, &qn_lua_extend, 1);
    }
    qn_pipeline_prefix(pipeline, queue);
    qn_pipeline_int(pipeline, lease_ms);
    for (size_t i = first; i < count && added < QN_BATCH_MAX; i++) {
        const struct qn_leased *run = extensions[i].run;
        if (!places[i].added && strcmp(run->task.queue, queue) == 0) {
            places[i] = (struct place){.command = command, .index = added++, .added = true};
            qn_pipeline_text(pipeline, run->task.id);
            qn_pipeline_uint(pipeline, run->token);
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

static quern_status take_answers(const struct qn_pipeline *pipeline,
                                 struct qn_extension *extensions, size_t count,
                                 const struct place *places, quern_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct qn_reply *reply = NULL;
        quern_status status = qn_pipeline_reply(pipeline, places[i].command, &reply, err);
        if (status == QUERN_E_CORRUPT) {
            /* The key of the leases is something else: all of this queue are lost, others not. */
            take_answer(&extensions[i], '0');
            continue;
        }
        if (status == QUERN_OK) {
            status = qn_reply_expect(pipeline, places[i].index < reply->size, "extend", err);
        }
        if (status != QUERN_OK) {
            return status;
        }
        take_answer(&extensions[i], reply->data[places[i].index]);
    }
    return QUERN_OK;
}

static quern_status extend_on(struct qn_pipeline *pipeline, struct qn_extension *extensions,
                              size_t count, int64_t lease_ms, quern_error *err)
{
    struct place *places = qn_arena_alloc(pipeline->arena, count * sizeof places[0] + 1);
    if (places == NULL) {
        return qn_error_nomem(err);
    }
    memset(places, 0, count * sizeof places[0]);
    for (size_t i = 0; i < count; i++) {
        if (!places[i].added) {
            add_script(pipeline, extensions, count, i, lease_ms, places);
        }
    }
    quern_status status = qn_pipeline_run(pipeline, err);
    if (status == QUERN_OK) {
        status = take_answers(pipeline, extensions, count, places, err);
    }
    if (status == QUERN_OK && count > 0 && pipeline->channel == QN_CHANNEL_LEASES) {
        pipeline->self->extend_known_by =
            pipeline->self->channels[pipeline->channel].connection.opened_count;
    }
    return status;
}

/* Answers may be late by half a lease; that long, and a little longer, is waited for them. A
 * connection that is dead without a word then still leaves time for another one. */
static int64_t timeout_of(int64_t lease_ms)
{
    return lease_ms * 7 / 12;
}

quern_status qn_redis_extend(struct qn_broker *broker, struct qn_extension *extensions,
                             size_t count, int64_t lease_ms, quern_error *err)
{
    struct qn_pipeline pipeline;
    struct qn_redis *self = qn_redis_of(broker);
    qn_pipeline_begin(&pipeline, self, QN_CHANNEL_LEASES, QN_PIPELINE_WRITES);
    pipeline.timeout_ms = timeout_of(lease_ms);
    quern_status status = extend_on(&pipeline, extensions, count, lease_ms, err);
    bool no_connection = status != QUERN_OK && !pipeline.maybe_done && status != QUERN_E_TIMEOUT;
    qn_pipeline_end(&pipeline);
    if (no_connection && count > 0) {
        /* The server may have no room for one more connection, and one of ours may be open. */
        qn_pipeline_begin(&pipeline, self, QN_CHANNEL_KEEPER, QN_PIPELINE_WRITES);
        pipeline.timeout_ms = timeout_of(lease_ms);
        status = extend_on(&pipeline, extensions, count, lease_ms, err);
        qn_pipeline_end(&pipeline);
    }
    return status;
}
