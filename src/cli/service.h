/* SPDX-License-Identifier: MIT */
/* service.h - which workers serve queues, and why a queue is not served. For queue list, stats and
 * doctor; the reasons are those of src/inspect/explain. */
#ifndef QN_CLI_SERVICE_H
#define QN_CLI_SERVICE_H

#include "inspect/explain/reading.h"
#include "inspect/explain/reasons.h"

/* The live workers, to be freed by the caller; NULL: they could not be read. */
quern_worker_list *qn_service_workers(quern_inspector *inspector);

/* Never NULL. */
const char *qn_service_status_name(quern_worker_status status);
/* How many live workers serve the queue. */
size_t qn_service_count_workers(const quern_worker_list *workers, const char *queue);

#endif
