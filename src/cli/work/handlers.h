/* SPDX-License-Identifier: MIT */
/* handlers.h - C handlers of a shared object: `quern work --pool prefork --handlers FILE`. */
#ifndef QN_CLI_WORK_HANDLERS_H
#define QN_CLI_WORK_HANDLERS_H

#include "cli/work/work.h"

/* Where the options stand in the table of the verb. */
struct qn_work_handlers_options {
    size_t handlers;
    size_t pool;
    size_t unknown;
    size_t policies;
};

/* Starts work->zygote if the command line names a shared object; returns the exit code. */
QUERN_NODISCARD int qn_work_handlers_open(struct qn_work *work,
                                          struct qn_work_handlers_options options);
/* For qn_work_signal_service; user is a struct qn_work: loads the object again. Without one
 * it logs that there is nothing to reload. True: its patterns are others, which takes a restart. */
bool qn_work_handlers_reload(quern_worker *worker, void *user);
/* After the worker was freed. */
void qn_work_handlers_finish(struct qn_work *work);

#endif
