/* SPDX-License-Identifier: MIT */
/* resize.h - changes how many runs a worker has at a time, while they run. */
#ifndef QN_WORKER_RUN_STEER_RESIZE_H
#define QN_WORKER_RUN_STEER_RESIZE_H

#include "quern/worker.h"

/* The checks and the effect of quern_worker_resize, but for its check of a fork. */
QUERN_NODISCARD quern_status qn_resize(struct quern_worker *worker, uint32_t slots,
                                       quern_error *err);

#endif
