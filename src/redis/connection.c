/* SPDX-License-Identifier: MIT */
/* connection.c - sends bytes, receives replies.
 *
 * The socket waits, the decoder makes replies of the received bytes. After any failure the
 * connection is closed, since the server's further data belongs to no request; the next use opens
 * it again (open.c).
 *
 * A link may be dead without a word: a firewall between us and the server has forgotten it, or the
 * server's machine was replaced. A slow server looks the same; but Redis does one thing after the
 * other, so if it greets a new connection now, it has done what was requested on this one before,
 * and the reply is lost. So after some silence another connection is tried, unless the command is
 * one whose reply the server keeps back while it does other things. */
#include "redis/connection.h"

#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "redis/server_error.h"

#define SILENCE_MS 3000
#define SUSPECT_MS 500
#define BYTES_PER_MS 250
#define RECEIVE_MAX 16 /* of a look without waiting: a server that never pauses must not hold it */

void qn_connection_init_at(struct qn_connection *connection, struct qn_endpoint *endpoint)
{
    *connection = (struct qn_connection){.endpoint = qn_endpoint_ref(endpoint), .role = ""};
    qn_socket_init(&connection->socket, &endpoint->peer);
}

void qn_connection_init(struct qn_connection *connection, struct qn_failover *failover)
{
    const struct qn_server_choice choice = qn_failover_current(failover);
    qn_connection_init_at(connection, choice.endpoint);
    qn_endpoint_unref(choice.endpoint);
    connection->failover = failover;
}

void qn_connection_finish(struct qn_connection *connection)
{
    qn_connection_close(connection);
    qn_endpoint_unref(connection->endpoint);
    connection->endpoint = NULL;
}

void qn_connection_close(struct qn_connection *connection)
{
    connection->unwanted = false;
    qn_socket_close(&connection->socket);
    qn_decode_finish(&connection->decoder);
    connection->answers_elsewhere = NULL;
}

bool qn_connection_is_stale(const struct qn_connection *connection)
{
    bool is_older = connection->failover != NULL &&
                    !qn_failover_is_current(connection->failover, connection->generation);
    return is_older || connection->unwanted || qn_decode_has_unread(&connection->decoder) ||
           qn_socket_is_stale(&connection->socket);
}

/* Closes it after a failure, and passes the status on. */
static quern_status close_unless_ok(struct qn_connection *connection, quern_status status)
{
    if (status != QUERN_OK) {
        qn_connection_close(connection);
    }
    return status;
}

quern_status qn_connection_send(struct qn_connection *connection, const void *data, size_t size,
                                int64_t deadline_mono_ns, quern_error *err)
{
    return close_unless_ok(connection,
                           qn_socket_send(&connection->socket, data, size, deadline_mono_ns, err));
}

void qn_connection_limit(struct qn_connection *connection, size_t reply_size_max)
{
    connection->decoder.size_max = reply_size_max;
}

/* Decodes the bytes that the socket has received; *ret_reply: the reply if it is complete now. */
static quern_status decode_received(struct qn_connection *connection, size_t size,
                                    struct qn_arena *arena, struct qn_reply **ret_reply,
                                    quern_error *err)
{
    quern_status status = QUERN_OK;
    if (size > 0) {
        status = qn_decode_feed(&connection->decoder, connection->socket.inbox, size, err);
    }
    if (status == QUERN_OK) {
        status = qn_decode_next(&connection->decoder, arena, ret_reply, err);
    }
    return status;
}

/* An error of the server that is about the server, not about the command: the connection is closed
 * before its next use, and the next one may go elsewhere. */
static void note_error(struct qn_connection *connection, const struct qn_reply *reply)
{
    enum qn_reaction reaction = qn_server_error_reaction(reply);
    if (reaction == QN_REACT_REDISCOVER && connection->failover != NULL) {
        qn_failover_doubt(connection->failover, connection->generation);
    }
    connection->unwanted =
        connection->unwanted || reaction == QN_REACT_REDISCOVER || reaction == QN_REACT_LOGIN;
}

quern_status qn_connection_try_receive(struct qn_connection *connection, struct qn_arena *arena,
                                       struct qn_reply **ret_reply, quern_error *err)
{
    struct qn_reply *reply = NULL;
    size_t size = 1; /* so far something was there */
    quern_status status = decode_received(connection, 0, arena, &reply, err);
    for (int i = 0; status == QUERN_OK && reply == NULL && size > 0 && i < RECEIVE_MAX; i++) {
        status = qn_socket_try_receive(&connection->socket, &size, err);
        if (status == QUERN_OK) {
            status = decode_received(connection, size, arena, &reply, err);
        }
    }
    if (status == QUERN_OK) {
        *ret_reply = reply;
    }
    return close_unless_ok(connection, status);
}

/* What is waited for on a connection that may be dead. */
struct silence {
    struct qn_socket_wait wait;
    int unacked;      /* sent bytes, at the latest look */
    uint64_t arrived; /* the same */
};

/* Where another link was found dead just now, this one is suspected sooner. */
static void begin_silence(const struct qn_connection *connection, struct silence *silence)
{
    if (connection->answers_elsewhere != NULL && !connection->is_held) {
        silence->arrived = qn_socket_arrived(&connection->socket);
        bool suspect =
            connection->failover != NULL && qn_failover_has_lost_link(connection->failover);
        silence->wait.look_mono_ns =
            qn_clock_mono_ns() + (suspect ? SUSPECT_MS : SILENCE_MS) * QN_NS_PER_MS;
    }
}

/* The request may be large, or the link slow: then bytes arrive from look to look, there, or here
 * those of a TLS record of up to 16 KiB, which shows nothing before it is whole. */
static bool is_moving(const struct qn_connection *connection, struct silence *silence)
{
    int unacked_before = silence->unacked;
    uint64_t arrived_before = silence->arrived;
    silence->unacked = qn_socket_unacked(&connection->socket);
    silence->arrived = qn_socket_arrived(&connection->socket);
    return (silence->unacked > 0 && silence->unacked != unacked_before) ||
           (silence->arrived != arrived_before && !QN_BUG(RECORD_IS_SILENCE));
}

/* After a receive that brought nothing. */
static quern_status check_silence(struct qn_connection *connection, struct silence *silence,
                                  quern_error *err)
{
    if (silence->wait.look_mono_ns == 0 || qn_clock_mono_ns() < silence->wait.look_mono_ns) {
        return QUERN_OK;
    }
    if (is_moving(connection, silence)) {
        silence->wait.look_mono_ns = qn_clock_mono_ns() + SUSPECT_MS * QN_NS_PER_MS;
        return QUERN_OK;
    }
    if (!connection->answers_elsewhere(connection, silence->wait.deadline_mono_ns) ||
        qn_socket_is_stale(&connection->socket)) { /* the answer has come meanwhile */
        begin_silence(connection, silence);
        return QUERN_OK;
    }
    if (connection->failover != NULL) {
        qn_failover_note_lost_link(connection->failover);
    }
    return qn_error_set(err, QUERN_E_CONNECT,
                        "%s: connection lost: nothing comes, but the server answers on another",
                        connection->endpoint->peer.address);
}

/* The end of a receive, after what has arrived until now. What came quickly says nothing for a
 * server that is silent afterwards. */
static int64_t end_of(const struct qn_connection *connection, int64_t deadline_mono_ns)
{
    int64_t more_ms = (int64_t)(connection->lenient_bytes / BYTES_PER_MS);
    int64_t end_mono_ns = deadline_mono_ns + more_ms * QN_NS_PER_MS;
    int64_t silent_mono_ns = qn_clock_mono_ns() + SUSPECT_MS * QN_NS_PER_MS;
    end_mono_ns = silent_mono_ns < end_mono_ns ? silent_mono_ns : end_mono_ns;
    int64_t until_mono_ns = connection->lenient_until_mono_ns;
    end_mono_ns = until_mono_ns < end_mono_ns ? until_mono_ns : end_mono_ns;
    return end_mono_ns > deadline_mono_ns ? end_mono_ns : deadline_mono_ns;
}

quern_status qn_connection_receive(struct qn_connection *connection, struct qn_arena *arena,
                                   int64_t deadline_mono_ns, struct qn_reply **ret_reply,
                                   quern_error *err)
{
    struct silence silence = {.wait = {.deadline_mono_ns = end_of(connection, deadline_mono_ns)}};
    struct qn_reply *reply = NULL;
    quern_status status = decode_received(connection, 0, arena, &reply, err);
    while (status == QUERN_OK && reply == NULL) {
        size_t size = 0;
        if (silence.wait.look_mono_ns == 0) {
            begin_silence(connection, &silence);
        }
        status = qn_socket_receive(&connection->socket, &silence.wait, &size, err);
        if (status == QUERN_OK && size > 0) {
            silence.wait.look_mono_ns = 0;
            connection->lenient_bytes += size;
            silence.wait.deadline_mono_ns = end_of(connection, deadline_mono_ns);
            status = decode_received(connection, size, arena, &reply, err);
        } else if (status == QUERN_OK) {
            status = check_silence(connection, &silence, err);
        }
    }
    if (status == QUERN_OK) {
        qn_socket_answered(&connection->socket, &silence.wait);
        if (reply->type == QN_REPLY_ERROR) {
            note_error(connection, reply);
        }
        *ret_reply = reply;
    }
    return close_unless_ok(connection, status);
}

quern_status qn_connection_expect_no_more(struct qn_connection *connection, quern_error *err)
{
    if (!qn_decode_has_unread(&connection->decoder)) {
        return QUERN_OK;
    }
    return close_unless_ok(connection,
                           qn_error_set(err, QUERN_E_BROKER, "%s: more replies than requests",
                                        connection->endpoint->peer.address));
}
