/* SPDX-License-Identifier: MIT */
/* zygote.h - the process that forks all children of a worker; the worker's side.
 *
 * A fork of a program with threads may only call async-signal-safe functions. So a program starts
 * its zygote before it makes threads, and the zygote, which never has any, forks. It watches the
 * worker by a pidfd and ends when the worker or its socket is gone. Each child has a guard, a
 * process that kills it with its group and its orphans when the zygote ends, be it by SIGKILL, and
 * when the child has ended. It knows no tasks.
 *
 * A child leads a process group of its own; its stdin is /dev/null, its stdout that of the program.
 * A command may leave a process behind if that has a session of its own, a child may not.
 *
 * Requests may be made by any thread and do not wait for what they cause: that is an event. Events
 * are read by one thread. */
#ifndef QN_POOL_PREFORK_ZYGOTE_H
#define QN_POOL_PREFORK_ZYGOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/memory/view.h"
#include "quern/status.h"

struct qn_zygote;

/* The descriptors of a child. In a request they stay the caller's, who closes them afterwards. */
struct qn_zygote_ends {
    int socket_fd; /* its connection to the worker */
    int page_fd;   /* the memory that it shares with the worker, see page.h */
    int stderr_fd; /* becomes its descriptor 2 */
};

/* The code that runs in children. */
struct qn_zygote_program {
    /* In a fork of the zygote, without threads; returns the exit code. */
    int (*run_child)(const struct qn_zygote_ends *ends, void *user);
    void *user;
    struct qn_bytes hello; /* of a served zygote: sent to the worker, which reads it by
                            * qn_zygote_hello; empty: none */
    int warden_fd;         /* of qn_warden_start; 0: it has no warden */
};

/* Forks the zygote. QUERN_E_THREADS: this process has other threads. */
QUERN_NODISCARD quern_status qn_zygote_fork(const struct qn_zygote_program *program,
                                            struct qn_zygote **ret_zygote, quern_error *err);
/* For programs that have threads: executes `path` with `argv`, which must call qn_zygote_serve. It
 * waits up to timeout_ms until that happens; until then its stderr is a pipe, which is copied to
 * ours. QUERN_E_TIMEOUT, QUERN_E_CONNECT (it cannot be executed, or ended before: the text has its
 * exit code and its last lines of stderr). */
QUERN_NODISCARD quern_status qn_zygote_exec(const char *path, char *const argv[],
                                            int64_t timeout_ms, struct qn_zygote **ret_zygote,
                                            quern_error *err);
/* In the executed program, before it has threads: serves until the worker is gone. Its socket is
 * descriptor 3; all others but 0 to 2 are closed. QUERN_E_STATE: this process was not started by
 * qn_zygote_exec. QUERN_E_THREADS. */
QUERN_NODISCARD quern_status qn_zygote_serve(const struct qn_zygote_program *program,
                                             quern_error *err);
/* Has this zygote fork a second one, which serves by itself and outlives it: for a process that has
 * threads. Before this one was asked for anything else; it waits for the answer. QUERN_E_CLOSED,
 * QUERN_E_FULL, QUERN_E_TIMEOUT. */
QUERN_NODISCARD quern_status qn_zygote_fork_another(struct qn_zygote *zygote,
                                                    struct qn_zygote **ret_zygote,
                                                    quern_error *err);
/* What the served program announced; empty: nothing. Valid as long as the zygote. */
struct qn_bytes qn_zygote_hello(const struct qn_zygote *zygote);
pid_t qn_zygote_pid(const struct qn_zygote *zygote);
/* Its control socket, for qn_zygote_take_over in the next program of this process. */
int qn_zygote_socket(const struct qn_zygote *zygote);
/* Frees it and lets its process and the socket be. */
void qn_zygote_forget(struct qn_zygote *take_zygote);
/* A zygote that the program before this one has started. On failure it is killed. */
QUERN_NODISCARD quern_status qn_zygote_take_over(int take_socket_fd, pid_t pid,
                                                 struct qn_zygote **ret_zygote, quern_error *err);
/* Ends the zygote and all its children, and frees it. NULL is allowed. */
void qn_zygote_free(struct qn_zygote *zygote);

/* Limits of one process that are set when it starts; 0 in each: none. */
struct qn_zygote_limits {
    uint64_t address_space_bytes; /* RLIMIT_AS */
    uint64_t cpu_s; /* RLIMIT_CPU: seconds of CPU, then SIGXCPU, a second later KILL */
    bool no_new_privs;
    int cgroup_fd; /* of a directory of cgroup v2 that it joins; 0 or -1: none */
};

/* Asks for a child; `number` names it in events (unused by any other living process). */
QUERN_NODISCARD quern_status qn_zygote_start_child(struct qn_zygote *zygote, uint64_t number,
                                                   const struct qn_zygote_ends *ends,
                                                   const struct qn_zygote_limits *limits,
                                                   quern_error *err);

/* A shell command, see exec/spawn.h: it leads a process group of its own. */
struct qn_zygote_command {
    const char *command;            /* for /bin/sh -c */
    const char *const *environment; /* "NAME=value", complete, NULL-terminated */
    int fds[4];                     /* stdin, stdout, stderr, descriptor 3; -1: it has none */
    struct qn_zygote_limits limits;
};
QUERN_NODISCARD quern_status qn_zygote_start_command(struct qn_zygote *zygote, uint64_t number,
                                                     const struct qn_zygote_command *command,
                                                     quern_error *err);

enum qn_zygote_event_kind {
    QN_ZYGOTE_STARTED, /* pid, of the child or the shell; pid_fd (the caller's from now on; -1: no
                        * descriptor was free) */
    QN_ZYGOTE_REFUSED, /* error_number: no process or no memory, or it could not be executed */
    QN_ZYGOTE_ENDED,   /* status, usage; all processes of its group were killed before it was
                        * reaped */
    QN_ZYGOTE_GONE     /* the zygote itself has ended: nothing more will come. error_number:
                        * EPROTO: it broke the rules, and was told to end */
};

struct qn_zygote_event {
    enum qn_zygote_event_kind kind;
    uint64_t number;
    pid_t pid;
    int pid_fd;
    int error_number;
    int status; /* as of waitpid, with WCOREDUMP */
    struct rusage usage;
};

/* Sends a signal to the group of a child or command, and to itself if it left that; nothing once it
 * has ended. pid_fd: of its STARTED. */
void qn_zygote_kill(pid_t pid, int pid_fd, int signal_number);

/* Readable when there may be an event. */
int qn_zygote_fd(const struct qn_zygote *zygote);
/* False: there is none at present. After QN_ZYGOTE_GONE there is none. */
bool qn_zygote_next_event(struct qn_zygote *zygote, struct qn_zygote_event *ret_event);
/* An event of it cannot be true: it is told to end, as after QN_ZYGOTE_GONE. */
void qn_zygote_refuse(struct qn_zygote *zygote);

#endif
