/* SPDX-License-Identifier: MIT */
/* decode.h - from the bytes of the server to replies in an arena; only connection.c uses it. */
#ifndef QN_REDIS_DECODE_H
#define QN_REDIS_DECODE_H

#include "redis/connection.h"

/* Uses link's reader and link->reading; the link stays where it is while it has a reader. */
QUERN_NODISCARD quern_status qn_reader_init(struct qn_link *link, quern_error *err);
void qn_reader_finish(struct qn_link *link);
/* Takes in what was read from the socket. QUERN_E_BROKER: the reply is larger than allowed. */
QUERN_NODISCARD quern_status qn_reader_feed(struct qn_link *link, const char *data, size_t size,
                                            quern_error *err);
/* The next whole reply, NULL when there is none yet; what is begun lives in the arena, too, so it
 * must be the same arena until the reply is whole. QUERN_E_BROKER: these bytes are no reply. */
QUERN_NODISCARD quern_status qn_reader_next(struct qn_link *link, struct qn_arena *arena,
                                            struct qn_reply **ret_reply, quern_error *err);

#endif
