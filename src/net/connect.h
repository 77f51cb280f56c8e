/* SPDX-License-Identifier: MIT */
/* connect.h - from a peer to a connected socket. */
#ifndef QN_NET_CONNECT_H
#define QN_NET_CONNECT_H

#include <stdint.h>

#include "net/socket.h"

/* Connects a socket that is not: it is non-blocking then, and closed on exec. With peer->tls it
 * also shakes hands, before the same deadline. The text of a timeout names the peer's
 * connect_timeout_ms. QUERN_E_CONNECT, QUERN_E_TIMEOUT. */
QUERN_NODISCARD quern_status qn_connect(struct qn_socket *socket, int64_t deadline_mono_ns,
                                        quern_error *err);

#endif
