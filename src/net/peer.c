/* SPDX-License-Identifier: MIT */
/* peer.c - how long to wait for a peer, and the error where that was too long.
 *
 * Patience may become shorter, and a peer may be abandoned, at any time, so a sleeping thread
 * checks that every PATIENCE_LOOK_MS. */
#include "net/peer.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/error.h"

#define PATIENCE_LOOK_MS 100
#define SLEEP_MS_MAX 3600000

bool qn_peer_is_abandoned(const struct qn_peer *peer)
{
    return peer->abandoned != NULL && atomic_load(peer->abandoned);
}

int64_t qn_peer_end(const struct qn_peer *peer, int64_t begun_mono_ns, int64_t deadline_mono_ns)
{
    if (qn_peer_is_abandoned(peer)) {
        return begun_mono_ns;
    }
    int64_t patience_ms = peer->patience_ms != NULL ? atomic_load(peer->patience_ms) : INT64_MAX;
    if (patience_ms >= peer->timeout_ms) {
        return deadline_mono_ns; /* it is as long as the deadline was made for */
    }
    int64_t end_mono_ns = begun_mono_ns + patience_ms * 1000000;
    return end_mono_ns < deadline_mono_ns ? end_mono_ns : deadline_mono_ns;
}

int qn_peer_sleep_ms(const struct qn_peer *peer, int64_t begun_mono_ns, int64_t deadline_mono_ns)
{
    int64_t left_ns = qn_peer_end(peer, begun_mono_ns, deadline_mono_ns) - qn_clock_mono_ns();
    if (left_ns <= 0) {
        return 0;
    }
    int64_t left_ms = left_ns / 1000000 + 1; /* rounded up */
    bool looks = peer->patience_ms != NULL || peer->abandoned != NULL;
    int64_t sleep_ms_max = looks ? PATIENCE_LOOK_MS : SLEEP_MS_MAX;
    return left_ms > sleep_ms_max ? (int)sleep_ms_max : (int)left_ms;
}

quern_status qn_peer_too_slow(const struct qn_peer *peer, const char *what, int64_t begun_mono_ns,
                              quern_error *err)
{
    if (qn_peer_is_abandoned(peer)) {
        return qn_error_set(err, QUERN_E_TIMEOUT, "%s: another server was chosen meanwhile",
                            peer->address);
    }
    return qn_error_set(err, QUERN_E_TIMEOUT, "%s: %s within %lld ms", peer->address, what,
                        (long long)((qn_clock_mono_ns() - begun_mono_ns) / QN_NS_PER_MS));
}
