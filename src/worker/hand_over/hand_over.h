/* SPDX-License-Identifier: MIT */
/* hand_over.h - a worker leaves its running children to the program that replaces its own.
 *
 * The process stays the same, so its leases and its record at the broker do, too. The caller of
 * quern_worker_run does the execve; should that fail, a new worker of this process takes over in
 * the same way. */
#ifndef QN_WORKER_HAND_OVER_HAND_OVER_H
#define QN_WORKER_HAND_OVER_HAND_OVER_H

#include <stdbool.h>

#include "pool/prefork/prefork.h"
#include "quern/worker.h"
#include "worker/hand_over/estate.h"

/* Of a worker that has taken over. */
struct qn_heir {
    uint64_t key;
    struct quern_run *run;
    bool is_placed; /* a child runs it */
};

struct qn_hand_over {
    _Atomic bool asked;
    _Atomic bool under_way; /* since it was asked, until it is called off */
    bool is_passing;        /* thread of quern_worker_run */
    bool has_state;
    int state_fd;
    struct qn_estate estate; /* until the pool has read its part */
    struct qn_bytes pool_state;
    struct qn_prefork_passed_on passed_on;
    struct qn_heir *heirs;
    size_t heir_count;
};

/* --- For the program ------------------------------------------------------------------------ */

/* The worker prepares it, and quern_worker_run returns QUERN_OK. If that is not possible now, it
 * logs why and goes on. Async-signal-safe. */
void qn_hand_over_ask(quern_worker *worker);
/* Whether it was asked, and has not called it off. */
bool qn_hand_over_is_under_way(const quern_worker *worker);
/* After quern_worker_run. False: it has ended for another reason. *ret_fd: a memfd, the caller's;
 * see qn_estate_keep_open. */
bool qn_hand_over_take(quern_worker *worker, int *ret_fd);
/* Before quern_worker_run: it goes on with the runs of the worker before. take_estate is finished
 * in any case. */
QUERN_NODISCARD quern_status qn_hand_over_adopt(quern_worker *worker, struct qn_estate *take_estate,
                                                quern_error *err);

/* --- For the worker ------------------------------------------------------------------------- */

/* The thread of quern_worker_run, when it was asked for. True: nothing is in flight, children are
 * frozen, and the threads may end; false: the worker goes on. */
bool qn_hand_over_prepare(struct quern_worker *worker);
/* All threads have ended: makes the state, and frees the pool of children. */
QUERN_NODISCARD quern_status qn_hand_over_write(struct quern_worker *worker, quern_error *err);
/* What the pool of children has to take over; NULL: nothing. */
const struct qn_prefork_passed_on *qn_hand_over_passed_on(struct quern_worker *worker);
/* The pool of children has taken over: runs that no child has go to new ones. */
void qn_hand_over_settle(struct quern_worker *worker);
/* The pool of children could not: the worker has fallen, and its recovery finds these runs. */
void qn_hand_over_abandon(struct quern_worker *worker);
void qn_hand_over_finish(struct quern_worker *worker);

#endif
