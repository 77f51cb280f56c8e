/* SPDX-License-Identifier: MIT */
/* signal.h - signals control the worker: TERM, INT, HUP and QUIT stop it, TSTP lets it take no
 * more, CONT take tasks again, USR1 log its runs, USR2 hand them over to a new program. SIGPIPE is
 * ignored: a reader of the log that goes away does not end the worker. */
#ifndef QN_CLI_WORK_SIGNAL_H
#define QN_CLI_WORK_SIGNAL_H

#include "cli/cli.h"
#include "cli/work/log.h"
#include "quern/worker.h"

/* Called first: the signals that end the program wait, and TSTP, CONT, USR1 and USR2 do no harm
 * until there is a worker for them. */
void qn_work_signal_hold(void);
/* From now on those that wait end the process soon, unless a worker starts before. After
 * qn_work_signal_serve. continues: it goes on with the runs of a worker, and has more time. */
void qn_work_signal_end_early(struct qn_cli *cli, bool continues);
/* All signals wait, until the next qn_work_signal_start, or in the program that is executed. */
void qn_work_signal_block(void);

/* Called on a thread of their own. */
struct qn_work_signal_service {
    /* NULL: HUP stops the worker. worker: NULL, or it lives until the call returns. True: it takes
     * a restart, as by USR2. */
    bool (*reload)(quern_worker *worker, void *user);
    /* Whether USR2 may hand the worker over to a new program. */
    bool (*check)(void *user);
};
void qn_work_signal_serve(const struct qn_work_signal_service *calls, void *user);
void qn_work_signal_serve_end(void); /* before user is finished */
/* A signal that has come before stops the worker. */
void qn_work_signal_start(quern_worker *worker);
/* Those that still wait end the program now: there will be no worker. */
void qn_work_signal_release(void);
/* Before the worker is freed. Signals that would have stopped it end the process from now on; the
 * others do nothing. */
void qn_work_signal_stop(void);

#endif
