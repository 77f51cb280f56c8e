/* SPDX-License-Identifier: MIT */
/* spawn_fork.h - a shell command as a fork of this process, which has threads. */
#ifndef QN_POOL_EXEC_SPAWN_FORK_H
#define QN_POOL_EXEC_SPAWN_FORK_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "pool/exec/limits.h"
#include "quern/status.h"

/* This is written to stderr, followed by errno as an int, when the guard gets no process for the
 * shell, or the shell cannot be executed for want of memory or room for its environment. */
struct qn_spawn_mark {
    uint64_t numbers[2];
};

#define QN_SPAWN_REPORT_SIZE (sizeof(struct qn_spawn_mark) + sizeof(int))

struct qn_spawn_fork {
    const char *command;      /* for /bin/sh -c */
    const char **environment; /* complete, NULL-terminated */
    int fds[4];               /* its descriptors from 0 on */
    int fd_count;
    struct qn_spawn_mark mark;
    struct qn_exec_limits limits;
};

/* The process is a guard, which ends as the shell ends, and leads the group. The descriptor is
 * readable once it has ended. QUERN_E_FULL: nothing runs. */
QUERN_NODISCARD quern_status qn_spawn_fork(const struct qn_spawn_fork *request, pid_t *ret_pid,
                                           int *ret_pid_fd, quern_error *err);
/* SIGTERM or SIGKILL to its group; not once it was reaped. */
void qn_spawn_fork_signal(pid_t pid, int number);
/* Kills what is left of its group, waits for its end and reaps it. */
void qn_spawn_fork_reap(pid_t pid, int *ret_status, struct rusage *ret_usage);

#endif
