/* SPDX-License-Identifier: MIT */
/* remote.h - the worker's pool of children, which run its handlers. */
#ifndef QN_WORKER_PREFORK_REMOTE_H
#define QN_WORKER_PREFORK_REMOTE_H

#include <stdbool.h>

#include "pool/prefork/prefork.h"
#include "quern/status.h"

struct quern_worker;

/* Makes worker->prefork if its options say so; it takes their zygote. passed_on: NULL, or what it
 * takes over. */
QUERN_NODISCARD quern_status qn_remote_start(struct quern_worker *worker,
                                             const struct qn_prefork_passed_on *passed_on,
                                             quern_error *err);
/* Kills all children and ends the pool. False: a child that was killed has not ended (it hangs in
 * the kernel), so the pool stays as it is. */
bool qn_remote_end(struct quern_worker *worker);
/* A zygote of the worker `user` has ended by itself: that is the end of the worker, too. */
void qn_remote_note_gone(const char *why, void *user);
/* Whether a zygote has ended by itself; err has the reason. */
bool qn_remote_gone(struct quern_worker *worker, quern_error *err);

#endif
