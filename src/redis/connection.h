/* SPDX-License-Identifier: MIT */
/* connection.h - one connection to a Redis server: a socket with its deadlines, and a decoder.
 *
 * open.h connects it and shakes hands, when it is needed and again after a failure. Every send and
 * receive has a deadline on CLOCK_MONOTONIC. One thread at a time. */
#ifndef QN_REDIS_CONNECTION_H
#define QN_REDIS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/arena.h"
#include "net/socket.h"
#include "quern/status.h"
#include "redis/decode.h"
#include "redis/endpoint.h"
#include "redis/failover/failover.h"
#include "redis/reply.h"

struct qn_connection {
    struct qn_failover *failover; /* that chooses the endpoint; NULL: it is fixed */
    struct qn_endpoint *endpoint; /* of the latest attempt to open it; a reference */
    uint64_t generation;          /* of that choice */
    bool unwanted;                /* its server has said that it is not the one to use */
    bool is_held;                 /* the server keeps the next reply back on purpose (WAIT) */
    /* While this is not 0, receives may last longer than their deadlines, but not beyond it: by a
     * millisecond for each 250 bytes that arrived since then, as the link is slow, not silent; for
     * half a second after the latest ones at most. */
    int64_t lenient_until_mono_ns;
    uint64_t lenient_bytes;
    const char *role; /* "" or what follows the name in CLIENT SETNAME; may be set after init */
    struct qn_socket socket;
    struct qn_decoder decoder;
    /* Whether the server answers on another connection; set while this one is open and greeted. */
    bool (*answers_elsewhere)(const struct qn_connection *connection, int64_t deadline_mono_ns);
    uint64_t opened_count; /* grows with each connection: requests sent on an older one are void */
};
/* To the server that `failover`, which is borrowed, chooses whenever the connection opens. */
void qn_connection_init(struct qn_connection *connection, struct qn_failover *failover);
/* Always to this server. */
void qn_connection_init_at(struct qn_connection *connection, struct qn_endpoint *endpoint);
void qn_connection_close(struct qn_connection *connection);
void qn_connection_finish(struct qn_connection *connection);
/* Whether an open connection on which no reply is expected cannot be used any more: the server has
 * closed it, or has sent more than was requested, so that replies and requests no longer match; or
 * another server was chosen since. */
bool qn_connection_is_stale(const struct qn_connection *connection);
/* Either all bytes go out, or the connection is closed. socket.sent_bytes grows by those that may
 * have reached the server. QUERN_E_CONNECT, QUERN_E_TIMEOUT. */
QUERN_NODISCARD quern_status qn_connection_send(struct qn_connection *connection, const void *data,
                                                size_t size, int64_t deadline_mono_ns,
                                                quern_error *err);
/* The limit of the replies that are received from now on; QN_REPLY_BRIEF_MAX on a new connection.
 */
void qn_connection_limit(struct qn_connection *connection, size_t reply_size_max);
/* Receives one reply; closes the connection on failure. A reply that is an error is a reply. The
 * deadline holds however the bytes trickle in. QUERN_E_CONNECT long before the deadline: nothing
 * comes on this connection, but the server answers on another one. */
QUERN_NODISCARD quern_status qn_connection_receive(struct qn_connection *connection,
                                                   struct qn_arena *arena, int64_t deadline_mono_ns,
                                                   struct qn_reply **ret_reply, quern_error *err);
/* After the reply to the last request. QUERN_E_BROKER, and closed: more has come already, so that
 * none of the replies can be trusted to be that of its request. */
QUERN_NODISCARD quern_status qn_connection_expect_no_more(struct qn_connection *connection,
                                                          quern_error *err);
/* The next reply if it is there, else NULL, without waiting; for the listener, which polls the fd
 * when it got NULL: more may be there, as it does not look for ever. A part of a reply lives in the
 * arena: reset it only after a whole one. */
QUERN_NODISCARD quern_status qn_connection_try_receive(struct qn_connection *connection,
                                                       struct qn_arena *arena,
                                                       struct qn_reply **ret_reply,
                                                       quern_error *err);

#endif
