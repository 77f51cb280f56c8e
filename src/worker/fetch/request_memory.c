/* SPDX-License-Identifier: MIT */
/* request_memory.c - the memory of a request. Apart from request.c, as leftovers are requests, too,
 * and what is built depends on them. */
#include "base/error.h"
#include "base/memory/alloc.h"
#include "worker/fetch/request.h"
#include "worker/internal.h"

quern_status qn_request_init(const struct quern_worker *worker, struct qn_exchange_request *request,
                             quern_error *err)
{
    request->queues = qn_alloc_zero(worker->queue_count, sizeof *request->queues);
    request->quota = qn_alloc_zero(worker->queue_count, sizeof *request->quota);
    request->taken = qn_alloc_zero(worker->queue_count, sizeof *request->taken);
    request->drawn = qn_alloc_zero(worker->queue_count, sizeof *request->drawn);
    if (request->queues == NULL || request->quota == NULL || request->taken == NULL ||
        request->drawn == NULL) {
        return qn_error_nomem(err); /* qn_request_finish frees the others */
    }
    for (size_t i = 0; i < worker->queue_count; i++) {
        request->queues[i].name = worker->options.queues[i].name;
    }
    return QUERN_OK;
}

void qn_request_finish(struct qn_exchange_request *request)
{
    for (size_t i = 0; request->open && i < request->exchange.outcome_count; i++) {
        if (request->ended[i] == NULL) {
            qn_leased_free(request->returned[i]);
        }
    }
    for (size_t i = 0; request->open && i < request->exchange.start_count; i++) {
        qn_run_release(request->starting[i]);
    }
    qn_free(request->queues);
    qn_free(request->quota);
    qn_free(request->taken);
    qn_free(request->drawn);
}
