/* SPDX-License-Identifier: MIT */
/* connect.h - a connected socket for an endpoint; only connection.c uses it. */
#ifndef QN_NET_CONNECT_H
#define QN_NET_CONNECT_H

#include <stdint.h>

#include "redis/connection.h"

/* A connected socket: non-blocking, closed on exec. QUERN_E_CONNECT, QUERN_E_TIMEOUT. */
QUERN_NODISCARD quern_status qn_connect(const struct qn_endpoint *endpoint,
                                        int64_t deadline_mono_ns, int *ret_fd, quern_error *err);
/* When a wait that began then is to end: at its deadline, or earlier where the endpoint's patience
 * is shorter. */
int64_t qn_connect_end(const struct qn_endpoint *endpoint, int64_t begun_mono_ns,
                       int64_t deadline_mono_ns);
/* Waits until the socket is ready for `events` of poll. False: the end of the wait came first. */
bool qn_connect_wait(const struct qn_endpoint *endpoint, int fd, short events,
                     int64_t begun_mono_ns, int64_t deadline_mono_ns);

#endif
