/* SPDX-License-Identifier: MIT */
/* quern/explain.h - why a task does not run, or what became of it.
 *
 *     status = quern_inspector_explain(inspector, NULL, id, &explanation, &err);
 *     const quern_reason *first = quern_explanation_at(explanation, 0);
 *
 * It belongs to quern/inspector.h, whose rules hold here, too. docs/guide/waiting.md has a table of
 * all reasons. */
#ifndef QUERN_EXPLAIN_H
#define QUERN_EXPLAIN_H

#include "quern/inspector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers stay. A newer library may report others. */
typedef enum quern_why {
    /* It waits, because ... */
    QUERN_WHY_DISK_FULL = 1,       /* the disk of the database is full */
    QUERN_WHY_PAUSED = 2,          /* its queue is paused */
    QUERN_WHY_NO_WORKER = 3,       /* no live worker serves its queue */
    QUERN_WHY_NO_HANDLER = 4,      /* none of those has a handler for its type */
    QUERN_WHY_WORKERS_QUIET = 5,   /* those that have one fetch nothing for now */
    QUERN_WHY_WORKERS_STOP = 6,    /* ... are stopping */
    QUERN_WHY_WORKERS_STUCK = 7,   /* ... are full of handlers that hang */
    QUERN_WHY_WORKERS_STALLED = 8, /* ... get no answer from the broker */
    QUERN_WHY_BRAKED = 9,          /* the runs of its queue die again and again */
    QUERN_WHY_MEMORY_FULL = 10,    /* the memory of Redis is full */
    QUERN_WHY_SCHEDULED = 11,      /* it is due at a later moment */
    QUERN_WHY_RETRY = 12,          /* it failed, and is tried again then */
    QUERN_WHY_SNOOZED = 13,        /* its handler asked for a later moment */
    QUERN_WHY_AFTER_DEATH = 14,    /* its process or its worker died: a pause before the next run */
    QUERN_WHY_LIMIT_RUNS = 15,     /* a limit of tasks that run is used up */
    QUERN_WHY_LIMIT_STARTS = 16,   /* a limit of starts is used up */
    QUERN_WHY_SEMAPHORE = 17,      /* all tokens of a semaphore are held */
    QUERN_WHY_LIMIT_MAYBE = 18,    /* a limit of each type or key may be used up */
    QUERN_WHY_SOLO = 19,           /* a worker runs another task of its queue alone */
    QUERN_WHY_ISOLATED = 20,       /* it saw processes die: it runs alone, or in less company */
    QUERN_WHY_BUSY = 21,           /* all slots are taken */
    QUERN_WHY_TURN = 22,           /* the keys of its queue take turns */
    QUERN_WHY_IN_LINE = 23,        /* other tasks are before it */
    QUERN_WHY_NEXT = 24,           /* nothing: it is next */
    QUERN_WHY_GROUP = 25,          /* it is in a group that is not aggregated yet */
    QUERN_WHY_SET = 26,            /* the tasks of its group are being aggregated */
    /* It is active, and ... */
    QUERN_WHY_RUNNING = 32,       /* a live worker runs it */
    QUERN_WHY_CANCELLING = 33,    /* its cancellation was requested */
    QUERN_WHY_WORKER_DEAD = 34,   /* its worker is dead, and its lease has not ended yet */
    QUERN_WHY_WORKER_SILENT = 35, /* its worker is frozen or cut off, the same */
    QUERN_WHY_LEASE_OVER = 36,    /* its lease has ended: a worker has to take it back */
    /* It has ended: */
    QUERN_WHY_COMPLETED = 48,   /* done, kept for its retention */
    QUERN_WHY_SPENT = 49,       /* archived: its attempts are used up */
    QUERN_WHY_POISON = 50,      /* archived: it killed its processes */
    QUERN_WHY_BY_HANDLER = 51,  /* archived: its handler, or the options of that, decided so */
    QUERN_WHY_CANCELLED = 52,   /* archived: it was cancelled by hand */
    QUERN_WHY_DEADLINE = 53,    /* archived: its deadline is over */
    QUERN_WHY_EXPIRED = 54,     /* archived: it had not started in time */
    QUERN_WHY_TIMEOUT = 55,     /* archived: the last attempt took too long */
    QUERN_WHY_BY_OPERATOR = 56, /* archived by hand */
    QUERN_WHY_DAMAGED = 57,     /* archived or not: its message cannot be used */
    /* Beside others: */
    QUERN_WHY_LOCK_OF_OTHER = 64 /* another task holds the lock of this unique task */
} quern_why;

/* "paused", "no-worker", ...; a static string; NULL for a number that is none. */
QUERN_API const char *quern_why_name(quern_why why);

typedef struct quern_reason {
    int32_t why;         /* a quern_why */
    bool holds_up;       /* it keeps the task from running now; false: so it is, or was */
    uint8_t reserved[3]; /* 0 */
    const char *text;    /* one line */
    const char *advice;  /* what can be done; "": nothing */
    /* Who has what the task waits for: workers as "host:pid", or tasks as "ID on host:pid", three
     * at most, with ", " between; "": not known. */
    const char *holder;
    int64_t until_at_ms; /* when that ends, as far as known; of QUERN_WHY_IN_LINE an estimate of
                          * its start; 0: not known */
    int64_t ahead;       /* QUERN_WHY_IN_LINE and QUERN_WHY_TURN: tasks before it; -1: not known */
} quern_reason;

typedef struct quern_explanation quern_explanation;
/* Why the task of this id does not run, what it does, or what became of it: at least one reason,
 * the one that decides first. The id may be short, as for quern_inspector_task_short; queue NULL:
 * any. It is one look at data that change: two calls may differ. Tasks and workers of Go programs
 * are explained as far as asynq stores what is needed: who serves which type, and how long a
 * handler may run, only quern's workers say. QUERN_E_NOT_FOUND: no such task, which is also what
 * became of one that is done and had no retention; QUERN_E_STATE: several queues have one. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_explain(quern_inspector *inspector,
                                                               const char *queue, const char *id,
                                                               quern_explanation **ret_explanation,
                                                               quern_error *err);
QUERN_API size_t quern_explanation_size(const quern_explanation *explanation);
QUERN_API const quern_reason *quern_explanation_at(const quern_explanation *explanation,
                                                   size_t index);
/* The task as it was then, with its past runs; it belongs to the explanation. */
QUERN_API const quern_task_info *quern_explanation_task(const quern_explanation *explanation);
QUERN_API void quern_explanation_free(quern_explanation *explanation);

#ifdef __cplusplus
}
#endif
#endif
