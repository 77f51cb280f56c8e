/* SPDX-License-Identifier: MIT */
/* task_fields.h - our own fields in the hash of a task, as text; docs/protocol/redis.md has the
 * table.
 *
 * Each is a row of decimals separated by one space, so that a script can read it with one pattern
 * and a person with HGETALL. Numbers that are missing at the end are 0. */
#ifndef QN_BROKER_REDIS_SCHEMA_TASK_FIELDS_H
#define QN_BROKER_REDIS_SCHEMA_TASK_FIELDS_H

#include <stddef.h>

#include "base/text/number.h"
#include "broker/broker.h"
#include "message/asynq/asynq.h"
#include "task/limits.h"

/* quern_opts: options that the message cannot hold; written at enqueue, and changed only by the
 * start of a run, which ends start_by_at_ms. */
struct qn_task_fields_opts {
    int64_t enqueued_at_ms;
    int64_t timeout_ms; /* with deadline_at_ms and retention_ms: exact */
    int64_t deadline_at_ms;
    int64_t retention_ms;
    quern_retry_policy retry;
    int64_t start_by_at_ms; /* 0: no limit, or it has started */
    int32_t unique_until;
    int64_t unique_span_ms; /* 0: unknown */
    int64_t kill_after_ms;  /* these three: limits of one run; 0: none */
    int64_t cpu_ms;
    int64_t memory_max;
    const char *limit_key; /* as it is written, borrowed; NULL: none */
    size_t limit_key_size;
};
/* quern_past: the history of the task; written when a run ends other than by done. */
struct qn_task_fields_past {
    int64_t crash_count;   /* charges, see task/deaths.h */
    int64_t crashed_at_ms; /* when the first charged run started */
    int64_t failed_at_ms;  /* of the last failure */
    int64_t ended_at_ms;   /* when it came to its present place: archived or completed at */
    int64_t cause;         /* a quern_cause: why the next run will happen */
    int64_t since_ns;      /* the pending_since that belongs to the token of an expired run */
    int64_t kept_until_ms; /* completed: the end of its retention */
    int64_t lone;          /* of the charges, those of deaths that it died alone */
    int64_t life_ms;       /* how long it lived at a death, at most */
    int64_t died_at_ms;
    int64_t level; /* of its company; not written where it is as high as the charges let it be */
};
/* quern_run: the present run. */
struct qn_task_fields_run {
    int64_t started; /* 1: a crash is charged */
    int64_t started_at_ms;
    int64_t since_ns; /* the pending_since that the token replaced */
    int64_t until_ms; /* the end of its lease */
    const char *worker_id;
    size_t worker_id_size;
};

#define QN_FIELD_SIZE 512
/* quern_opts without enqueued_at_ms, which the script puts before it, because that is the server's
 * time. Returns the length; 0: the message of a task that is pending at once has everything. Tasks
 * with a deadline always have it, so that scripts see the deadline without reading the message; the
 * moment by which a task must have started is only here. */
size_t qn_task_fields_opts_write(const struct qn_task *task, char out[QN_FIELD_SIZE]);
void qn_task_fields_opts_read(const char *text, size_t size, struct qn_task_fields_opts *ret_opts);
void qn_task_fields_past_read(const char *text, size_t size, struct qn_task_fields_past *ret_past);
void qn_task_fields_run_read(const char *text, size_t size, struct qn_task_fields_run *ret_run);

/* No time-out at all, in a message: more than anybody can ask for. Go would take a message with
 * neither timeout nor deadline for one of 30 minutes. */
#define QN_TIMEOUT_NEVER_MS (QN_DURATION_MS_MAX + 1000)

/* The message of a task that is new, and back. */
QUERN_NODISCARD quern_status qn_task_fields_encode(struct qn_arena *arena,
                                                   const struct qn_task *task,
                                                   struct qn_bytes *ret_bytes, quern_error *err);

/* The hash of a task: whose it is, by its key, and what is in it. */
struct qn_stored_task {
    const char *queue;
    const char *id;
    struct qn_bytes message;
    const struct qn_task_fields_opts *opts; /* NULL: none */
};
/* Where the fields and the message disagree by more than the message's rounding, the message is
 * right, because Go has changed it. QUERN_E_CORRUPT also when id or queue are not those of the key.
 * ret_message keeps what ret_task has no room for, and what we do not know, for the way back with
 * qn_asynq_task_encode. Both live in the arena and borrow `queue` and `id`. */
QUERN_NODISCARD quern_status qn_task_fields_decode(struct qn_arena *arena,
                                                   const struct qn_stored_task *stored,
                                                   struct qn_asynq_task *ret_message,
                                                   struct qn_task *ret_task, quern_error *err);

#endif
