/* SPDX-License-Identifier: MIT */
/* zygote_guard.h - the process between the zygote and a child or command: nothing of what it guards
 * outlives it. */
#ifndef QN_POOL_PREFORK_ZYGOTE_GUARD_H
#define QN_POOL_PREFORK_ZYGOTE_GUARD_H

#include <signal.h>
#include <sys/types.h>

#include "pool/prefork/zygote_setup.h"

/* Sent by the zygote: kill all and end. */
#define QN_ZYGOTE_GUARD_END SIGUSR2

/* In a fork of the zygote. Sends packets of zygote_wire.h to the zygote: REFUSED, or STARTED (with
 * a pidfd) and ENDED. */
_Noreturn void qn_zygote_guard_run(const struct qn_zygote_start *start, int socket_fd,
                                   pid_t zygote);

#endif
