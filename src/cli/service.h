/* SPDX-License-Identifier: MIT */
/* service.h - why a task waits, how to help it, and which queues no worker serves. For task
 * inspect, queue list, stats and doctor. */
#ifndef QN_CLI_SERVICE_H
#define QN_CLI_SERVICE_H

#include <jansson.h>

#include "quern/inspector.h"

/* One reading of the broker. */
struct qn_service {
    quern_inspector *inspector; /* borrowed */
    quern_queue_list *queues;
    quern_worker_list *workers;
    json_t *server_info; /* of the broker; may be NULL */
};

/* Reads it all; false: something could not be read, and nothing is held. */
bool qn_service_read(quern_inspector *inspector, struct qn_service *ret_service, quern_error *err);
void qn_service_finish(struct qn_service *service);

/* The live workers, to be freed by the caller; NULL: they could not be read. */
quern_worker_list *qn_service_workers(quern_inspector *inspector);

/* Never NULL. */
const char *qn_service_status_name(quern_worker_status status);
/* How many live workers serve the queue. */
size_t qn_service_count_workers(const quern_worker_list *workers, const char *queue);

struct qn_reason {
    char because[512];
    char advice[512];
};
/* Why this queue, or a task of this type in it (type may be NULL), is not served. False: it is. */
bool qn_service_why_queue(const struct qn_service *service, const char *queue, const char *type,
                          struct qn_reason *ret_reason);
/* Why the task does not run now. False: it runs, has ended, or its turn has not come yet. */
bool qn_service_why_task(const struct qn_service *service, const quern_task_info *info,
                         struct qn_reason *ret_reason);

#endif
