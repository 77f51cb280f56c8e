/* SPDX-License-Identifier: MIT */
/* connect.h - a connected socket for a target; only link.c uses it. */
#ifndef QN_BROKER_REDIS_CONNECT_H
#define QN_BROKER_REDIS_CONNECT_H

#include <stdint.h>

#include "broker/redis/link.h"

/* A connected socket: non-blocking, closed on exec. QUERN_E_CONNECT, QUERN_E_TIMEOUT. */
QUERN_NODISCARD quern_status qn_connect(const struct qn_link_target *target,
                                        int64_t deadline_mono_ns, int *ret_fd, quern_error *err);
/* Waits until the socket is ready for `events` of poll. False: the deadline came first. */
bool qn_connect_wait(int fd, short events, int64_t deadline_mono_ns);

#endif
