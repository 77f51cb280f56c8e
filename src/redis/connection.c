/* SPDX-License-Identifier: MIT */
/* connection.c - one connection: opening it, sending, receiving.
 *
 * The socket never blocks; every wait is a poll with a deadline. Only the answer to a short request
 * is looked for again and again at first: it takes the server less time than it takes a sleeper to
 * wake up, and somebody may be waiting for it (an enqueue, the start of a run). A batch takes so
 * long that this would only waste the CPU; so does a server far away, which is found out: after
 * some looks in vain only every 16th request is worth another. After any failure the connection is
 * closed, since what the server still has to say belongs to nobody; the next use opens it again.
 *
 * Texts of errors: the address, then the server's or the kernel's words. */
#include "redis/connection.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "net/connect.h"
#include "redis/decode.h"
#include "redis/handshake.h"

#define INBOX_SIZE 65536
#define SHORT_SIZE 2048     /* of a request that is answered at once */
#define ATTENTIVE_NS 150000 /* how long its answer is looked for without sleeping: two wake-ups */
#define IN_VAIN_MAX 4       /* looks, one after the other */
#define TRY_EACH 16         /* requests, after that */
#define RECEIVE_MAX 16 /* of a look without waiting: who never stops talking must not hold it */

void qn_connection_init(struct qn_connection *connection, const struct qn_endpoint *endpoint)
{
    *connection = (struct qn_connection){.endpoint = endpoint, .fd = -1, .role = ""};
}

void qn_connection_close(struct qn_connection *connection)
{
    if (connection->fd >= 0) {
        (void)close(connection->fd);
        connection->fd = -1;
    }
    qn_free(connection->inbox);
    connection->inbox = NULL;
    qn_decode_finish(connection);
}

/* Closes it and passes the status on. */
static quern_status give_up(struct qn_connection *connection, quern_status status)
{
    qn_connection_close(connection);
    return status;
}

static quern_status lost(struct qn_connection *connection, const char *words, quern_error *err)
{
    return give_up(connection, qn_error_set(err, QUERN_E_CONNECT, "%s: connection lost: %s",
                                            connection->endpoint->address, words));
}

static quern_status too_slow(struct qn_connection *connection, quern_error *err)
{
    int64_t ms = connection->timeout_ms > 0 ? connection->timeout_ms
                                            : connection->endpoint->command_timeout_ms;
    int64_t end_mono_ns = qn_connect_end(connection->endpoint, 0, ms * 1000000);
    return give_up(connection,
                   qn_error_set(err, QUERN_E_TIMEOUT, "%s: no answer within %lld ms",
                                connection->endpoint->address, (long long)(end_mono_ns / 1000000)));
}

quern_status qn_connection_open(struct qn_connection *connection, int64_t deadline_mono_ns,
                                quern_error *err)
{
    if (connection->fd >= 0) {
        return QUERN_OK;
    }
    int64_t connect_by_ns = qn_clock_mono_ns() + connection->endpoint->connect_timeout_ms * 1000000;
    if (connect_by_ns > deadline_mono_ns) {
        connect_by_ns = deadline_mono_ns;
    }
    connection->inbox = qn_alloc(INBOX_SIZE);
    if (connection->inbox == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_connect(connection->endpoint, connect_by_ns, &connection->fd, err);
    if (status == QUERN_OK) {
        status = qn_decode_init(connection, err);
    }
    if (status == QUERN_OK) {
        connection->opened_count++;
        status = qn_handshake(connection, connect_by_ns, err);
    }
    return status == QUERN_OK ? status : give_up(connection, status);
}

/* --- Sending and receiving ---------------------------------------------------------- */

/* Until when to look for the answer to a request of this size; 0: it is not worth it. */
static int64_t attentive_until_ns(struct qn_connection *connection, size_t size)
{
    if (size > SHORT_SIZE) {
        return 0;
    }
    if (connection->in_vain_count >= IN_VAIN_MAX && ++connection->in_vain_count % TRY_EACH != 0) {
        return 0;
    }
    return qn_clock_mono_ns() + ATTENTIVE_NS;
}

/* Whether to look again at once. Counts the looks that found nothing to their end. */
static bool is_attentive(struct qn_connection *connection)
{
    if (connection->attentive_until_mono_ns == 0) {
        return false;
    }
    if (qn_clock_mono_ns() < connection->attentive_until_mono_ns) {
        return true;
    }
    connection->attentive_until_mono_ns = 0;
    connection->in_vain_count++;
    return false;
}

quern_status qn_connection_write(struct qn_connection *connection, const void *data, size_t size,
                                 int64_t deadline_mono_ns, bool *ret_sent, quern_error *err)
{
    size_t sent = 0;
    int64_t begun_mono_ns = 0; /* to wait */
    *ret_sent = false;
    while (sent < size) {
        ssize_t count = send(connection->fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (count > 0) {
            sent += (size_t)count;
            *ret_sent = true;
            if (sent < size && qn_clock_mono_ns() >= deadline_mono_ns) {
                return too_slow(connection, err);
            }
        } else if (count < 0 && errno == EAGAIN) {
            begun_mono_ns = begun_mono_ns == 0 ? qn_clock_mono_ns() : begun_mono_ns;
            if (!qn_connect_wait(connection->endpoint, connection->fd, POLLOUT, begun_mono_ns,
                                 deadline_mono_ns)) {
                return too_slow(connection, err);
            }
        } else if (errno != EINTR) {
            return lost(connection, strerror(errno), err);
        }
    }
    connection->attentive_until_mono_ns = attentive_until_ns(connection, size);
    return QUERN_OK;
}

/* Feeds what is there. *ret_empty: nothing was. */
static quern_status receive(struct qn_connection *connection, bool *ret_empty, quern_error *err)
{
    ssize_t count = recv(connection->fd, connection->inbox, INBOX_SIZE, 0);
    *ret_empty = count < 0 && (errno == EAGAIN || errno == EINTR);
    if (count > 0) {
        quern_status status = qn_decode_feed(connection, connection->inbox, (size_t)count, err);
        return status == QUERN_OK ? status : give_up(connection, status);
    }
    if (*ret_empty) {
        return QUERN_OK;
    }
    return lost(connection, count == 0 ? "closed by the server" : strerror(errno), err);
}

void qn_connection_limit(struct qn_connection *connection, size_t reply_size_max)
{
    connection->reading.size_max = reply_size_max;
}

quern_status qn_connection_try_read(struct qn_connection *connection, struct qn_arena *arena,
                                    struct qn_reply **ret_reply, quern_error *err)
{
    struct qn_reply *reply = NULL;
    bool empty = false;
    for (int looks = 0;; looks++) {
        quern_status status = qn_decode_next(connection, arena, &reply, err);
        if (status != QUERN_OK) {
            return give_up(connection, status);
        }
        if (reply != NULL || empty || looks == RECEIVE_MAX) {
            *ret_reply = reply;
            return QUERN_OK;
        }
        status = receive(connection, &empty, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
}

quern_status qn_connection_read(struct qn_connection *connection, struct qn_arena *arena,
                                int64_t deadline_mono_ns, struct qn_reply **ret_reply,
                                quern_error *err)
{
    struct qn_reply *reply = NULL;
    int64_t begun_mono_ns = 0; /* to wait */
    quern_status status = qn_decode_next(connection, arena, &reply, err);
    while (status == QUERN_OK && reply == NULL) {
        bool empty = false;
        bool attentive = is_attentive(connection);
        int64_t now_mono_ns = qn_clock_mono_ns();
        begun_mono_ns = begun_mono_ns == 0 ? now_mono_ns : begun_mono_ns;
        bool late =
            now_mono_ns >= qn_connect_end(connection->endpoint, begun_mono_ns, deadline_mono_ns) &&
            !QN_BUG(DEADLINE_WHILE_IDLE);
        if (!attentive && !qn_connect_wait(connection->endpoint, connection->fd, POLLIN,
                                           begun_mono_ns, deadline_mono_ns)) {
            return too_slow(connection, err);
        }
        if (attentive) {
            (void)sched_yield(); /* whoever wants this CPU goes first: it may be the server */
        }
        status = receive(connection, &empty, err);
        if (status == QUERN_OK) {
            status = qn_decode_next(connection, arena, &reply, err);
        }
        if (attentive && reply != NULL) {
            connection->in_vain_count = 0;
        }
        if (status == QUERN_OK && reply == NULL && late) {
            return too_slow(connection,
                            err); /* one look after the deadline: we may have been stopped */
        }
    }
    if (status != QUERN_OK) {
        return give_up(connection, status);
    }
    *ret_reply = reply;
    return QUERN_OK;
}

bool qn_connection_is_stale(const struct qn_connection *connection)
{
    char byte;
    ssize_t count = recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count >= 0 || (errno != EAGAIN && errno != EINTR);
}
