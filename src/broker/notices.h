/* SPDX-License-Identifier: MIT */
/* notices.h - which watched tasks have changed: a set of marks of tasks, or "all of them". */
#ifndef QN_BROKER_NOTICES_H
#define QN_BROKER_NOTICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QN_NOTICES_MAX 256 /* two full batches; 2 KiB in a message */

struct qn_notices {
    bool all; /* any task may have changed, also one that is not named */
    size_t count;
    uint64_t tasks[QN_NOTICES_MAX]; /* qn_notices_task; only these `count` are set */
};

/* Nothing has changed. Sets no more than it has to, since the struct is large. */
void qn_notices_clear(struct qn_notices *notices);
bool qn_notices_empty(const struct qn_notices *notices);
/* When there is no room left: all. */
void qn_notices_add(struct qn_notices *notices, uint64_t task);

/* The mark of a task: a hash of "QUEUE}:t:ID", which is how its key on Redis ends. Two tasks with
 * the same mark get each other's notices, which costs a read. */
uint64_t qn_notices_task(const char *queue, const char *id);
uint64_t qn_notices_task_of_name(const char *name, size_t size); /* of "QUEUE}:t:ID" */

#endif
