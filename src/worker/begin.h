/* SPDX-License-Identifier: MIT */
/* begin.h - opens the broker and waits for it. */
#ifndef QN_WORKER_BEGIN_H
#define QN_WORKER_BEGIN_H

#include <stdbool.h>

#include "quern/status.h"

struct quern_worker;

/* Opens the broker, or keeps the URL when that may work a moment later. */
QUERN_NODISCARD quern_status qn_begin_open(struct quern_worker *worker, const char *url,
                                           quern_error *err);
/* Waits until the broker is there and has this worker's record. *ret_stopped: quern_worker_stop was
 * called meanwhile. */
QUERN_NODISCARD quern_status qn_begin_wait(struct quern_worker *worker, bool *ret_stopped,
                                           quern_error *err);
void qn_begin_forget_url(struct quern_worker *worker);
/* While a worker begins and ends, its calls of the broker must be short. */
void qn_begin_hurry(struct quern_worker *worker, bool hurry);

#endif
