/* SPDX-License-Identifier: MIT */
/* open.c - connects, and shakes hands (handshake.c), both within the time for connecting. */
#include "redis/open.h"

#include "base/clock.h"
#include "net/connect.h"
#include "redis/handshake.h"

static quern_status connect_and_greet(struct qn_connection *connection, int64_t deadline_mono_ns,
                                      quern_error *err)
{
    quern_status status = qn_connect(&connection->socket, deadline_mono_ns, err);
    if (status == QUERN_OK) {
        status = qn_decode_init(&connection->decoder, connection->endpoint->peer.address, err);
    }
    if (status == QUERN_OK) {
        connection->opened_count++;
        status = qn_handshake(connection, deadline_mono_ns, err);
    }
    return status;
}

quern_status qn_open_connection(struct qn_connection *connection, int64_t deadline_mono_ns,
                                quern_error *err)
{
    if (connection->socket.fd >= 0) {
        return QUERN_OK;
    }
    int64_t connect_by_ns =
        qn_clock_mono_ns() + connection->endpoint->peer.connect_timeout_ms * 1000000;
    quern_status status = connect_and_greet(
        connection, connect_by_ns < deadline_mono_ns ? connect_by_ns : deadline_mono_ns, err);
    if (status != QUERN_OK) {
        qn_connection_close(connection);
    }
    return status;
}
