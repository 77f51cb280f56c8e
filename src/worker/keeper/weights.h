/* SPDX-License-Identifier: MIT */
/* weights.h - the queues and their weights, as the record of the worker at the broker shows them.
 * For the thread of the heartbeat. */
#ifndef QN_WORKER_KEEPER_WEIGHTS_H
#define QN_WORKER_KEEPER_WEIGHTS_H

#include "quern/status.h"

struct quern_worker;

/* Writes the text of the record; the one before stays when memory is out. */
QUERN_NODISCARD quern_status qn_weights_describe(struct quern_worker *worker, quern_error *err);
/* Takes over weights that were changed since the last call, and logs them. */
void qn_weights_refresh(struct quern_worker *worker);

#endif
