/* SPDX-License-Identifier: MIT */
/* verdict.h - the fate of a task after its run. */
#ifndef QN_WORKER_RUN_VERDICT_H
#define QN_WORKER_RUN_VERDICT_H

#include "worker/policy/failure.h"
#include "worker/run/run.h"

struct quern_worker;

/* What it takes, besides the run. */
struct qn_verdict_rules {
    const struct quern_clock *clock;
    struct qn_failure_defaults defaults;
    struct quern_worker *worker; /* NULL: in a child */
};

/* The verdict for a handler that returned. On its thread; may call the user's retry_delay_ms. */
void qn_verdict_judge(struct quern_worker *worker, struct quern_run *run,
                      struct qn_verdict *ret_verdict);
/* The same in its child, where on_error is called. */
void qn_verdict_judge_by(const struct qn_verdict_rules *rules, struct quern_run *run,
                         struct qn_verdict *ret_verdict);
/* The verdict for a run whose handler is abandoned, or was never started: by its cancel reason.
 * With mutex held, but for a run that is to be given back. */
void qn_verdict_interrupt(struct quern_worker *worker, struct quern_run *run,
                          enum qn_cancel_reason reason, struct qn_verdict *ret_verdict);
/* With mutex held, before it goes into the run table: a lost lease or an early ack may have come
 * while the verdict was made, and change it. */
void qn_verdict_revise(const struct quern_run *run, struct qn_verdict *verdict);
/* With mutex held: gives a running run up, with the verdict of its cancellation. It is fenced off.
 * */
void qn_verdict_give_up(struct quern_worker *worker, struct quern_run *run);

#endif
