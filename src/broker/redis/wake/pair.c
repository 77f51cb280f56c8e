/* SPDX-License-Identifier: MIT */
/* pair.c - makes one unit of the tracked connection and the listener; for arm.c and watch.c.
 *
 * In RESP2 the server does not report that the other end of a redirection is gone. So who reads
 * over the tracked connection checks afterwards that both connections are still the ones they were
 * before, and reads again if not. */
#include "broker/redis/wake/pair.h"

#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "broker/redis/redis.h"

quern_status qn_redis_pair_prepare(struct qn_redis *self, int node, struct qn_redis_pair *ret_pair,
                                   quern_error *err)
{
    struct qn_redis_listener *listener = &self->listener;
    struct qn_connection *tracked =
        qn_channel_connection(&self->channels[QN_CHANNEL_TRACKED], node);
    struct qn_redis_ear *ear = NULL;
    if (tracked == NULL) {
        return qn_error_nomem(err);
    }
    if (tracked->socket.fd >= 0 && qn_connection_is_stale(tracked)) {
        qn_connection_close(tracked);
    }
    (void)pthread_mutex_lock(&listener->mutex);
    (void)qn_redis_listener_leave(listener); /* what is read now is read at the other server */
    quern_status status = qn_redis_listener_connect(listener, node, &ear, err);
    if (status == QUERN_OK) {
        struct qn_redis_pair pair = {.node = node,
                                     .tracked =
                                         tracked->opened_count + (tracked->socket.fd < 0 ? 1 : 0),
                                     .listener = ear->connection.opened_count,
                                     .listener_id = ear->listener_id};
        pair.redirect = !qn_wake_state_polls(&listener->state) &&
                        (ear->redirects_from != pair.tracked ||
                         (ear->redirects_to != pair.listener && !QN_BUG(OLD_TRACKER)));
        *ret_pair = pair;
    }
    (void)pthread_mutex_unlock(&listener->mutex);
    return status;
}

void qn_redis_pair_redirect(struct qn_pipeline *pipeline, struct qn_redis_pair *pair)
{
    if (pair->redirect) {
        pair->command = pipeline->command_count;
        qn_pipeline_command(pipeline, "CLIENT");
        qn_pipeline_text(pipeline, "TRACKING");
        qn_pipeline_text(pipeline, "ON");
        qn_pipeline_text(pipeline, "REDIRECT");
        qn_pipeline_int(pipeline, pair->listener_id);
        qn_pipeline_at(pipeline, pair->node);
        qn_pipeline_hasty(pipeline);
    }
}

/* With mutex held: the answer to the order to redirect. False: the pair is none any more. */
static bool take_answer(struct qn_redis_listener *listener, struct qn_redis_ear *ear,
                        const struct qn_redis_pair *pair, const struct qn_reply *answer)
{
    if (answer->type != QN_REPLY_ERROR) {
        ear->redirects_from = pair->tracked;
        ear->redirects_to = pair->listener;
        return true;
    }
    if (strstr(answer->data, "does not exist") != NULL) {
        /* The listener is gone, and this answer is the first sign of it. */
        if (ear->connection.opened_count == pair->listener) {
            qn_connection_close(&ear->connection);
        }
        return false;
    }
    if (listener->cluster != NULL && strncmp(answer->data, "CLUSTERDOWN", 11) == 0) {
        return false;
    }
    qn_redis_listener_note_refusal(listener, "CLIENT TRACKING", answer->data);
    qn_redis_listener_kick(listener); /* it has to poll from now on */
    return true;
}

bool qn_redis_pair_settle(struct qn_redis *self, const struct qn_redis_pair *pair,
                          const struct qn_pipeline *pipeline)
{
    const struct qn_reply *answer = pair->redirect ? pipeline->commands[pair->command].reply : NULL;
    struct qn_redis_listener *listener = &self->listener;
    const struct qn_connection *tracked =
        qn_channel_connection(&self->channels[QN_CHANNEL_TRACKED], pair->node);
    (void)pthread_mutex_lock(&listener->mutex);
    struct qn_redis_ear *ear = qn_redis_listener_ear(listener, pair->node);
    bool is_gone = answer != NULL && answer->type == QN_REPLY_ERROR &&
                   strstr(answer->data, "does not exist") != NULL;
    bool same = ear != NULL && tracked->socket.fd >= 0 && tracked->opened_count == pair->tracked &&
                ear->connection.socket.fd >= 0 && ear->connection.opened_count == pair->listener;
    if (ear != NULL && answer != NULL && (same || is_gone)) {
        same = take_answer(listener, ear, pair, answer) && same;
    }
    if (same && ear->tracked_fd != tracked->socket.fd) {
        ear->tracked_fd = tracked->socket.fd;
        qn_redis_listener_kick(listener);
    }
    (void)pthread_mutex_unlock(&listener->mutex);
    return same;
}
