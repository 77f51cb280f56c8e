/* SPDX-License-Identifier: MIT */
/* failure.c - what a handler's options make of tasks and of failed runs.
 *
 * No broker stores whether a task was enqueued with a limit of its own: as in asynq's messages the
 * default is filled in. So the default itself stands for "without". */
#include "worker/policy/failure.h"

#include <stdio.h>
#include <string.h>

#include "message/asynq/asynq.h"
#include "task/retry.h"

void qn_failure_set_defaults(const quern_handler_options *options, struct qn_task *task)
{
    if (options->retry_max != 0 && task->retry_max == QN_RETRY_MAX_DEFAULT) {
        task->retry_max = options->retry_max == QUERN_RETRY_NEVER ? 0 : options->retry_max;
    }
    if (options->timeout_ms != 0 && task->timeout_ms == QN_ASYNQ_TIMEOUT_MS &&
        task->deadline_at_ms == 0) {
        task->timeout_ms = options->timeout_ms == QUERN_TIMEOUT_NEVER ? 0 : options->timeout_ms;
    }
}

/* Whether it is in the list, or below an element of it. */
static bool is_in(const char *const *list, const char *error_class)
{
    for (size_t i = 0; list[i] != NULL; i++) {
        size_t size = strlen(list[i]);
        if (strncmp(list[i], error_class, size) == 0 &&
            (error_class[size] == '\0' || error_class[size] == '/')) {
            return true;
        }
    }
    return false;
}

bool qn_failure_is_final(const quern_handler_options *options,
                         const struct qn_failure_defaults *defaults, const char *error_class,
                         bool timed_out, char ret_why[QN_FAILURE_WHY_SIZE])
{
    ret_why[0] = '\0';
    bool refused = (options->no_retry != NULL && is_in(options->no_retry, error_class)) ||
                   (options->only_retry != NULL && !is_in(options->only_retry, error_class));
    if (refused && error_class[0] != '\0') {
        (void)snprintf(ret_why, QN_FAILURE_WHY_SIZE, "class \"%s\" is not retried", error_class);
    } else if (refused) {
        (void)snprintf(ret_why, QN_FAILURE_WHY_SIZE, "errors without a class are not retried");
    }
    return refused || (timed_out ? options->ack_on_timeout || defaults->ack_on_timeout
                                 : options->ack_on_failure || defaults->ack_on_failure);
}
