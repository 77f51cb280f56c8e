/* SPDX-License-Identifier: MIT */
/* health.h - answers probes and reports to the service manager, on a thread of its own. */
#ifndef QN_CLI_WORK_PROBE_HEALTH_H
#define QN_CLI_WORK_PROBE_HEALTH_H

#include "cli/work/work.h"

/* Listens, if `text` (see supervise/place.h) is not NULL, or takes over the socket of the program
 * before. Reports the failure and returns the exit code. When the zygotes are there: they must not
 * inherit it. */
int qn_work_health_open(struct qn_work *work, const char *text);
/* Starts the thread, where there is anything to do for it. */
void qn_work_health_start(struct qn_work *work);
/* Whose health it is from now on; NULL: there is no worker. ends: nor will there be one. */
void qn_work_health_of(struct qn_work *work, quern_worker *worker, bool ends);
/* Reports that files are read again: it begins or has ended. Nothing while the worker starts or
 * stops. Not by the thread that was started. */
void qn_work_health_reload(struct qn_work *work, bool begins);
/* Ends the thread; the socket stays open, and clients wait. */
void qn_work_health_stop(struct qn_work *work);
/* The socket survives an execve, and the next program finds it; or not any more. */
void qn_work_health_pass_on(struct qn_work *work, bool passes);
void qn_work_health_finish(struct qn_work *work);

#endif
