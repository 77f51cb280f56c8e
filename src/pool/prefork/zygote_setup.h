/* SPDX-License-Identifier: MIT */
/* zygote_setup.h - what a process of the zygote does between its fork and its own code. */
#ifndef QN_POOL_PREFORK_ZYGOTE_SETUP_H
#define QN_POOL_PREFORK_ZYGOTE_SETUP_H

#include <sys/types.h>

#include "pool/prefork/zygote.h"
#include "pool/prefork/zygote_wire.h"

/* What is to be started; all of it is the zygote's. */
struct qn_zygote_start {
    const struct qn_zygote_program *program;
    struct qn_zygote_request request; /* checked */
    struct qn_zygote_fds fds;
};

/* The code of the process: a child of the program, or a command. setup_fd is a socket to its guard:
 * it waits for a byte there, and writes the errno of its set-up as an int; 0: its own code runs. A
 * command that is executed only closes it. */
_Noreturn void qn_zygote_setup_run(const struct qn_zygote_start *start, int setup_fd, pid_t parent);

/* Default dispositions, and all signals blocked. */
void qn_zygote_setup_signals(void);
/* Closes all descriptors but these; fewer than 8, -1 is none. It sorts them. */
void qn_zygote_setup_close_but(int *fds, size_t count);

#endif
