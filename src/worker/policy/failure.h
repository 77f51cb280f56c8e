/* SPDX-License-Identifier: MIT */
/* failure.h - what a handler's options make of tasks and of failed runs. Pure. */
#ifndef QN_WORKER_POLICY_FAILURE_H
#define QN_WORKER_POLICY_FAILURE_H

#include "task/task.h"
#include "worker/policy/handler_options.h"

/* `class "..." is not retried` always fits. */
#define QN_FAILURE_WHY_SIZE (QN_ERROR_CLASS_SIZE_MAX + 32)

/* A worker's own, for handlers whose options say nothing. */
struct qn_failure_defaults {
    quern_retry_policy retry;
    bool ack_on_failure;
    bool ack_on_timeout;
};

/* Fills in what the task was enqueued without. */
void qn_failure_set_defaults(const quern_handler_options *options, struct qn_task *task);
/* Whether a failure must not be retried. ret_why: the words before its error text; "": none.
 * error_class: "" for none. */
bool qn_failure_is_final(const quern_handler_options *options,
                         const struct qn_failure_defaults *defaults, const char *error_class,
                         bool timed_out, char ret_why[QN_FAILURE_WHY_SIZE]);

#endif
