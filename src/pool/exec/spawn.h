/* SPDX-License-Identifier: MIT */
/* spawn.h - starts a shell command and returns the descriptors of its pipes. */
#ifndef QN_POOL_EXEC_SPAWN_H
#define QN_POOL_EXEC_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/text/buf.h"
#include "pool/exec/limits.h"
#include "pool/exec/spawn_fork.h"
#include "quern/status.h"

struct qn_launcher;
struct qn_launched;

struct qn_spawn_end {
    int status;          /* as of waitpid */
    struct rusage usage; /* of all its processes that it waited for */
    bool out_of_memory;  /* it was killed, and the kernel counts a kill for want of memory */
    bool is_lost;        /* its zygote has ended, and it with that */
    int error_number;    /* the zygote could not start it; 0: it did, or there is no zygote */
};

struct qn_spawned {
    int end_fd;              /* readable once it has ended */
    int stdin_fd;            /* ours, non-blocking: write its stdin */
    int stdout_fd;           /* ours, non-blocking: read its stdout */
    int stderr_fd;           /* ours, non-blocking: read its stderr */
    int progress_fd;         /* ours, non-blocking: read its descriptor 3; -1: it has none */
    struct qn_spawn_end end; /* after qn_spawn_reap */
    /* The rest is its own. */
    struct qn_launched *launched; /* NULL: it is a fork of ours */
    pid_t pid;                    /* of that: its guard, see spawn_fork.h */
    struct qn_spawn_mark mark;    /* of this command alone: no output equals it by chance */
    uint64_t oom_count;
    int cgroup_fd;   /* where it counts; 0: in our own */
    bool was_killed; /* by us */
};

struct qn_spawn_request {
    const char *command; /* for /bin/sh -c */
    /* "NAME=value", NULL-terminated, over our own; an entry without "=" removes the variables of
     * ours that begin with it. NULL: ours. */
    const char *const *environment;
    bool with_progress; /* its descriptor 3 is a pipe to us */
    struct qn_exec_limits limits;
    struct qn_launcher *launcher; /* starts it; NULL: a fork of this process does */
};

/* On success the caller closes the pipes and reaps the process. QUERN_E_NOMEM, QUERN_E_FULL or
 * QUERN_E_CLOSED (the launcher's zygote has ended): nothing runs. */
QUERN_NODISCARD quern_status qn_spawn(const struct qn_spawn_request *request,
                                      struct qn_spawned *ret_spawned, quern_error *err);
/* SIGTERM or SIGKILL to its group, before it is reaped. */
void qn_spawn_signal(struct qn_spawned *spawned, int number);
/* A process with all of the command below it or in it; 0: it has not started, or has ended. */
pid_t qn_spawn_pid(const struct qn_spawned *spawned);
/* Waits for its end, kills the rest of its group, fills in `end`. */
void qn_spawn_reap(struct qn_spawned *spawned);
/* The command was reaped and has written this text to stderr. QUERN_E_FULL, QUERN_E_INVALID: the
 * shell was not even executed, as qn_child_run says. */
QUERN_NODISCARD quern_status qn_spawn_refusal(const struct qn_spawned *spawned,
                                              const struct qn_buf *stderr_text, quern_error *err);

#endif
