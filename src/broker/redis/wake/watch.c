/* SPDX-License-Identifier: MIT */
/* watch.c - notices of single tasks, for a client that waits for their end.
 *
 * The key of a task is read over the tracked connection, so its next change wakes the listener,
 * also one that Go or an operator makes; no other program pays for that. Such a listener receives
 * no cancellations (listener.c). */
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/node.h"
#include "broker/redis/wake/pair.h"

/* The listener of a broker object that watches subscribes to less. Nothing is waiting yet. */
static void choose_notices(struct qn_redis_listener *listener)
{
    (void)pthread_mutex_lock(&listener->mutex);
    listener->no_cancellations = true;
    (void)pthread_mutex_unlock(&listener->mutex);
}

static quern_status try_watch(struct qn_redis *self, const char *queue, const char *id,
                              bool *ret_settled, quern_error *err)
{
    struct qn_pipeline pipeline;
    struct qn_redis_pair pair = {.node = 0};
    qn_redis_begin(&pipeline, self, QN_CHANNEL_TRACKED, QN_PIPELINE_READS);
    quern_status status = qn_node_of_queue(self->cluster, pipeline.arena, queue, &pair.node, err);
    if (status == QUERN_OK && pair.node < 0) {
        status = qn_error_set(err, QUERN_E_BUSY, "%s: no node owns the slot of %s",
                              qn_failover_address(&self->failover), queue);
    }
    if (status == QUERN_OK) {
        status = qn_redis_pair_prepare(self, pair.node, &pair, err);
    }
    if (status == QUERN_OK) {
        qn_redis_pair_redirect(&pipeline, &pair);
        qn_pipeline_command(&pipeline, "HGET");
        qn_keys_add_task(&pipeline, queue, id, QN_BUG(END_UNREPORTED) ? 0 : strlen(id));
        qn_pipeline_text(&pipeline, "state");
        status = qn_pipeline_run(&pipeline, err);
    }
    if (status == QUERN_OK) {
        const struct qn_reply *state;
        const struct qn_pipeline_command *asked = &pipeline.commands[pipeline.command_count - 1];
        *ret_settled = qn_redis_pair_settle(self, &pair, &pipeline) &&
                       (self->cluster == NULL || asked->at == pair.node);
        status = qn_pipeline_reply(&pipeline, pipeline.command_count - 1, &state, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_watch(struct qn_broker *broker, const char *queue, const char *id,
                            quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    choose_notices(&self->listener);
    bool settled = false;
    quern_status status = QUERN_OK;
    for (int i = 0; status == QUERN_OK && i < QN_PAIR_ATTEMPT_MAX && !settled; i++) {
        status = try_watch(self, queue, id, &settled, err);
    }
    if (status == QUERN_OK && !settled) {
        return qn_error_set(err, QUERN_E_CONNECT,
                            "%s: the connections for wake-ups do not stay open",
                            qn_failover_address(&self->failover));
    }
    char refusal[QN_REFUSAL_SIZE];
    qn_redis_listener_refusal(&self->listener, refusal);
    return status == QUERN_OK && refusal[0] != '\0'
               ? qn_error_set(err, QUERN_E_UNSUPPORTED, "%s", refusal)
               : status;
}

static void take_notices_in(struct qn_redis_listener *listener, struct qn_notices *notices)
{
    (void)pthread_mutex_lock(&listener->mutex);
    listener->notices = notices;
    (void)pthread_mutex_unlock(&listener->mutex);
}

quern_status qn_redis_await(struct qn_broker *broker, int64_t timeout_ms,
                            struct qn_notices *ret_notices, quern_error *err)
{
    struct qn_redis_listener *listener = &qn_redis_of(broker)->listener;
    struct qn_wakeup wakeup;
    take_notices_in(listener, ret_notices);
    quern_status status = qn_redis_wait(broker, timeout_ms, &wakeup, err);
    take_notices_in(listener, NULL);
    return status;
}
