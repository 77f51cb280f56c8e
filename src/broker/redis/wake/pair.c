/* SPDX-License-Identifier: MIT */
/* pair.c - makes one unit of the tracked connection and the listener; for arm.c and watch.c.
 *
 * In RESP2 the server does not report that the other end of a redirection is gone. So who reads
 * over the tracked connection checks afterwards that both connections are still the ones they were
 * before, and reads again if not. */
#include "broker/redis/wake/pair.h"

#include <string.h>

#include "base/bug.h"
#include "broker/redis/redis.h"

quern_status qn_redis_pair_prepare(struct qn_redis *self, struct qn_redis_pair *ret_pair,
                                   quern_error *err)
{
    struct qn_redis_listener *listener = &self->listener;
    struct qn_connection *tracked = &self->channels[QN_CHANNEL_TRACKED].connection;
    if (tracked->socket.fd >= 0 && qn_connection_is_stale(tracked)) {
        qn_connection_close(tracked);
    }
    (void)pthread_mutex_lock(&listener->mutex);
    quern_status status = qn_redis_listener_connect(listener, err);
    struct qn_redis_pair pair = {.tracked =
                                     tracked->opened_count + (tracked->socket.fd < 0 ? 1 : 0),
                                 .listener = listener->connection.opened_count,
                                 .listener_id = listener->listener_id};
    pair.redirect = !qn_wake_state_polls(&listener->state) &&
                    (listener->redirects_from != pair.tracked ||
                     (listener->redirects_to != pair.listener && !QN_BUG(OLD_TRACKER)));
    (void)pthread_mutex_unlock(&listener->mutex);
    *ret_pair = pair;
    return status;
}

void qn_redis_pair_redirect(struct qn_pipeline *pipeline, const struct qn_redis_pair *pair)
{
    if (pair->redirect) {
        qn_pipeline_command(pipeline, "CLIENT");
        qn_pipeline_text(pipeline, "TRACKING");
        qn_pipeline_text(pipeline, "ON");
        qn_pipeline_text(pipeline, "REDIRECT");
        qn_pipeline_int(pipeline, pair->listener_id);
    }
}

bool qn_redis_pair_settle(struct qn_redis *self, const struct qn_redis_pair *pair,
                          const struct qn_pipeline *pipeline)
{
    /* To the order to redirect, which is the first command. */
    const struct qn_reply *answer = pair->redirect ? pipeline->commands[0].reply : NULL;
    struct qn_redis_listener *listener = &self->listener;
    const struct qn_connection *tracked = &self->channels[QN_CHANNEL_TRACKED].connection;
    (void)pthread_mutex_lock(&listener->mutex);
    bool same = tracked->socket.fd >= 0 && tracked->opened_count == pair->tracked &&
                listener->connection.socket.fd >= 0 &&
                listener->connection.opened_count == pair->listener;
    if (answer != NULL && answer->type == QN_REPLY_ERROR) {
        if (strstr(answer->data, "does not exist") != NULL) {
            /* The listener is gone, and this answer is the first sign of it. */
            same = false;
            if (listener->connection.opened_count == pair->listener) {
                qn_connection_close(&listener->connection);
            }
        } else if (same) {
            qn_redis_listener_note_refusal(listener, "CLIENT TRACKING", answer->data);
            qn_redis_listener_kick(listener); /* it has to poll from now on */
        }
    } else if (answer != NULL && same) {
        listener->redirects_from = pair->tracked;
        listener->redirects_to = pair->listener;
    }
    if (same && listener->tracked_fd != tracked->socket.fd) {
        listener->tracked_fd = tracked->socket.fd;
        qn_redis_listener_kick(listener);
    }
    (void)pthread_mutex_unlock(&listener->mutex);
    return same;
}
