/* SPDX-License-Identifier: MIT */
/* zygote_main.h - the loop in the zygote process. */
#ifndef QN_POOL_PREFORK_ZYGOTE_MAIN_H
#define QN_POOL_PREFORK_ZYGOTE_MAIN_H

#include "pool/prefork/zygote.h"

/* Makes this process a zygote and serves requests until the worker (a pidfd) or its socket is gone;
 * by then all that it started is dead. It must be single-threaded. It closes all descriptors but
 * these and 0 to 2. Returns the exit code. */
int qn_zygote_main(const struct qn_zygote_program *program, int socket_fd, int worker_fd);

#endif
