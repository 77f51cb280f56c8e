/* SPDX-License-Identifier: MIT */
/* work_signal.h - signals steer the worker: TERM and INT stop it, TSTP lets it take no more.
 * SIGPIPE is ignored: a reader of the log that goes away does not end the worker. */
#ifndef QN_CLI_WORK_SIGNAL_H
#define QN_CLI_WORK_SIGNAL_H

#include "quern/worker.h"

void qn_work_signal_start(quern_worker *worker);
void qn_work_signal_stop(void); /* before the worker is freed */

#endif
