/* SPDX-License-Identifier: MIT */
/* open.h - from an endpoint to a connection that is ready for commands.
 *
 * The place for TLS, Sentinel and Cluster: qn_endpoint becomes a list of endpoints, and
 * qn_open_connection chooses among them. */
#ifndef QN_REDIS_OPEN_H
#define QN_REDIS_OPEN_H

#include "redis/connection.h"

/* Connects and shakes hands if it is not connected. QUERN_E_CONNECT, QUERN_E_TIMEOUT,
 * QUERN_E_DENIED (wrong password), QUERN_E_BROKER (no permission), QUERN_E_BUSY (the server is
 * loading), QUERN_E_UNSUPPORTED. */
QUERN_NODISCARD quern_status qn_open_connection(struct qn_connection *connection,
                                                int64_t deadline_mono_ns, quern_error *err);

#endif
