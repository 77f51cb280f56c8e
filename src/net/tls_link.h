/* SPDX-License-Identifier: MIT */
/* tls_link.h - one TLS connection over a socket that is connected already.
 *
 * Sending and receiving look like send(2) and recv(2) on a non-blocking socket, so that socket.c
 * treats both alike. The socket belongs to the caller. One thread at a time. */
#ifndef QN_NET_TLS_LINK_H
#define QN_NET_TLS_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/peer.h"
#include "quern/status.h"

struct qn_tls_link;

/* Shakes hands, as peer->tls wants it. QUERN_E_CONNECT: with the reason; QUERN_E_TIMEOUT. */
QUERN_NODISCARD quern_status qn_tls_link_open(const struct qn_peer *peer, int fd,
                                              int64_t deadline_mono_ns,
                                              struct qn_tls_link **ret_link, quern_error *err);
/* Says goodbye to the peer if that is possible without waiting. NULL is fine. */
void qn_tls_link_close(struct qn_tls_link *link);

/* The number of bytes, -1 with EAGAIN: wait (below) and call it again, -1 with another errno: it
 * has failed, qn_tls_link_why. Sent bytes are whole records: the peer can read nothing of the
 * others. Receive returns 0 if the peer has said goodbye. */
ssize_t qn_tls_link_send(struct qn_tls_link *link, const void *data, size_t size);
ssize_t qn_tls_link_receive(struct qn_tls_link *link, void *data, size_t size);
/* Which events of poll to wait for: `events`, unless TLS itself has to receive something in order
 * to send, or the reverse. */
short qn_tls_link_events(const struct qn_tls_link *link, short events);
/* Whether a receive may bring something without any event: bytes that poll does not know of. */
bool qn_tls_link_has_bytes(const struct qn_tls_link *link);
/* How many bytes the peer has sent so far, those of a record that is not whole yet included. */
uint64_t qn_tls_link_received(const struct qn_tls_link *link);
/* As qn_socket_is_stale; takes messages of TLS itself in, which are no reason. */
bool qn_tls_link_is_stale(struct qn_tls_link *link);
/* After a failure; valid until close. */
const char *qn_tls_link_why(const struct qn_tls_link *link);
/* Whether this connection resumed an earlier session; for tests. */
bool qn_tls_link_is_resumed(const struct qn_tls_link *link);

#endif
