/* SPDX-License-Identifier: MIT */
/* hello.h - the handshake of a link; only link.c uses it. */
#ifndef QN_BROKER_REDIS_HELLO_H
#define QN_BROKER_REDIS_HELLO_H

#include "broker/redis/link.h"

/* On a link that was just connected. QUERN_E_DENIED: wrong user or password;
 * QUERN_E_BROKER: refused (permission, no such database); QUERN_E_UNSUPPORTED: too old, or not a
 * single server. */
QUERN_NODISCARD quern_status qn_hello(struct qn_link *link, int64_t deadline_mono_ns,
                                      quern_error *err);

#endif
