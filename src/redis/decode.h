/* SPDX-License-Identifier: MIT */
/* decode.h - from the bytes of the server to replies in an arena; only connection.c uses it. */
#ifndef QN_REDIS_DECODE_H
#define QN_REDIS_DECODE_H

#include "redis/connection.h"

/* Uses connection's reader and connection->reading; the connection stays where it is while it has a
 * reader. */
QUERN_NODISCARD quern_status qn_decode_init(struct qn_connection *connection, quern_error *err);
void qn_decode_finish(struct qn_connection *connection);
/* Takes in what was read from the socket. QUERN_E_BROKER: the reply is larger than allowed. */
QUERN_NODISCARD quern_status qn_decode_feed(struct qn_connection *connection, const char *data,
                                            size_t size, quern_error *err);
/* The next whole reply, NULL when there is none yet; what is begun lives in the arena, too, so it
 * must be the same arena until the reply is whole. QUERN_E_BROKER: these bytes are no reply. */
QUERN_NODISCARD quern_status qn_decode_next(struct qn_connection *connection,
                                            struct qn_arena *arena, struct qn_reply **ret_reply,
                                            quern_error *err);

#endif
