/* SPDX-License-Identifier: MIT */
/* spawn.h - starts a shell command and returns the descriptors of its pipes; used by child.c. */
#ifndef QN_POOL_EXEC_SPAWN_H
#define QN_POOL_EXEC_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text/buf.h"
#include "pool/exec/limits.h"
#include "quern/status.h"

/* This is written to stderr, followed by errno as an int, when the guard gets no process for the
 * shell, or the shell cannot be executed for want of memory or room for its environment. */
struct qn_spawn_mark {
    uint64_t numbers[2];
};

#define QN_SPAWN_REPORT_SIZE (sizeof(struct qn_spawn_mark) + sizeof(int))

struct qn_spawned {
    pid_t pid;                 /* of its guard, which ends as it ends; also the process group */
    int pid_fd;                /* readable once it has ended */
    int stdin_fd;              /* ours, non-blocking: write its stdin */
    int stdout_fd;             /* ours, non-blocking: read its stdout */
    int stderr_fd;             /* ours, non-blocking: read its stderr */
    int progress_fd;           /* ours, non-blocking: read its descriptor 3; -1: it has none */
    struct qn_spawn_mark mark; /* of this command alone: no output equals it by chance */
};

struct qn_spawn_request {
    const char *command; /* for /bin/sh -c */
    /* "NAME=value", NULL-terminated, over our own; an entry without "=" removes the variables of
     * ours that begin with it. NULL: ours. */
    const char *const *environment;
    bool with_progress; /* its descriptor 3 is a pipe to us */
    struct qn_exec_limits limits;
};

/* On success the caller closes the descriptors and reaps the process. QUERN_E_NOMEM or
 * QUERN_E_FULL: nothing runs. */
QUERN_NODISCARD quern_status qn_spawn(const struct qn_spawn_request *request,
                                      struct qn_spawned *ret_spawned, quern_error *err);
/* The command has ended with this text on stderr. QUERN_E_FULL, QUERN_E_INVALID: the shell was not
 * even executed, as qn_child_run says. */
QUERN_NODISCARD quern_status qn_spawn_refusal(const struct qn_spawned *spawned,
                                              const struct qn_buf *stderr_text, quern_error *err);

#endif
