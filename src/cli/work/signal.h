/* SPDX-License-Identifier: MIT */
/* signal.h - signals control the worker: TERM, INT, HUP and QUIT stop it, TSTP lets it take no
 * more, CONT take tasks again, USR1 log its runs. SIGPIPE is ignored: a reader of the log that
 * goes away does not end the worker. */
#ifndef QN_CLI_WORK_SIGNAL_H
#define QN_CLI_WORK_SIGNAL_H

#include "cli/cli.h"
#include "cli/work/log.h"
#include "quern/worker.h"

/* Called first: the signals that end the program wait, and TSTP, CONT and USR1 do no harm until
 * there is a worker for them. */
void qn_work_signal_hold(void);
/* From now on those that wait end the process soon, unless a worker starts before. After
 * qn_work_signal_reload_on_hup. */
void qn_work_signal_end_early(struct qn_cli *cli);
/* From now on HUP does not stop the worker, but calls this, on a thread of its own. worker: NULL,
 * or it lives until the call returns. */
void qn_work_signal_reload_on_hup(void (*reload)(quern_worker *worker, void *user), void *user);
void qn_work_signal_reload_end(void); /* before user is finished */
/* A signal that has come before stops the worker. */
void qn_work_signal_start(quern_worker *worker);
/* Those that still wait end the program now: there will be no worker. */
void qn_work_signal_release(void);
/* Before the worker is freed. Signals that would have stopped it end the process from now on; the
 * others do nothing. */
void qn_work_signal_stop(void);

#endif
