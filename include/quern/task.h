/* SPDX-License-Identifier: MIT */
/* quern/task.h - a task: a client enqueues it, a handler runs it, an inspector shows it.
 *
 * Zero means the default in every field. Pointers are borrowed until the call returns (in a
 * handler: while it runs). Durations are *_ms, moments are *_at_ms since the Unix epoch. */
#ifndef QUERN_TASK_H
#define QUERN_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/export.h"
#include "quern/header.h"
#include "quern/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A string literal as pointer and size, for two adjacent fields or arguments:
 *     quern_task task = {.type = "greet", .payload = QUERN_TEXT("world")};
 *     quern_run_write_result(run, QUERN_TEXT("done"), &err);
 * The size is without the NUL. In C++ see quern/quern.hpp. */
#define QUERN_TEXT(literal) ("" literal ""), (sizeof(literal) - 1)

#define QUERN_RETRY_NEVER (-1)   /* quern_task.retry_max: one attempt, then the archive */
#define QUERN_TIMEOUT_NEVER (-1) /* quern_task.timeout_ms: no limit at all */

/* How long a failed task waits for its next attempt: one of the QUERN_BACKOFF_* below. They are
 * initialisers (`.retry = QUERN_BACKOFF_FIXED(500)`) and not values, so that a handler cannot
 * return one instead of an outcome. */
typedef struct quern_retry_policy {
    int32_t kind;     /* set by the initialisers */
    int32_t reserved; /* 0 */
    int64_t base_ms;
    int64_t cap_ms;
} quern_retry_policy;

/* clang-format off */
/* The policy of the handler; without one that of the worker, else asynq's. All zero. */
#define QUERN_BACKOFF_DEFAULT {0, 0, 0, 0}
/* n^4 + 15 + random(0..29) * (n + 1) seconds, n = retries so far. */
#define QUERN_BACKOFF_ASYNQ {1, 0, 0, 0}
/* Always base_ms; 0: 1 s. */
#define QUERN_BACKOFF_FIXED(base_ms) {2, 0, (base_ms), 0}
/* random(0 .. min(cap_ms, base_ms * 2^n)): full jitter. base_ms: 0: 1 s; cap_ms: 0: 1 h, else at
 * least base_ms. */
#define QUERN_BACKOFF_EXPONENTIAL(base_ms, cap_ms) {3, 0, (base_ms), (cap_ms)}
/* clang-format on */

/* Until when a unique task holds its lock. */
typedef enum quern_unique_until {
    QUERN_UNIQUE_UNTIL_DONE = 0,    /* done, dropped or deleted; if it is archived, until unique_ms
                                     * after that moment at most */
    QUERN_UNIQUE_UNTIL_STARTED = 1, /* a worker takes it for the first time, or as DONE */
    QUERN_UNIQUE_UNTIL_REMOVED = 2, /* as DONE, and all the time that it is archived */
    QUERN_UNIQUE_UNTIL_ENDED = 3,   /* as DONE, or archived */
    QUERN_UNIQUE_UNTIL_EXPIRED = 4  /* unique_ms is over, whatever becomes of the task: at most one
                                     * task in that time */
} quern_unique_until;

/* What happens to a task whose lock an equal one holds. The task that is made of a group must have
 * FAIL. */
typedef enum quern_on_duplicate {
    QUERN_ON_DUPLICATE_FAIL = 0,    /* it is refused with QUERN_E_DUPLICATE */
    QUERN_ON_DUPLICATE_IGNORE = 1,  /* it is not stored: QUERN_OK, with the id of the other one */
    QUERN_ON_DUPLICATE_REPLACE = 2, /* if the other one waits, that gets its type, payload and
                                     * headers: QUERN_OK, with the id of the other one. If it does
                                     * not wait (it is active, archived, or gone), this one is
                                     * stored and takes over the lock, so that no data are lost */
    QUERN_ON_DUPLICATE_DEBOUNCE = 3 /* as REPLACE, and if the other one is scheduled or waits for a
                                     * retry, it is due when this one would be */
} quern_on_duplicate;

/* Names (types, queues, ids, groups, names of headers) have 1 to 256 bytes of valid UTF-8, are not
 * blank, and contain no control characters and no marks that change the direction of text, which
 * could make one name look like another. */
typedef struct quern_task {
    const char *type;       /* e.g. "email:welcome"; a name, see above */
    const void *payload;    /* opaque to the library; may be NULL when payload_size is 0; for a
                             * handler it is never NULL, and followed by a NUL */
    size_t payload_size;    /* at most 32 MiB, or payload_size_max of the client */
    const char *id;         /* NULL: a new UUIDv7; else a name, unique in its queue */
    const char *queue;      /* NULL: "default"; a name without { } */
    int64_t retry_max;      /* retries after the first attempt; 0: 25; QUERN_RETRY_NEVER: none */
    int64_t delay_ms;       /* run this long from now; excludes process_at_ms; not negative */
    int64_t process_at_ms;  /* run at this moment; the past means now */
    int64_t timeout_ms;     /* of one attempt; 0: 30 minutes unless deadline_at_ms is set */
    int64_t deadline_at_ms; /* not started, and cancelled, after this moment; 0: none */
    int64_t unique_ms;      /* refuse an equal task (queue, type, payload) for this long after it
                             * is due, unless it is done before; at least 1 s; 0: do not. The time
                             * begins again when it starts and when it is to be retried */
    int64_t retention_ms;   /* keep the finished task and its result this long; 0: do not */
    const char *group;      /* store as aggregating in this group; NULL or "": none; else a name */
    const quern_header *headers;
    size_t header_count; /* at most 64, no two with the same name */
    quern_retry_policy retry;
    const char *unique_key;  /* with unique_ms: tasks of the queue with the same key are equal,
                             * whatever type and payload they have; NULL: type and payload count; a
                             * name */
    int32_t unique_until;    /* a quern_unique_until; with unique_ms */
    int32_t on_duplicate;    /* a quern_on_duplicate; with unique_ms. With UNTIL_EXPIRED only FAIL
                              * and IGNORE */
    const char *limit_key;   /* whose task it is (a customer, a tenant): limits by key count it, and
                             * the keys of a queue take turns; NULL: none; a name */
    int64_t start_within_ms; /* archived as expired unless it starts this long after it is due (from
                              * now, if it has no delay); 0: no limit. Once it has started, or was
                              * run by hand, its later runs have no such limit. A member of a group
                              * has none. A Go worker runs it all the same. */
    int32_t priority; /* -100 to 100: of the pending tasks of a queue the highest start first, so
                       * that a lower one may wait for ever. On Redis QUERN_E_UNSUPPORTED unless 0:
                       * use queues with weights. */
    int32_t reserved; /* 0 */
    /* Limits of one run where it has a process of its own (a prefork pool, a command); 0: those of
     * its handler. Elsewhere, and by Go workers, they are ignored. */
    int64_t kill_after_ms; /* as that of quern_handler_options: from its cancellation to its end */
    int64_t cpu_ms;        /* of processor time; rounded up to a second */
    int64_t memory_max;    /* bytes of address space; at least 1 MiB */
    /* The trace that it belongs to, as W3C Trace Context writes it: "00-TRACE-SPAN-FLAGS", and what
     * vendors add. They become the headers "traceparent" and "tracestate", in place of those that
     * `headers` has, unless there are 64 others. NULL, and a text that is not valid, change
     * nothing. See quern_run_traceparent. For a handler these are NULL. */
    const char *traceparent;
    const char *tracestate;
} quern_task;

/* Names and numbers are those of asynq. */
typedef enum quern_task_state {
    QUERN_TASK_ACTIVE = 1,
    QUERN_TASK_PENDING = 2,
    QUERN_TASK_SCHEDULED = 3,
    QUERN_TASK_RETRY = 4,
    QUERN_TASK_ARCHIVED = 5,
    QUERN_TASK_COMPLETED = 6,
    QUERN_TASK_AGGREGATING = 7
} quern_task_state;

/* "active", "pending", ...; a static string; NULL for a number that is not a state. */
QUERN_API const char *quern_task_state_name(quern_task_state state);

/* What an operator does to a task, see quern_inspector_act. */
typedef enum quern_action {
    QUERN_ACTION_RUN = 1,            /* make it pending now; not for active and pending tasks */
    QUERN_ACTION_ARCHIVE = 2,        /* not for active and archived tasks */
    QUERN_ACTION_DELETE = 3,         /* not for active tasks */
    QUERN_ACTION_CANCEL_RETRY = 4,   /* cancel an active task; it is retried later */
    QUERN_ACTION_CANCEL_ARCHIVE = 5, /* cancel an active task; it is archived */
    QUERN_ACTION_TRASH = 6,          /* delete, but keep it in the trash of its queue for a day;
                                      * QUERN_E_STATE: that is full */
    QUERN_ACTION_RESTORE = 7         /* from the trash, to the state that it had */
} quern_action;

/* quern_task_edit.deadline_at_ms, .retention_ms: none; .kill_after_ms, .cpu_ms, .memory_max: that
 * of the handler. */
#define QUERN_DEADLINE_NONE (-1)
#define QUERN_RETENTION_NONE (-1)
#define QUERN_RUN_LIMIT_NONE (-1)

/* What an operator changes in a task that waits, see quern_inspector_task_edit; 0: as it is. */
struct quern_task_info;
typedef struct quern_task_edit {
    const void *payload; /* with set_payload */
    size_t payload_size;
    int32_t set_payload;    /* 1: it is replaced */
    int32_t set_priority;   /* 1: this, too; on Redis QUERN_E_UNSUPPORTED */
    int32_t priority;       /* as that of quern_task */
    int32_t set_retry;      /* 1: this, too */
    int64_t process_at_ms;  /* of a scheduled task or a retry: run at this moment */
    int64_t delay_ms;       /* the same, this long from now; excludes process_at_ms */
    int64_t retry_max;      /* QUERN_RETRY_NEVER: none; never less than its retries so far */
    int64_t timeout_ms;     /* QUERN_TIMEOUT_NEVER: none */
    int64_t deadline_at_ms; /* QUERN_DEADLINE_NONE: none */
    int64_t retention_ms;   /* QUERN_RETENTION_NONE: none */
    int64_t kill_after_ms;  /* these three as those of quern_task; QUERN_RUN_LIMIT_NONE: none */
    int64_t cpu_ms;
    int64_t memory_max;
    quern_retry_policy retry;
    const struct quern_task_info *seen; /* only if it is as it was here; NULL: as it is now */
} quern_task_edit;

/* Why a task was run once more. */
typedef enum quern_cause {
    QUERN_CAUSE_NONE = 0,          /* the first run */
    QUERN_CAUSE_RETRY = 1,         /* the run before it failed */
    QUERN_CAUSE_SNOOZE = 2,        /* the run before it asked for a later moment */
    QUERN_CAUSE_GIVEN_BACK = 3,    /* a worker returned it: drain, pause, or not started in time */
    QUERN_CAUSE_LEASE_EXPIRED = 4, /* its worker did not extend the lease */
    QUERN_CAUSE_CHILD_DIED = 5,    /* the process of its handler died */
    QUERN_CAUSE_WORKER_DIED = 6,   /* its worker's process is gone */
    QUERN_CAUSE_OPERATOR = 7,      /* it was run or cancelled by hand */
    QUERN_CAUSE_BROKER_LOST = 8    /* the broker lost writes; a check repaired the task */
} quern_cause;

/* "retry", "lease expired", ...; a static string; NULL for a number that is not a cause. */
QUERN_API const char *quern_cause_name(quern_cause cause);

/* How a run ended. A newer library may report others. */
typedef enum quern_run_end {
    QUERN_RUN_DONE = 1,
    QUERN_RUN_FAILED = 2,
    QUERN_RUN_SNOOZED = 3,
    QUERN_RUN_ARCHIVED = 4,     /* its handler, or its options, let it not be retried */
    QUERN_RUN_CANCELLED = 5,    /* by hand, and the task was archived */
    QUERN_RUN_GIVEN_BACK = 6,   /* its worker stopped */
    QUERN_RUN_CHILD_DIED = 7,   /* the process of its handler */
    QUERN_RUN_WORKER_DIED = 8,  /* its worker's process */
    QUERN_RUN_LEASE_EXPIRED = 9 /* its worker did not extend the lease */
} quern_run_end;

/* "done", "failed", ...; a static string; NULL for a number that is none. */
QUERN_API const char *quern_run_end_name(quern_run_end end);

/* A run that has ended. */
typedef struct quern_past_run {
    int64_t started_at_ms; /* 0: not known */
    int64_t ended_at_ms;
    int64_t cpu_ms;       /* of its process and those it waited for; -1: not known */
    int64_t memory_bytes; /* resident, the most there was; -1: not known */
    const char *worker;   /* "host:pid:id", or its id; "": not known */
    const char *error;    /* its first 200 bytes; "": none */
    int32_t end;          /* a quern_run_end */
    int32_t cause;        /* a quern_cause: why it was started */
    int32_t exit_code;    /* of its command, or of the process that died; -1: none */
    int32_t signal;       /* that killed its process; 0: none */
} quern_past_run;

/* A snapshot of one stored task. Immutable, so any thread may read it. It owns everything that its
 * accessors return. They do not check `info`, which must not be NULL. */
typedef struct quern_task_info quern_task_info;

QUERN_API const char *quern_task_info_id(const quern_task_info *info);
QUERN_API const char *quern_task_info_queue(const quern_task_info *info);
QUERN_API const char *quern_task_info_type(const quern_task_info *info);
QUERN_API quern_task_state quern_task_info_state(const quern_task_info *info);
/* With a NUL behind it; never NULL. */
QUERN_API const void *quern_task_info_payload(const quern_task_info *info, size_t *ret_size);
/* With a NUL behind it; NULL and size 0 when no result was written. */
QUERN_API const void *quern_task_info_result(const quern_task_info *info, size_t *ret_size);
QUERN_API size_t quern_task_info_header_count(const quern_task_info *info);
QUERN_API const quern_header *quern_task_info_headers(const quern_task_info *info);
/* As quern_task has it, so that a copied info enqueues the same task (only the lock of unique_ms is
 * not copied): QUERN_RETRY_NEVER: none; never 0, as a stored task has its defaults filled in. So it
 * is for the timeout below. */
QUERN_API int64_t quern_task_info_retry_max(const quern_task_info *info);
/* Its own policy; QUERN_BACKOFF_DEFAULT: none. */
QUERN_API quern_retry_policy quern_task_info_retry(const quern_task_info *info);
QUERN_API int32_t quern_task_info_priority(const quern_task_info *info);
QUERN_API int64_t quern_task_info_retry_count(const quern_task_info *info);
QUERN_API int64_t quern_task_info_crash_count(const quern_task_info *info);
/* The text of the last failure; "" when there was none. */
QUERN_API const char *quern_task_info_error(const quern_task_info *info);
QUERN_API int64_t quern_task_info_failed_at_ms(const quern_task_info *info); /* 0: never */
QUERN_API int64_t
quern_task_info_timeout_ms(const quern_task_info *info); /* QUERN_TIMEOUT_NEVER: none */
QUERN_API int64_t quern_task_info_deadline_at_ms(const quern_task_info *info); /* 0: none */
/* Limits of one run, as quern_task has them; 0: those of its handler. */
QUERN_API int64_t quern_task_info_kill_after_ms(const quern_task_info *info);
QUERN_API int64_t quern_task_info_cpu_ms(const quern_task_info *info);
QUERN_API int64_t quern_task_info_memory_max(const quern_task_info *info);
/* It is archived unless it starts before; 0: no limit, or a run of it has started and ended. */
QUERN_API int64_t quern_task_info_start_by_at_ms(const quern_task_info *info);
QUERN_API int64_t quern_task_info_retention_ms(const quern_task_info *info);  /* 0: none */
QUERN_API const char *quern_task_info_group(const quern_task_info *info);     /* "": none */
QUERN_API const char *quern_task_info_limit_key(const quern_task_info *info); /* "": none */
/* When it is due: of scheduled tasks and of those that wait for a retry; 0: of others. */
QUERN_API int64_t quern_task_info_due_at_ms(const quern_task_info *info);
/* When it was archived; 0: it is not archived. */
QUERN_API int64_t quern_task_info_archived_at_ms(const quern_task_info *info);
/* When a completed task is removed; 0: it is not completed. */
QUERN_API int64_t quern_task_info_expires_at_ms(const quern_task_info *info);
/* When it was added to its group; 0: it is not aggregating. */
QUERN_API int64_t quern_task_info_grouped_at_ms(const quern_task_info *info);
/* When it was deleted; 0: it is not in the trash. A day later it is gone. */
QUERN_API int64_t quern_task_info_deleted_at_ms(const quern_task_info *info);
QUERN_API int64_t quern_task_info_enqueued_at_ms(const quern_task_info *info);  /* 0: unknown */
QUERN_API int64_t quern_task_info_started_at_ms(const quern_task_info *info);   /* active; else 0 */
QUERN_API int64_t quern_task_info_completed_at_ms(const quern_task_info *info); /* 0: not yet */
/* The cause of the latest run after the first, or of the next run while the task waits for it. */
QUERN_API quern_cause quern_task_info_cause(const quern_task_info *info);
QUERN_API uint64_t quern_task_info_fence(const quern_task_info *info); /* 0: never leased */
/* The worker that runs it; "" when it is not active. */
QUERN_API const char *quern_task_info_worker(const quern_task_info *info);
/* Active, but its lease has expired: it waits for recovery. */
QUERN_API bool quern_task_info_orphaned(const quern_task_info *info);
/* Of quern_client_enqueue: nothing was stored, and this is the task that was there. */
QUERN_API bool quern_task_info_existing(const quern_task_info *info);
QUERN_API int32_t quern_task_info_progress(const quern_task_info *info); /* percent; -1: none */
QUERN_API const char *quern_task_info_progress_note(const quern_task_info *info); /* "": none */
/* Its last runs that quern's workers ended, 10 at most; 0 is the latest, NULL: there are no more.
 * Runs of Go's workers are not noted, nor that of a task that is done at its first run. Only of one
 * task (quern_inspector_task and the like); a list has none. */
QUERN_API size_t quern_task_info_run_count(const quern_task_info *info);
QUERN_API const quern_past_run *quern_task_info_run_at(const quern_task_info *info, size_t index);
/* When the lease of the present run ends, unless it is extended; 0: it is not active, or this is
 * not known. */
QUERN_API int64_t quern_task_info_lease_until_at_ms(const quern_task_info *info);
/* Frees an info that a call returned in ret_info. NULL is allowed. */
QUERN_API void quern_task_info_free(quern_task_info *info);

#ifdef __cplusplus
}
#endif
#endif
