/* SPDX-License-Identifier: MIT */
/* request.h - one exchange with the broker: the outcomes, the starts and the room that it carries.
 *
 * It stays open, and is sent again as it is, until it is answered. All functions are called with
 * plan_mutex held. */
#ifndef QN_WORKER_FETCH_REQUEST_H
#define QN_WORKER_FETCH_REQUEST_H

#include "base/memory/list.h"
#include "broker/broker.h"

struct quern_run;
struct quern_worker;

struct qn_exchange_request {
    bool open;
    bool in_doubt;           /* it may have taken effect: nothing in it may change */
    bool looks;              /* it was built because there may be something to fetch */
    bool in_flight;          /* sent, and not yet answered; guarded by mutex, too */
    bool sent_again;         /* while it was in doubt */
    int64_t sent_at_boot_ms; /* when it was sent first: no lease of it is older */
    struct qn_stamp stamp;   /* of the latest exchange: a session for each request */
    struct qn_exchange exchange;
    struct qn_exchange_reply reply;
    struct quern_run *ended[QN_BATCH_MAX];    /* one per outcome; NULL: see the next */
    struct qn_leased *returned[QN_BATCH_MAX]; /* a lease that never became a run; owned */
    struct qn_outcome outcomes[QN_BATCH_MAX];
    enum qn_applied applied[QN_BATCH_MAX];
    bool unanswered[2 * QN_BATCH_MAX]; /* outcomes, then starts */
    struct quern_run *starting[QN_BATCH_MAX];
    const struct qn_leased *starts[QN_BATCH_MAX];
    struct qn_leased *leased[QN_BATCH_MAX];
    uint16_t order[QN_BATCH_MAX];  /* the drawn queue of each slot */
    struct qn_queue_share *queues; /* queue_count entries, as the next three */
    uint32_t *quota;
    uint32_t *taken;
    struct qn_list *drawn; /* the new runs of each queue */
};

/* Without a stamp: a new request is given a session, a leftover has that of its request. */
QUERN_NODISCARD quern_status qn_request_init(const struct quern_worker *worker,
                                             struct qn_exchange_request *request, quern_error *err);
/* Frees its resources, also if init failed or was never called. */
void qn_request_finish(struct qn_exchange_request *request);
/* Fills the next exchange; leaves it closed when there is nothing to send and nothing to fetch. */
void qn_request_build(struct quern_worker *worker, struct qn_exchange_request *request,
                      int64_t now_mono_ns);
/* How many runs fit now beyond those in the pool and those that the other request asks for;
 * *ret_free: how many of them start at once. With mutex held, too. */
uint32_t qn_request_room(struct quern_worker *worker, const struct qn_exchange_request *request,
                         int64_t now_mono_ns, uint32_t *ret_free);
/* Notes how an exchange went, and how long it took: where no answer comes in time, those that
 * follow ask for less, as it may be larger than the link can bring; after a quick one for twice as
 * much. */
void qn_request_learn(struct quern_worker *worker, const struct qn_exchange_request *request,
                      quern_status status, int64_t took_ns);
/* Whether an exchange beside the other request's would be a full one. With mutex held, too. */
bool qn_request_is_worth_it(struct quern_worker *worker, const struct qn_exchange_request *request,
                            int64_t now_mono_ns);

#endif
