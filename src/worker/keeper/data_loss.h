/* SPDX-License-Identifier: MIT */
/* data_loss.h - ends a worker whose data is gone for good, or that has tried often enough. */
#ifndef QN_WORKER_KEEPER_DATA_LOSS_H
#define QN_WORKER_KEEPER_DATA_LOSS_H

#include <stdbool.h>

#include "quern/status.h"

struct quern_worker;

/* A timer of the keeper; always QUERN_OK. */
QUERN_NODISCARD quern_status qn_data_loss_check(struct quern_worker *worker, quern_error *err);
/* Whether the worker ends for that; err (may be NULL) has the reason. Any thread. */
bool qn_data_loss_found(struct quern_worker *worker, quern_error *err);

#endif
