/* SPDX-License-Identifier: MIT */
/* run.h - one attempt of one task inside this process: the definition of quern_run.
 *
 * A run belongs to the worker from its lease until its outcome was applied; while its handler runs,
 * the handler's thread writes the fields marked (h), and any thread may cancel it. */
#ifndef QN_WORKER_RUN_RUN_H
#define QN_WORKER_RUN_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "broker/broker.h"
#include "pool/pool.h"
#include "pool/prefork/prefork.h"
#include "quern/mux.h"
#include "quern/run.h"
#include "task/limits.h"
#include "task/past_runs.h"
#include "trace/context.h"
#include "worker/policy/handler_options.h"

struct qn_launcher;
struct qn_mux_entry;
struct qn_run_trace;

enum qn_cancel_reason {
    QN_REASON_NONE = 0,
    QN_REASON_TIMEOUT,
    QN_REASON_DEADLINE,
    QN_REASON_LEASE_LOST,
    QN_REASON_OPERATOR_RETRY,
    QN_REASON_OPERATOR_ARCHIVE,
    QN_REASON_SHUTDOWN
};

/* Where a run, real or simulated for a test, stores the data that its handler writes. */
struct qn_run_sink {
    quern_status (*write_result)(struct quern_run *run, const void *data, size_t size,
                                 quern_error *err);
    quern_status (*write_progress)(struct quern_run *run, int32_t percent, const char *note,
                                   quern_error *err);
    void (*progress_posted)(struct quern_run *run); /* NULL: it is not stored */
    /* See qn_run_hold_clock. NULL: it has no timeout. */
    void (*hold_clock)(struct quern_run *run, bool held);
    /* It was cancelled, see qn_run_cancel. NULL: it need not be passed on. */
    void (*cancelled)(struct quern_run *run, enum qn_cancel_reason reason);
    /* In a child, where another process cancels the run; both NULL: this one does. */
    enum qn_cancel_reason (*cancel_reason)(const struct quern_run *run);
    int (*cancel_fd)(struct quern_run *run);
};

/* How far a run is, not stored yet. */
struct qn_progress {
    int32_t percent;
    char note[QN_NOTE_SIZE_MAX + 1]; /* "": none */
};

/* "timeout of 1m30s" and the like always fit. */
#define QN_INTERRUPTION_SIZE 48

enum qn_run_phase {
    QN_RUN_WAITING, /* leased, given to the pool, not started */
    QN_RUN_RUNNING,
    QN_RUN_FINISHED, /* its outcome waits for the next exchange */
    QN_RUN_FENCED    /* given up while its handler still runs; its thread frees it */
};

/* Of a run whose pattern has a limit of its own: see run_table.h. */
enum qn_run_place { QN_PLACE_NONE, QN_PLACE_PARKED, QN_PLACE_READY, QN_PLACE_TAKEN };

/* The fate of the task, decided when the handler returned or was abandoned. Guarded by the
 * worker's mutex until the run is finished, then the pump's. */
struct qn_verdict {
    bool offered; /* false: nothing is sent to the broker (lost lease, acked early) */
    bool refused; /* not offered because it came too late: reported as not applied */
    enum qn_outcome_kind kind;
    quern_cause cause;
    int64_t delay_ms;
    const char *error;                   /* NULL: none; static, or owned by the run */
    const struct qn_task_change *change; /* NULL: none; owned by the run */
    int outcome;                         /* for the report: a quern_outcome */
};

/* References: one of the worker's run table, one of the handler's thread, one of each thread that
 * uses the run without the worker's mutex. The last one frees it. */
struct quern_run {
    struct qn_pool_item item;
    struct qn_prefork_item child_item; /* instead, where in_child is true */
    struct qn_list node;               /* in the run table; guarded by the worker's mutex */
    struct qn_list phase_node; /* among its waiting, starting or finished runs; same mutex */
    struct qn_leased *leased;  /* owned */
    const struct qn_run_sink *sink;
    const struct qn_mux_entry *entry; /* NULL: no handler here, or the test kit's */
    struct qn_launcher *launcher;     /* starts its command; NULL: a fork of this process does */
    struct qn_run_type *type;         /* NULL: its pattern has no limit; mutex, as is place */
    enum qn_run_place place;
    void *owner;             /* the worker, or the test kit */
    size_t references;       /* guarded by the worker's mutex */
    enum qn_run_phase phase; /* guarded by the worker's mutex, as all down to verdict */
    uint64_t extend_round;   /* which extension of leases it was part of last */
    uint64_t progress_round; /* in which its progress was stored last, see keeper/progress.c */
    bool lost;               /* the lease is lost, by the answer of the broker or by the clock */
    bool lease_unsure;       /* it may end later than lease_until_boot_ms */
    bool acked;              /* done was written before the run, or is being written */
    bool stuck;              /* fenced, and its thread could not be replaced */
    bool unknown;            /* left to others: it has its verdict before it waits */
    bool in_child;           /* constant: its handler is called in a child of the prefork pool */
    bool acks_first;         /* constant: before that, a thread of the pool writes its early ack */
    bool submitted;          /* to the prefork pool */
    bool fallen;             /* it went down with its worker: no outcome, recovery charges it */
    bool killed;             /* its child: the grace of its cancellation is over */
    _Atomic bool writes;     /* a result that its child has sent is being stored */
    struct qn_verdict verdict;
    int64_t leased_at_mono_ns;
    int64_t started_at_mono_ns;
    int64_t ended_at_mono_ns;
    int64_t killed_at_mono_ns; /* with killed */
    int64_t started_at_wall_ms;
    int64_t lease_until_boot_ms; /* boot clock: until then the task is surely ours; mutex */
    int64_t timeout_ms;          /* 0: none */
    int64_t timeout_at_boot_ms;  /* boot clock; 0: never */
    int64_t deadline_at_ms;      /* wall clock, for the handler; 0: never */
    int64_t grace_ms;            /* from its cancellation until it is given up */
    char interruption[QN_INTERRUPTION_SIZE]; /* text of a run that was given up; mutex */
    _Atomic int cancel_reason;               /* an enum qn_cancel_reason, see qn_run_cancel */
    _Atomic int64_t cancelled_at_mono_ns;    /* 0: not yet */
    _Atomic int cancel_fd;                   /* -1 until requested */
    _Atomic bool abandoned;                  /* fenced: a command must not continue */
    pthread_mutex_t cancel_mutex;            /* guards making cancel_fd, and the two next */
    struct qn_progress *progress;            /* owned; posted last; NULL: none yet */
    bool progress_is_new;                    /* since it was taken last */
    quern_task view;                         /* passed to the handler */
    struct qn_run_trace *trace;              /* owned; NULL: it makes no spans */
    int64_t again_in_ms;                     /* (h) -1: not set */
    int64_t again_at_ms;                     /* (h) wall clock, in place of it; -1: not set */
    int outcome;                             /* (h) a quern_outcome, or QN_OUTCOME_CRASHED */
    struct qn_task_change change;            /* (h) owned, see qn_run_free_change */
    bool has_change;                         /* (h) */
    bool judged;   /* (h) its verdict was made in its child: outcome, delay and error are final */
    bool crashed;  /* (h) the process of its handler died */
    int signal;    /* (h) of which it died; 0: of none */
    bool orphaned; /* (h) its command ended with the zygote: no fault of it is known */
    bool not_started;          /* (h) no process could be made for it: no fault of the task */
    uint64_t output_dropped;   /* (h) bytes of its command's stdout beyond the limit */
    bool progress_garbled;     /* (h) its command is the first to write garbage as its progress */
    char *wrong_order;         /* (h) owned; a line of its command that looks like an order */
    const char *replaced;      /* (h) static; why a process that stays had to be; NULL: none had */
    char *stderr_text;         /* (h) owned; stderr of a command that succeeded */
    struct qn_run_facts facts; /* (h) of its process */
    char *error;               /* (h) owned; NULL: none */
    char error_class[QN_ERROR_CLASS_SIZE_MAX + 1]; /* (h) "": none */
    void *result;                                  /* (h) owned; written with the outcome */
    size_t result_size;
    bool has_result;
};

/* quern_run.outcome of a run whose process died; no handler can return it. */
#define QN_OUTCOME_CRASHED 100

/* Takes `take_leased`; NULL when memory is out (then take_leased stays the caller's). The run is in
 * a block of the slab (NULL: of its own). */
QUERN_NODISCARD struct quern_run *qn_run_new(struct qn_slab *slab, struct qn_leased *take_leased,
                                             const struct qn_run_sink *sink, void *owner);
void qn_run_free(struct quern_run *run);
/* Returns a reference, with the worker's mutex held; the last one frees the run. */
void qn_run_release(struct quern_run *run);
/* Returns a reference of each; takes the worker's mutex for that. */
void qn_run_release_all(struct quern_run *const *runs, size_t count, pthread_mutex_t *mutex);
/* Whether its handler was called and could do something: not where no process could be made. Does
 * not read not_started of a fenced run, because its handler may still be writing it. */
static inline bool qn_run_began(const struct quern_run *run)
{
    return run->started_at_mono_ns != 0 && (run->phase == QN_RUN_FENCED || !run->not_started);
}
/* The first reason counts, but QN_REASON_OPERATOR_ARCHIVE replaces all others except a lost lease.
 * Makes the cancel descriptor readable. Any thread. */
void qn_run_cancel(struct quern_run *run, enum qn_cancel_reason reason);
/* Notes how far it is, to be stored later: only the latest is. Valid UTF-8. Out of memory nothing
 * is noted. Any thread. */
void qn_run_post_progress(struct quern_run *run, const struct qn_progress *progress);
/* Returns false when nothing was posted since the last call. Any thread. */
bool qn_run_take_progress(struct quern_run *run, struct qn_progress *ret_progress);
/* For progress that was taken and could not be stored. Any thread. */
void qn_run_untake_progress(struct quern_run *run);
enum qn_cancel_reason qn_run_cancel_reason(const struct quern_run *run);
/* Its handler waits for something that is no part of its task (held), or begins with that now: its
 * timeout runs from here. A deadline is a moment, and stays. The handler's thread. */
void qn_run_hold_clock(struct quern_run *run, bool held);
/* The trace of its task, for the log; NULL: none. Returns `text`. */
const char *qn_run_trace_id(const struct quern_run *run, char text[QN_TRACE_ID_SIZE]);
/* Frees the texts of a checkpoint that a handler has made. */
void qn_run_free_change(struct qn_task_change *change);
/* In how long the task is to run again, by the wall clock; -1: its handler has not said. */
int64_t qn_run_again_ms(const struct quern_run *run, int64_t now_ms);
/* Sets the error text (cleaned and cut as by quern_run_fail). The handler's thread. */
void qn_run_set_error(struct quern_run *run, const char *text, size_t size);

#endif
