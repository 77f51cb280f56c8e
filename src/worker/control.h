/* SPDX-License-Identifier: MIT */
/* control.h - the thread of quern_worker_run until the worker is stopped. */
#ifndef QN_WORKER_CONTROL_H
#define QN_WORKER_CONTROL_H

#include "quern/status.h"

struct quern_worker;

/* Until quern_worker_stop; QUERN_E_STATE: no slot was left for too long. */
QUERN_NODISCARD quern_status qn_control_until_stopped(struct quern_worker *worker,
                                                      quern_error *err);
/* Logs the present runs, if quern_worker_log_runs was called since. */
void qn_control_log_runs(struct quern_worker *worker);

#endif
