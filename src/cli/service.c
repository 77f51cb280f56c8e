/* SPDX-License-Identifier: MIT */
/* service.c - the workers that serve queues. */
#include "cli/service.h"

#include "inspect/explain/census.h"

quern_worker_list *qn_service_workers(quern_inspector *inspector)
{
    quern_worker_list *list = NULL;
    return quern_inspector_workers(inspector, &list, NULL) == QUERN_OK ? list : NULL;
}

const char *qn_service_status_name(quern_worker_status status)
{
    return qn_census_status_name(status);
}

size_t qn_service_count_workers(const quern_worker_list *workers, const char *queue)
{
    return qn_census_count_workers(workers, queue);
}
