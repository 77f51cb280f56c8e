/* SPDX-License-Identifier: MIT */
/* progress.h - stores the progress that runs have posted. */
#ifndef QN_WORKER_KEEPER_PROGRESS_H
#define QN_WORKER_KEEPER_PROGRESS_H

#include "quern/status.h"

struct quern_worker;

/* A timer of the keeper. */
QUERN_NODISCARD quern_status qn_progress_store(struct quern_worker *worker, quern_error *err);

#endif
