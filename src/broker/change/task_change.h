/* SPDX-License-Identifier: MIT */
/* task_change.h - what a run changes in its task when it ends: a checkpoint. */
#ifndef QN_BROKER_CHANGE_TASK_CHANGE_H
#define QN_BROKER_CHANGE_TASK_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Written together with the outcome, or not at all: its payload may be meant for its queue alone.
 * The rest of the task stays as it is, its lock included: that is of the payload with which it was
 * enqueued. */
struct qn_task_change {
    const void *payload; /* with has_payload */
    size_t payload_size;
    /* Where it goes unless it is archived; given back it is due there at once. NULL: it stays. */
    const char *queue;
    int64_t retry_max; /* with has_retry_max; never less than its retries so far */
    bool has_payload;
    bool has_retry_max;
};

struct qn_outcome;
/* The change that comes with it; NULL: none. */
const struct qn_task_change *qn_task_change_of(const struct qn_outcome *outcome);
/* What retry_max is from now on. */
int64_t qn_task_change_retry_max(const struct qn_outcome *outcome);
/* The queue where the task goes, if it can; NULL: it stays where it is. */
const char *qn_task_change_queue(const struct qn_outcome *outcome);
/* Whether its lock belongs to it as long as it lives, so that it needs the one of that queue. */
bool qn_task_change_holds_lock(const struct qn_outcome *outcome);

#endif
