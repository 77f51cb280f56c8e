/* SPDX-License-Identifier: MIT */
/* leftover.h - what a server of several left unanswered of an exchange (a node of a cluster that is
 * down or frozen), for each queue on its own.
 *
 * It is sent again with its stamp until it is answered. Meanwhile nothing newer of its queue is
 * sent, as the answers of a session are kept in order: runs of that queue that end are kept here.
 * The other queues go on. All functions are called with plan_mutex held. */
#ifndef QN_WORKER_FETCH_LEFTOVER_H
#define QN_WORKER_FETCH_LEFTOVER_H

#include <string.h>

#include "worker/fetch/request.h"

struct qn_leftover {
    struct qn_leftover *next;
    const char *queue; /* the worker's name for it, or one that lives as long as its runs */
    int64_t retry_at_mono_ns;
    uint32_t failures;
    struct qn_exchange_request request;
};

struct qn_leftovers {
    struct qn_leftover *first;
    int64_t since_mono_ns;
    struct qn_list kept; /* runs that have ended, by phase_node */
};

void qn_leftovers_init(struct qn_leftovers *leftovers);
void qn_leftovers_finish(struct qn_leftovers *leftovers);
/* Whether nothing may be sent for this queue. */
static inline bool qn_leftovers_has(const struct qn_leftovers *leftovers, const char *queue)
{
    const struct qn_leftover *leftover = leftovers->first;
    while (leftover != NULL && strcmp(leftover->queue, queue) != 0) {
        leftover = leftover->next;
    }
    return leftover != NULL;
}
/* After an answer in part: takes what was not answered out of the request. QUERN_E_NOMEM: nothing
 * was taken out. */
QUERN_NODISCARD quern_status qn_leftovers_split(struct quern_worker *worker,
                                                struct qn_exchange_request *request,
                                                const quern_error *why);
/* One that is to be sent again now; NULL: none. */
struct qn_leftover *qn_leftovers_due(const struct qn_leftovers *leftovers, int64_t now_mono_ns);
/* When the next one is due; INT64_MAX: there is none. */
int64_t qn_leftovers_moment(const struct qn_leftovers *leftovers);
/* It has no answer again. */
void qn_leftovers_put_off(struct quern_worker *worker, struct qn_leftover *leftover);
/* It was answered, and its answer is taken in. */
void qn_leftovers_drop(struct quern_worker *worker, struct qn_leftover *take_leftover);

#endif
