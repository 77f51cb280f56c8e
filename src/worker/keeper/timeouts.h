/* SPDX-License-Identifier: MIT */
/* timeouts.h - ends runs that take too long. */
#ifndef QN_WORKER_KEEPER_TIMEOUTS_H
#define QN_WORKER_KEEPER_TIMEOUTS_H

#include <stdint.h>

struct quern_worker;

/* Cancels runs past their time and abandons those that ignore it; returns when to check again. */
int64_t qn_timeouts_check(struct quern_worker *worker, int64_t now_mono_ns);

#endif
