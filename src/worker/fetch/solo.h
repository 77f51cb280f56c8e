/* SPDX-License-Identifier: MIT */
/* solo.h - how a worker runs a task that must be alone in its process (task/deaths.h).
 *
 *            ask: taken         no run held            it ended, or has lived long enough
 *   idle ------------> clearing -----------> running ------------------------------------> idle
 *    ^                    |     run: leased     |                                  end: returned
 *    |                    | run: there is none  | drain, pause
 *    |                    v                     |
 *    '----- end ------ ending <-----------------'
 *
 * After each time with the lock the worker does without it for as long. When its other runs do not
 * end within a minute it gives up, and waits twice as long the next time. All of it is planned with
 * each request of the pump itself, not with those of the second pump. */
#ifndef QN_WORKER_FETCH_SOLO_H
#define QN_WORKER_FETCH_SOLO_H

#include <stdbool.h>
#include <stdint.h>

enum qn_solo_phase { QN_SOLO_IDLE, QN_SOLO_CLEARING, QN_SOLO_RUNNING, QN_SOLO_ENDING };

/* Guarded by plan_mutex. */
struct qn_solo_state {
    enum qn_solo_phase phase;
    uint32_t queue;
    int64_t taken_at_mono_ns;
    int64_t keep_at_mono_ns;    /* when to extend the lock */
    int64_t company_at_mono_ns; /* running: from then on it is not the cause of a death */
    int64_t rest_until_mono_ns; /* idle: ask again then; 0: at once */
    int64_t patience_ms;        /* how long to wait for the other runs to end; 0: not yet known */
};

struct quern_worker;
struct qn_exchange_request;

/* All with plan_mutex held; qn_solo_plan and qn_solo_ask with mutex, too. */

/* Whether runs may be fetched as usual. */
bool qn_solo_is_idle(const struct qn_solo_state *solo);
/* Writes the request for the lock into an exchange that is being built. */
void qn_solo_plan(struct quern_worker *worker, struct qn_exchange_request *request,
                  int64_t now_mono_ns);
/* Lets an exchange that fetches ask for a lock, if it may. */
void qn_solo_ask(struct quern_worker *worker, struct qn_exchange_request *request,
                 int64_t now_mono_ns);
/* Takes in the answer. */
void qn_solo_answer(struct quern_worker *worker, const struct qn_exchange_request *request,
                    int64_t now_mono_ns);
/* When there is something to do for it without any notice; INT64_MAX: never. */
int64_t qn_solo_moment(const struct qn_solo_state *solo);
/* True once when a rest has ended. */
bool qn_solo_rest_is_over(struct qn_solo_state *solo, int64_t now_mono_ns);

#endif
