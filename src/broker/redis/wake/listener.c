/* SPDX-License-Identifier: MIT */
/* listener.c - opens, closes and describes the connection that receives notices; for arm.c and
 * wait.c.
 *
 * A new listener subscribes before arm redirects the tracked connection to it, and arm reads after
 * that: so there is no moment in which a notice could get lost. Without the channel of
 * invalidations the worker polls; without the channel of cancellations it learns of them when it
 * extends. */
#include "broker/redis/wake/listener.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/redis/schema/keys.h"
#include "redis/open.h"

#define SETUP                                                                                      \
    "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n"                                                           \
    "*2\r\n$9\r\nSUBSCRIBE\r\n$20\r\n__redis__:invalidate\r\n"
static const char setup[] = SETUP "*2\r\n$9\r\nSUBSCRIBE\r\n$12\r\n" QN_KEY_CANCEL "\r\n";
static const char setup_without_cancellations[] = SETUP;
enum { REPLY_ID, REPLY_INVALIDATE, REPLY_CANCEL, REPLY_COUNT };
enum { DUE_SPREAD_MS = 200 };

quern_status qn_redis_listener_init(struct qn_redis_listener *listener,
                                    struct qn_failover *failover, quern_error *err)
{
    *listener = (struct qn_redis_listener){.tracked_fd = -1};
    (void)pthread_mutex_init(&listener->mutex, NULL);
    qn_connection_init(&listener->connection, failover);
    listener->connection.role = "listener";
    qn_random_init(&listener->random);
    listener->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return listener->interrupt_fd >= 0
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_CONNECT, "%s: no descriptor left",
                              qn_failover_address(failover));
}

void qn_redis_listener_finish(struct qn_redis_listener *listener)
{
    qn_connection_finish(&listener->connection);
    qn_arena_finish(&listener->arena);
    if (listener->interrupt_fd >= 0) {
        (void)close(listener->interrupt_fd);
    }
    (void)pthread_mutex_destroy(&listener->mutex);
}

void qn_redis_listener_note_refusal(struct qn_redis_listener *listener, const char *command,
                                    const char *words)
{
    qn_wake_state_change(&listener->state, QN_WAKE_REFUSED);
    if (listener->refusal[0] == '\0') {
        (void)snprintf(listener->refusal, sizeof listener->refusal, "%s: %s", command, words);
    }
}

static quern_status set_up(struct qn_redis_listener *listener, int64_t deadline_mono_ns,
                           quern_error *err)
{
    struct qn_reply *replies[REPLY_COUNT] = {NULL};
    const char *text = listener->no_cancellations ? setup_without_cancellations : setup;
    size_t reply_count = listener->no_cancellations ? REPLY_CANCEL : REPLY_COUNT;
    quern_status status =
        qn_connection_send(&listener->connection, text, strlen(text), deadline_mono_ns, err);
    for (size_t i = 0; status == QUERN_OK && i < reply_count; i++) {
        status = qn_connection_receive(&listener->connection, &listener->arena, deadline_mono_ns,
                                       &replies[i], err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    listener->listener_id = qn_reply_int(replies[REPLY_ID], 0);
    qn_wake_state_change(&listener->state, QN_WAKE_CONNECTED);
    listener->refusal[0] = '\0';
    if (listener->listener_id == 0) {
        bool said = replies[REPLY_ID]->type == QN_REPLY_ERROR;
        qn_redis_listener_note_refusal(listener, "CLIENT ID",
                                       said ? replies[REPLY_ID]->data : "no id");
    }
    if (replies[REPLY_INVALIDATE]->type == QN_REPLY_ERROR) {
        qn_redis_listener_note_refusal(listener, "SUBSCRIBE __redis__:invalidate",
                                       replies[REPLY_INVALIDATE]->data);
    }
    return QUERN_OK;
}

quern_status qn_redis_listener_connect(struct qn_redis_listener *listener, quern_error *err)
{
    struct qn_connection *connection = &listener->connection;
    if (connection->socket.fd >= 0) {
        if (qn_failover_is_current(connection->failover, connection->generation)) {
            return QUERN_OK;
        }
        qn_connection_close(connection);
    }
    int64_t deadline_mono_ns =
        qn_clock_mono_ns() + connection->endpoint->peer.timeout_ms * INT64_C(1000000);
    qn_arena_reset(&listener->arena); /* the last state of the previous one */
    quern_status status = qn_open_connection(connection, deadline_mono_ns, err);
    if (status == QUERN_OK) {
        status = set_up(listener, deadline_mono_ns, err);
    }
    qn_arena_reset(&listener->arena);
    listener->received_at_mono_ns = qn_clock_mono_ns();
    listener->pinged = false;
    qn_redis_listener_kick(listener);
    return status;
}

void qn_redis_listener_compare(struct qn_redis_listener *listener, bool work,
                               int64_t next_due_at_ms, int64_t now_ms)
{
    (void)pthread_mutex_lock(&listener->mutex);
    /* Two computations of one moment differ by the latency of a reply. A task that was due then is
     * gone. */
    int64_t spread_ms = DUE_SPREAD_MS;
    int64_t known_ms = listener->due_at_ms < now_ms - spread_ms ? INT64_MAX : listener->due_at_ms;
    bool earlier = next_due_at_ms < known_ms - spread_ms;
    if (qn_wake_state_is_armed(&listener->state) && (work || earlier)) {
        qn_wake_state_change(&listener->state, QN_WAKE_MISSED);
        qn_redis_listener_kick(listener);
    }
    (void)pthread_mutex_unlock(&listener->mutex);
}

void qn_redis_listener_kick(struct qn_redis_listener *listener)
{
    const uint64_t one = 1;
    ssize_t written = write(listener->interrupt_fd, &one, sizeof one);
    (void)written; /* a full counter is a kick, too */
}

void qn_redis_listener_refusal(struct qn_redis_listener *listener, char refusal[QN_REFUSAL_SIZE])
{
    (void)pthread_mutex_lock(&listener->mutex);
    (void)snprintf(refusal, QN_REFUSAL_SIZE, "%s", listener->refusal);
    (void)pthread_mutex_unlock(&listener->mutex);
}
