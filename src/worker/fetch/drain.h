/* SPDX-License-Identifier: MIT */
/* drain.h - logs the tasks that a draining worker waits for. */
#ifndef QN_WORKER_FETCH_DRAIN_H
#define QN_WORKER_FETCH_DRAIN_H

#include <stdint.h>

struct quern_worker;

/* Call it, with step_mutex held, while the worker has nothing to do and must not end. */
void qn_drain_log(struct quern_worker *worker, int64_t now_mono_ns);

#endif
