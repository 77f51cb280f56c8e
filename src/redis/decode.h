/* SPDX-License-Identifier: MIT */
/* decode.h - from the bytes of the server to replies in an arena. */
#ifndef QN_REDIS_DECODE_H
#define QN_REDIS_DECODE_H

#include <stdbool.h>

#include "base/memory/arena.h"
#include "quern/status.h"
#include "redis/reply.h"

struct redisReader;
/* The reply that is being read. It stays where it is from init to finish. */
struct qn_decoder {
    struct redisReader *reader; /* NULL: before init, and after finish */
    const char *address;        /* for texts of errors; borrowed */
    struct qn_arena *arena;
    size_t size_max;   /* the limits of the replies from now on; set by the caller */
    size_t bytes;      /* taken in since it began, also of those behind it */
    size_t items_left; /* that may still be announced by its arrays */
    size_t refused_at; /* the limit that it has passed; 0: none */
    bool has_begun;    /* a byte has come */
    bool begins;       /* the next byte is the start of a reply */
    bool is_tls;       /* it began as records of TLS do */
    bool strange;      /* of a type of RESP3, or nested too deep */
    bool nomem;
};

/* With QN_REPLY_BRIEF_MAX for size_max. */
QUERN_NODISCARD quern_status qn_decode_init(struct qn_decoder *decoder, const char *address,
                                            quern_error *err);
void qn_decode_finish(struct qn_decoder *decoder);
/* Whether bytes were received that no decoded reply consists of. */
bool qn_decode_has_unread(const struct qn_decoder *decoder);
/* Takes in bytes of the server. QUERN_E_BROKER: the reply is larger than allowed. */
QUERN_NODISCARD quern_status qn_decode_feed(struct qn_decoder *decoder, const char *data,
                                            size_t size, quern_error *err);
/* The next complete reply, NULL when there is none yet. An incomplete reply lives in the arena,
 * too, so the arena must be the same until the reply is complete. QUERN_E_BROKER: these bytes are
 * not a reply. */
QUERN_NODISCARD quern_status qn_decode_next(struct qn_decoder *decoder, struct qn_arena *arena,
                                            struct qn_reply **ret_reply, quern_error *err);

#endif
