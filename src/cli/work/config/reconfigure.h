/* SPDX-License-Identifier: MIT */
/* reconfigure.h - the configuration of a worker that runs is read again, on SIGHUP. */
#ifndef QN_CLI_WORK_CONFIG_RECONFIGURE_H
#define QN_CLI_WORK_CONFIG_RECONFIGURE_H

#include "cli/work/work.h"

/* Reads the file again and applies what has changed: weights of queues and the log at once. Logs
 * what that is; a file that cannot be used changes nothing. worker: NULL where there is none.
 * True: the other values that have changed take a restart, as by USR2. */
bool qn_work_reconfigure(struct qn_work *work, quern_worker *worker);
/* Whether a restart may happen. False: it would bring values that only a stop and a start may
 * change, which are logged. */
bool qn_work_reconfigure_may_restart(struct qn_work *work);
/* Whether the file was read, so that HUP has something to read again. */
bool qn_work_reconfigure_has_file(const struct qn_work *work);
/* For struct qn_verb. */
QUERN_NODISCARD int qn_work_reconfigure_check(struct qn_cli *cli);

#endif
