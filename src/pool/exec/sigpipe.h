/* SPDX-License-Identifier: MIT */
/* sigpipe.h - writing to a process that closed its stdin raises SIGPIPE in this thread. */
#ifndef QN_POOL_EXEC_SIGPIPE_H
#define QN_POOL_EXEC_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

struct qn_sigpipe {
    sigset_t before;
    bool was_pending;
};

/* Blocks it. */
void qn_sigpipe_block(struct qn_sigpipe *ret_state);
/* Takes back the one that we caused, and restores the mask. */
void qn_sigpipe_restore(const struct qn_sigpipe *state);

#endif
