/* SPDX-License-Identifier: MIT */
/* socket.h - sends to a peer and receives from it, by TLS or plain, each with a deadline.
 *
 *     struct qn_socket socket;
 *     struct qn_socket_wait wait = {.deadline_mono_ns = deadline};
 *     qn_socket_init(&socket, &peer);
 *     status = qn_connect(&socket, deadline, err);               (connect.h)
 *     status = qn_socket_send(&socket, data, size, deadline, err);
 *     status = qn_socket_receive(&socket, &wait, &size, err);    (until the answer is whole)
 *     qn_socket_close(&socket);
 *
 * It knows no protocol: the caller decides when an answer is complete. After a failure the socket
 * is closed. One thread at a time. */
#ifndef QN_NET_SOCKET_H
#define QN_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/peer.h"
#include "quern/status.h"

#define QN_SOCKET_INBOX_SIZE 65536

struct qn_tls_link;

struct qn_socket {
    const struct qn_peer *peer;
    int fd;                  /* non-blocking; -1: not connected */
    struct qn_tls_link *tls; /* NULL: a plain connection */
    char *inbox;             /* the bytes of the latest receive */
    bool was_closed;         /* by the peer: how the last connection was lost */
    int64_t timeout_ms;      /* of the answer that is waited for, for texts; 0: the peer's */
    uint64_t sent_bytes;     /* by all sends so far, also by those that failed */
    int64_t attentive_until_mono_ns; /* until when a receive looks without sleeping; 0: it sleeps */
    uint32_t in_vain_count; /* looks in a row that found nothing; beyond some, sends since */
};

/* The wait for one answer; begins as {.deadline_mono_ns = ...}. */
struct qn_socket_wait {
    int64_t deadline_mono_ns;
    int64_t begun_mono_ns; /* 0: not yet */
    int64_t look_mono_ns;  /* a receive that still has nothing then returns that; 0: it does not */
    bool attentive;        /* the latest receive looked without sleeping */
    bool late;             /* it came after the end of the wait, and was the last */
};

void qn_socket_init(struct qn_socket *socket, const struct qn_peer *peer);
/* Does nothing to one that is not connected. */
void qn_socket_close(struct qn_socket *socket);
/* Either all bytes go out, or it fails. QUERN_E_CONNECT, QUERN_E_TIMEOUT. */
QUERN_NODISCARD quern_status qn_socket_send(struct qn_socket *socket, const void *data, size_t size,
                                            int64_t deadline_mono_ns, quern_error *err);
/* Waits for bytes and moves the available ones into the inbox; *ret_size may be 0, then call it
 * again. QUERN_E_CONNECT: the peer has closed, too; QUERN_E_TIMEOUT: the deadline has passed. Bytes
 * that were there at the end of the wait are still taken, once. */
QUERN_NODISCARD quern_status qn_socket_receive(struct qn_socket *socket,
                                               struct qn_socket_wait *wait, size_t *ret_size,
                                               quern_error *err);
/* The answer is whole, as receives of this wait have brought it. */
void qn_socket_answered(struct qn_socket *socket, const struct qn_socket_wait *wait);
/* As receive, without waiting: *ret_size 0: nothing is there. */
QUERN_NODISCARD quern_status qn_socket_try_receive(struct qn_socket *socket, size_t *ret_size,
                                                   quern_error *err);
/* Whether bytes are here that a poll of the fd does not report. */
bool qn_socket_has_bytes(const struct qn_socket *socket);
/* By TLS: how many bytes have arrived so far. It grows also while a record is not whole, of which
 * receive has nothing yet. 0: a plain connection. */
uint64_t qn_socket_arrived(const struct qn_socket *socket);
/* The address of the other end, without its port: "10.0.0.7", "::1"; "" on a Unix socket. */
#define QN_SOCKET_ADDRESS_SIZE 64
void qn_socket_address(const struct qn_socket *socket, char ret_address[QN_SOCKET_ADDRESS_SIZE]);
/* How many of the sent bytes the other side's kernel has not acknowledged yet. */
int qn_socket_unacked(const struct qn_socket *socket);
/* For an idle socket: has it died, or received data that was not requested? Then it must be
 * closed. */
bool qn_socket_is_stale(const struct qn_socket *socket);

#endif
