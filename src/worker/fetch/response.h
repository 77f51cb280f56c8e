/* SPDX-License-Identifier: MIT */
/* response.h - sends a request and takes its answer into the run table. */
#ifndef QN_WORKER_FETCH_RESPONSE_H
#define QN_WORKER_FETCH_RESPONSE_H

#include <stdint.h>

#include "quern/status.h"

struct quern_worker;
struct qn_exchange_request;

/* Sends it on this channel, without plan_mutex meanwhile, and takes the answer in. With plan_mutex
 * held. A failed exchange changes nothing: the request stays open, but for what becomes leftovers
 * (leftover.h). */
QUERN_NODISCARD quern_status qn_response_exchange(struct quern_worker *worker,
                                                  struct qn_exchange_request *request,
                                                  uint32_t channel, quern_error *err);
/* The same for the leftovers that are due; each ends with its answer. */
void qn_response_leftovers(struct quern_worker *worker, int64_t now_mono_ns);

#endif
