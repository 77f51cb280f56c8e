/* SPDX-License-Identifier: MIT */
/* queue_check.h - finds typing errors in the names of the queues of a worker. */
#ifndef QN_WORKER_QUEUE_CHECK_H
#define QN_WORKER_QUEUE_CHECK_H

#include "quern/status.h"

struct quern_worker;

/* QUERN_E_INVALID: a name reads like a list or a pattern, and there is no queue of that name. */
QUERN_NODISCARD quern_status qn_queue_check_names(struct quern_worker *worker, quern_error *err);
/* Logs which of its queues do not exist yet. */
void qn_queue_check_log(struct quern_worker *worker);

#endif
