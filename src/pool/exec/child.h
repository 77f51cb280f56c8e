/* SPDX-License-Identifier: MIT */
/* child.h - runs one shell command as a child process: input, output, limits, cancellation.
 *
 * Blocks the calling thread until the child and its output are done. The child has a process group
 * of its own, dies with the calling thread and with all that it started (see spawn.c), inherits
 * nothing but stdin, stdout, stderr and perhaps descriptor 3, and has the default signal mask and
 * dispositions. */
#ifndef QN_POOL_EXEC_CHILD_H
#define QN_POOL_EXEC_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/text/buf.h"
#include "pool/exec/limits.h"
#include "quern/status.h"

struct qn_launcher;

struct qn_child_spec {
    const char *command;            /* for /bin/sh -c */
    const char *const *environment; /* as in spawn.h; NULL: ours */
    const void *input;
    size_t input_size;
    size_t stdout_size_max; /* more is read and dropped */
    size_t stderr_size_max; /* the last bytes are kept */
    int64_t kill_after_ms;  /* from TERM to KILL */
    struct qn_exec_limits limits;
    struct qn_launcher *launcher; /* starts it; NULL: a fork of this process does */
    int cancel_fd;                /* readable: cancel; -1: never */
    /* After a cancellation: true means that it is killed without waiting for kill_after_ms. NULL:
     * never. */
    const _Atomic bool *abandoned;
    /* Gets the bytes that the child writes to its descriptor 3, as they come; NULL: it has none. A
     * child that writes more than 10 MiB/s there has to wait. */
    void (*on_progress)(const char *data, size_t size, void *user);
    void *user;
};

struct qn_child_end {
    bool exited; /* else killed by `signal` */
    int code;
    int signal;
    int status;                /* the same as of waitpid */
    struct rusage usage;       /* of all its processes that it waited for */
    bool cancelled;            /* we sent the signal */
    bool is_lost;              /* it ended with its zygote, before that said how */
    bool out_of_memory;        /* the kernel killed it for want of memory */
    bool over_cpu;             /* its limit of CPU seconds was reached */
    uint64_t stdout_dropped;   /* bytes beyond stdout_size_max */
    bool stderr_cut;           /* only its end was kept */
    struct qn_buf output;      /* finish both with qn_child_end_finish */
    struct qn_buf stderr_text; /* the end of stderr */
};

/* On failure the command did not run: QUERN_E_NOMEM; QUERN_E_FULL (no process, descriptor or memory
 * of the kernel); QUERN_E_INVALID (the command and its environment are too large for the
 * system); QUERN_E_CLOSED (the zygote has ended). */
QUERN_NODISCARD quern_status qn_child_run(const struct qn_child_spec *spec,
                                          struct qn_child_end *ret_end, quern_error *err);
void qn_child_end_finish(struct qn_child_end *end);

#endif
