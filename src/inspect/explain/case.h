/* SPDX-License-Identifier: MIT */
/* case.h - one task that is explained, and the files that find its reasons. Each adds what it finds
 * to the reasons, those that stop everything before those that stop one task. */
#ifndef QN_INSPECT_EXPLAIN_CASE_H
#define QN_INSPECT_EXPLAIN_CASE_H

#include "broker/standing/standing.h"
#include "inspect/explain/reading.h"
#include "inspect/explain/reasons.h"

struct qn_case {
    const struct qn_reading *reading;
    const quern_task_info *info;
    struct qn_standing standing;
    int64_t now_ms;
    struct qn_reasons *reasons;
};

/* What a reason is about that concerns a queue, or all tasks of a type in it. */
struct qn_why_scope {
    const struct qn_reading *reading;
    const char *queue;
    const char *type; /* NULL: any */
    int64_t now_ms;
};

/* why_queue.c: what delays tasks whether or not they are due; then, what delays those that are. */
void qn_why_queue_held(const struct qn_why_scope *scope, struct qn_reasons *reasons);
void qn_why_queue_slow(const struct qn_why_scope *scope, struct qn_reasons *reasons);

/* why_limit.c: the limits that a pending task waits for. surely: they are used up; else they may
 * be. The list of limits may be NULL. */
struct qn_why_limits {
    quern_limit_list *own;    /* of its queue */
    quern_limit_list *of_all; /* of all queues together */
};
void qn_why_limit_read(const struct qn_case *one, struct qn_why_limits *ret_limits);
void qn_why_limit_finish(struct qn_why_limits *limits);
void qn_why_limit_find(struct qn_case *one, const struct qn_why_limits *limits, bool surely);

/* why_waiting.c: a task that is pending, delayed or in a group. */
void qn_why_waiting_pending(struct qn_case *one);
void qn_why_waiting_later(struct qn_case *one);
void qn_why_waiting_group(struct qn_case *one);

/* why_active.c */
void qn_why_active(struct qn_case *one);

/* why_ended.c */
void qn_why_ended_archived(struct qn_case *one);
void qn_why_ended_completed(struct qn_case *one);

#endif
