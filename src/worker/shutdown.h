/* SPDX-License-Identifier: MIT */
/* shutdown.h - how a worker ends. On the thread of quern_worker_run. */
#ifndef QN_WORKER_SHUTDOWN_H
#define QN_WORKER_SHUTDOWN_H

#include <stdbool.h>

struct quern_worker;

/* Drains: returns when every run is settled or given up. */
void qn_shutdown_drain(struct quern_worker *worker);
/* Whether it ended because its zygote died: then it must not deregister. */
bool qn_shutdown_has_fallen(struct quern_worker *worker);
/* Logs which outcomes the broker has not confirmed, after the threads have ended. */
void qn_shutdown_log_unconfirmed(struct quern_worker *worker);

#endif
