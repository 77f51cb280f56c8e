/* SPDX-License-Identifier: MIT */
/* open.h - from the choice of a server (failover/failover.h) to a connection that is ready for
 * commands. */
#ifndef QN_REDIS_OPEN_H
#define QN_REDIS_OPEN_H

#include "redis/connection.h"

/* Connects and shakes hands if it is not connected; where there are several servers, with the first
 * of them that can be used, the current one first. Fails after a whole cycle. QUERN_E_CONNECT,
 * QUERN_E_TIMEOUT, QUERN_E_DENIED (wrong password), QUERN_E_BROKER (no permission), QUERN_E_BUSY
 * (the server is loading, or a replica), QUERN_E_UNSUPPORTED. */
QUERN_NODISCARD quern_status qn_open_connection(struct qn_connection *connection,
                                                int64_t deadline_mono_ns, quern_error *err);

#endif
