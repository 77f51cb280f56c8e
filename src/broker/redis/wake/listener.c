/* SPDX-License-Identifier: MIT */
/* listener.c - opens, closes and describes the connections that receive notices; for arm.c and
 * wait.c.
 *
 * A new listener subscribes before arm redirects the tracked connection to it, and arm reads after
 * that: so there is no moment in which a notice could get lost. Without the channel of
 * invalidations the worker polls; without the channel of cancellations it learns of them when it
 * extends; without the channel of commands it gets none. */
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
static const char setup[] = SETUP "*2\r\n$9\r\nSUBSCRIBE\r\n$12\r\n" QN_KEY_CANCEL "\r\n"
                                  "*2\r\n$9\r\nSUBSCRIBE\r\n$11\r\n" QN_KEY_COMMAND "\r\n";
static const char setup_without_cancellations[] = SETUP;
enum { REPLY_ID, REPLY_INVALIDATE, REPLY_CANCEL, REPLY_COMMAND, REPLY_COUNT };
enum { DUE_SPREAD_MS = 200, NODE_MS = 2000 };

/* --- Ears ----------------------------------------------------------------------------- */

static struct qn_redis_ear *make_ear(struct qn_redis_listener *listener, int node)
{
    struct qn_redis_ear *ear = qn_alloc_zero(1, sizeof *ear);
    if (ear == NULL) {
        return NULL;
    }
    ear->node = node;
    ear->tracked_fd = -1;
    if (listener->cluster == NULL) {
        qn_connection_init(&ear->connection, listener->failover);
    } else {
        qn_connection_init_at(&ear->connection, qn_cluster_hold(listener->cluster, node));
    }
    ear->connection.role = "listener";
    listener->ears[listener->ear_count++] = ear;
    return ear;
}

static void free_ear(const struct qn_redis_listener *listener, struct qn_redis_ear *ear)
{
    qn_connection_finish(&ear->connection);
    if (listener->cluster != NULL) {
        qn_cluster_release(listener->cluster, ear->node);
    }
    qn_arena_finish(&ear->arena);
    qn_free(ear);
}

struct qn_redis_ear *qn_redis_listener_ear(struct qn_redis_listener *listener, int node)
{
    for (size_t i = 0; i < listener->ear_count; i++) {
        if (listener->ears[i]->node == node) {
            return listener->ears[i];
        }
    }
    return NULL;
}

static bool is_among(int node, const int *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (nodes[i] == node) {
            return true;
        }
    }
    return false;
}

static bool any_takes(const struct qn_redis_listener *listener)
{
    for (size_t i = 0; i < listener->ear_count; i++) {
        const struct qn_redis_ear *ear = listener->ears[i];
        if (ear->connection.socket.fd >= 0 && ear->takes_cancellations) {
            return true;
        }
    }
    return false;
}

void qn_redis_listener_keep(struct qn_redis_listener *listener, const int *nodes, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < listener->ear_count; i++) {
        if (is_among(listener->ears[i]->node, nodes, count)) {
            listener->ears[kept++] = listener->ears[i];
        } else {
            free_ear(listener, listener->ears[i]);
        }
    }
    listener->ear_count = kept;
    if (kept > 0 && !listener->no_cancellations && !any_takes(listener)) {
        qn_connection_close(&listener->ears[0]->connection);
    }
    qn_redis_listener_kick(listener);
}

/* Its server still answers, but another one was chosen. */
static bool is_left(const struct qn_redis_ear *ear)
{
    const struct qn_connection *connection = &ear->connection;
    return connection->failover != NULL && connection->socket.fd >= 0 &&
           !qn_failover_is_current(connection->failover, connection->generation);
}

bool qn_redis_listener_leave(struct qn_redis_listener *listener)
{
    bool any = false;
    for (size_t i = 0; i < listener->ear_count; i++) {
        if (is_left(listener->ears[i])) {
            qn_connection_close(&listener->ears[i]->connection);
            any = true;
        }
    }
    return any;
}

/* --- The beginning and the end ------------------------------------------------------- */

quern_status qn_redis_listener_init(struct qn_redis_listener *listener,
                                    struct qn_failover *failover, struct qn_cluster *cluster,
                                    quern_error *err)
{
    *listener = (struct qn_redis_listener){.failover = failover, .cluster = cluster};
    (void)pthread_mutex_init(&listener->mutex, NULL);
    qn_random_init(&listener->random);
    listener->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (listener->interrupt_fd < 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "%s: no descriptor left",
                            qn_failover_address(failover));
    }
    return cluster != NULL || make_ear(listener, 0) != NULL ? QUERN_OK : qn_error_nomem(err);
}

void qn_redis_listener_finish(struct qn_redis_listener *listener)
{
    for (size_t i = 0; i < listener->ear_count; i++) {
        free_ear(listener, listener->ears[i]);
    }
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

static quern_status set_up(struct qn_redis_listener *listener, struct qn_redis_ear *ear,
                           int64_t deadline_mono_ns, quern_error *err)
{
    struct qn_reply *replies[REPLY_COUNT] = {NULL};
    ear->takes_cancellations =
        !listener->no_cancellations && (listener->cluster == NULL || !any_takes(listener));
    const char *text = ear->takes_cancellations ? setup : setup_without_cancellations;
    size_t reply_count = ear->takes_cancellations ? REPLY_COUNT : REPLY_CANCEL;
    quern_status status =
        qn_connection_send(&ear->connection, text, strlen(text), deadline_mono_ns, err);
    for (size_t i = 0; status == QUERN_OK && i < reply_count; i++) {
        status = qn_connection_receive(&ear->connection, &ear->arena, deadline_mono_ns, &replies[i],
                                       err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    ear->listener_id = qn_reply_int(replies[REPLY_ID], 0);
    qn_wake_state_change(&listener->state, QN_WAKE_CONNECTED);
    listener->refusal[0] = '\0';
    if (ear->listener_id == 0) {
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

static quern_status open_ear(struct qn_redis_listener *listener, struct qn_redis_ear *ear,
                             quern_error *err)
{
    struct qn_connection *connection = &ear->connection;
    int64_t timeout_ms = connection->endpoint->peer.timeout_ms;
    if (listener->cluster != NULL && timeout_ms > NODE_MS) {
        timeout_ms = NODE_MS; /* the other nodes wait meanwhile */
    }
    int64_t deadline_mono_ns = qn_clock_mono_ns() + timeout_ms * INT64_C(1000000);
    ear->takes_cancellations = false;
    qn_arena_reset(&ear->arena); /* the last state of the previous one */
    quern_status status = qn_open_connection(connection, deadline_mono_ns, err);
    if (status == QUERN_OK) {
        status = set_up(listener, ear, deadline_mono_ns, err);
    }
    qn_arena_reset(&ear->arena);
    ear->received_at_mono_ns = qn_clock_mono_ns();
    ear->pinged = false;
    qn_redis_listener_kick(listener);
    return status;
}

quern_status qn_redis_listener_connect(struct qn_redis_listener *listener, int node,
                                       struct qn_redis_ear **ret_ear, quern_error *err)
{
    struct qn_redis_ear *ear = qn_redis_listener_ear(listener, node);
    if (ear == NULL && listener->ear_count == QN_EARS_MAX) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED, "%s: too many nodes to wait for",
                            qn_failover_address(listener->failover));
    }
    ear = ear == NULL ? make_ear(listener, node) : ear;
    if (ear == NULL) {
        return qn_error_nomem(err);
    }
    *ret_ear = ear;
    return ear->connection.socket.fd >= 0 ? QUERN_OK : open_ear(listener, ear, err);
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
    bool moved =
        listener->cluster != NULL && qn_cluster_epoch(listener->cluster) != listener->armed_epoch;
    for (size_t i = 0; i < listener->ear_count; i++) {
        moved = moved || is_left(listener->ears[i]);
    }
    if (qn_wake_state_is_armed(&listener->state) && (work || earlier || moved)) {
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
