/* SPDX-License-Identifier: MIT */
/* handshake.h - the first exchange on a new connection. */
#ifndef QN_REDIS_HANDSHAKE_H
#define QN_REDIS_HANDSHAKE_H

#include "redis/connection.h"

/* On a connection that was just connected. QUERN_E_DENIED: wrong user or password;
 * QUERN_E_BROKER: refused (permission, no such database); QUERN_E_UNSUPPORTED: too old, or not a
 * single server. */
QUERN_NODISCARD quern_status qn_handshake(struct qn_connection *connection,
                                          int64_t deadline_mono_ns, quern_error *err);

#endif
