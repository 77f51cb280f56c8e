/* SPDX-License-Identifier: MIT */
/* restart.h - USR2: the worker's process executes its program again, and running children stay.
 *
 * The new program is called with the same words; what it takes over is named by a variable of its
 * environment, which it removes at once. */
#ifndef QN_CLI_WORK_RESTART_H
#define QN_CLI_WORK_RESTART_H

#include "cli/work/work.h"

/* First: whether this program continues a worker, or is only asked whether it could. */
int qn_work_restart_read(struct qn_work *work);
/* Reads what a worker has left; the exit code. */
int qn_work_restart_take(struct qn_work *work, int take_state_fd);
/* For qn_work_signal_service; user: a struct qn_work. Whether the program that is there now could
 * continue this worker; if not, the log says why. */
bool qn_work_restart_check(void *user);
/* Executes it. Returns only if that fails, which it logs; the descriptors are as before. */
void qn_work_restart_exec(struct qn_work *work, int state_fd);

/* `quern internal takes-over`: prints which state it reads. */
int qn_work_restart_print(struct qn_cli *cli);

#endif
