/* SPDX-License-Identifier: MIT */
/* launcher.h - starts commands by a zygote of their own, and passes on how each has ended.
 *
 * A zygote's events have one reader: here it is a thread of the launcher, which never blocks on
 * anything else. So commands have a zygote beside that of the prefork pool. */
#ifndef QN_POOL_EXEC_LAUNCHER_H
#define QN_POOL_EXEC_LAUNCHER_H

#include <stdbool.h>
#include <sys/resource.h>

#include "pool/prefork/zygote.h"
#include "quern/status.h"

struct qn_launcher;
struct qn_launched; /* one command */

struct qn_launch_end {
    int status; /* as of waitpid */
    struct rusage usage;
    int error_number; /* it was refused, and has run nothing; 0: it ran */
    bool is_lost;     /* the zygote has ended, and the command with it: nothing else is known */
};

/* Called once, by the launcher's thread: the zygote has ended by itself. May be NULL. */
typedef void qn_launcher_gone(const char *why, void *user);

/* Takes the zygote, also on failure. The caller has a reference, and each command one. */
QUERN_NODISCARD quern_status qn_launcher_new(struct qn_zygote *take_zygote, qn_launcher_gone *gone,
                                             void *user, struct qn_launcher **ret_launcher,
                                             quern_error *err);
/* Returns the reference of the caller, whose `gone` is not called any more. The zygote ends with
 * the last one. NULL is allowed. Not by the launcher's thread. */
void qn_launcher_release(struct qn_launcher *launcher);

/* Commands join this directory of cgroup v2, which stays the caller's; 0: none. Before the first
 * command. */
void qn_launcher_set_cgroup(struct qn_launcher *launcher, int cgroup_fd);
/* NULL is allowed: 0. */
int qn_launcher_cgroup(const struct qn_launcher *launcher);

/* Does not wait until it has started. QUERN_E_CLOSED: the zygote has ended. Others: nothing runs.
 * Any thread, as all below. */
QUERN_NODISCARD quern_status qn_launcher_start(struct qn_launcher *launcher,
                                               const struct qn_zygote_command *command,
                                               struct qn_launched **ret_launched, quern_error *err);
/* Readable once it has ended or was refused; valid until qn_launcher_finish. */
int qn_launcher_fd(const struct qn_launched *launched);
/* To its group, as soon as it has started; nothing if it has ended. */
void qn_launcher_signal(struct qn_launched *launched, int number);
/* Its process; 0: it has not started, or has ended. */
pid_t qn_launcher_pid(struct qn_launched *launched);
/* Waits for its end, and frees it. */
void qn_launcher_finish(struct qn_launched *take_launched, struct qn_launch_end *ret_end);

#endif
