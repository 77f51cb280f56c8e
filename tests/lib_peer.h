/* SPDX-License-Identifier: MIT */
/* lib_peer.h - a hostile server: it stands before a real redis-server, or alone, and answers the
 * requests that the test chooses: with any bytes, one by one, again and again, or never. A thread
 * of the test program on a Unix socket.
 *
 * Without a server it greets as a Redis, and answers nil to requests without a rule. */
#ifndef TESTS_LIB_PEER_H
#define TESTS_LIB_PEER_H

#include "lib_redis.h"

enum peer_manner {
    PEER_WHOLE,
    PEER_TRICKLE, /* one byte each millisecond */
    PEER_ENDLESS, /* the last `repeat` bytes of it again and again, as fast as they are taken */
    PEER_DRIP,    /* the same, but one byte each millisecond */
    PEER_SILENT,
    PEER_LATE, /* before the answer to the next request of that connection */
};

struct peer_rule {
    const char *to;    /* the first or second word of a request (a command, the SHA1 of a script) */
    const char *reply; /* as it goes over the wire */
    size_t reply_size; /* 0: up to the NUL */
    size_t repeat;     /* of an endless one */
    enum peer_manner manner;
};

struct peer;
/* redis: may be NULL. user: "" or "name:password@", for the URL. */
struct peer *peer_start(const struct test_redis *redis, const char *user);
void peer_stop(struct peer *peer);
const char *peer_url(const struct peer *peer);
/* The rules for all later requests; copied, but for their texts. count 0: it forwards all. A reply
 * in progress continues until that connection ends. */
void peer_rules(struct peer *peer, const struct peer_rule *rules, size_t count);
/* How many requests a rule has answered so far. */
size_t peer_answered(const struct peer *peer);

#endif
