/* SPDX-License-Identifier: MIT */
/* peer.h - the other end of a socket: where it is, and how long it is waited for.
 *
 * Each wait has a deadline on CLOCK_MONOTONIC. It may end earlier: the owner of a peer can shorten
 * its patience, or abandon the peer, while waits are in progress. */
#ifndef QN_NET_PEER_H
#define QN_NET_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "quern/status.h"

struct qn_tls;

/* The texts are borrowed. */
struct qn_peer {
    const char *host; /* "": a Unix socket */
    const char *port;
    const char *path;    /* of the Unix socket */
    const char *address; /* of both, for texts of errors */
    struct qn_tls *tls;  /* shared with other peers (tls.h); NULL: a plain connection */
    int64_t connect_timeout_ms;
    int64_t timeout_ms;                 /* of an answer */
    const _Atomic int64_t *patience_ms; /* when it becomes shorter than timeout_ms, waits end that
                                         * long after they began; NULL: never */
    const _Atomic bool *abandoned;      /* when it becomes true, waits end; NULL: never */
};

bool qn_peer_is_abandoned(const struct qn_peer *peer);
/* When a wait that began then is to end: at its deadline, or earlier where patience is shorter. */
int64_t qn_peer_end(const struct qn_peer *peer, int64_t begun_mono_ns, int64_t deadline_mono_ns);
/* How long to sleep in such a wait until the clock is read again; 0: the wait has ended. */
int qn_peer_sleep_ms(const struct qn_peer *peer, int64_t begun_mono_ns, int64_t deadline_mono_ns);
/* The error of a wait that has ended so, "WHAT within 5000 ms": QUERN_E_TIMEOUT. */
quern_status qn_peer_too_slow(const struct qn_peer *peer, const char *what, int64_t begun_mono_ns,
                              quern_error *err);

#endif
