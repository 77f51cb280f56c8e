/* SPDX-License-Identifier: MIT */
/* task.h - the rules for a task: what is valid, what the defaults are. No I/O.
 *
 * quern_task is the caller's struct; struct qn_task is the same after validation: every default
 * filled in, every moment absolute. Everything below the client works with qn_task. */
#ifndef QN_TASK_TASK_H
#define QN_TASK_TASK_H

#include "base/clock.h"
#include "base/memory/arena.h"
#include "message/id.h"
#include "quern/task.h"

struct qn_task {
    const char *id;
    const char *queue;
    const char *type;
    const void *payload; /* NULL only when payload_size is 0 */
    size_t payload_size;
    int64_t retry_max; /* retries after the first attempt; 0: none */
    quern_retry_policy retry;
    int64_t process_at_ms;  /* 0: at once */
    int64_t timeout_ms;     /* 0: none */
    int64_t deadline_at_ms; /* 0: none */
    int64_t unique_ms;      /* lifetime of the lock from now on, delay included; 0: none */
    const char *unique_key; /* of the lock, whole; NULL: none */
    int64_t retention_ms;   /* 0: none */
    const char *group;      /* NULL: none */
    const quern_header *headers;
    size_t header_count;
    quern_task_state state; /* where it is stored: scheduled, aggregating or pending */
    int64_t delay_ms;       /* process_at_ms is this long from now; 0: it was given as a moment */
    int64_t unique_span_ms; /* how long the lock is to live when it is renewed; 0: unknown */
    int32_t unique_until;   /* a quern_unique_until */
    int32_t on_duplicate;   /* a quern_on_duplicate */
    const char *limit_key;  /* NULL: none */
    int64_t start_by_at_ms; /* archived if it has not started by then; 0: none */
    int32_t priority;
    int64_t kill_after_ms; /* these three, of one run; 0: as its handler says */
    int64_t cpu_ms;
    int64_t memory_max;
    uint64_t trace_parent; /* above its span of enqueue; 0: none */
};

struct qn_trace_source;

/* The surroundings in which a new task is prepared. */
struct qn_task_terms {
    int64_t now_wall_ms;
    size_t payload_size_max;
    struct qn_id_source *ids; /* makes the id when there is none */
    /* Spans of tasks that are enqueued; NULL: none, and the trace is passed on as it is. */
    struct qn_trace_source *traces;
};
/* Checks `in` and fills `ret_task`, whose strings are borrowed from `in` or live in `arena`.
 * QUERN_E_INVALID: the text names the field and the rule. A task with a delay is scheduled, also
 * when it has a group, which it joins when it is due. */
QUERN_NODISCARD quern_status qn_task_prepare(const quern_task *in,
                                             const struct qn_task_terms *terms,
                                             struct qn_arena *arena, struct qn_task *ret_task,
                                             quern_error *err);

/* quern_task.retry_max as qn_task has it. */
QUERN_NODISCARD quern_status qn_task_retry_max(int64_t given, int64_t *ret_retry_max,
                                               quern_error *err);

/* The task as a program sees it: it would enqueue the same one. qn_task has 0 for "none" where
 * quern_task has it for "default". Borrows everything. Not shown are the key of a lock, which is
 * more than what the program gave, and start_by_at_ms, which is a moment. */
quern_task qn_task_show(const struct qn_task *task);

/* asynq's rule for the end of one attempt: the earlier of start + timeout and the deadline. 0: it
 * has neither, so never. (A message that a Go client wrote without both means 30 minutes, which its
 * reader fills in; here 0 is what QUERN_TIMEOUT_NEVER became.) */
int64_t qn_task_run_deadline_ms(const struct qn_task *task, int64_t start_wall_ms);

#endif
