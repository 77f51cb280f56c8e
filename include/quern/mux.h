/* SPDX-License-Identifier: MIT */
/* quern/mux.h - maps types of tasks to handlers.
 *
 * A task goes to the handler whose pattern equals its type; else to the one with the longest
 * pattern that is a prefix of the type, compared by bytes ("image:" serves "image:resize"); else to
 * that of the pattern "*", which serves every type; else to other workers (see
 * quern_mux_not_found). Build the mux on one thread, then pass it to workers. It must outlive them.
 * Changing it while a worker runs is refused with QUERN_E_STATE. */
#ifndef QUERN_MUX_H
#define QUERN_MUX_H

#include "quern/group.h"
#include "quern/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_mux quern_mux;

typedef enum quern_ack {
    QUERN_ACK_DEFAULT = 0, /* of a handler: that of its worker; of a worker: late */
    QUERN_ACK_EARLY = 1, /* done is written and confirmed before the run; a crash loses the rest */
    QUERN_ACK_LATE = 2   /* the outcome is written after the run; a crash means another run */
} quern_ack;

/* The fate of a task whose run died: the process of its command or prefork child ended by a signal
 * that quern did not send, or a child without a word. In a pool of threads the worker dies with it,
 * and the task is requeued whatever its handler says. */
typedef enum quern_on_crash {
    QUERN_ON_CRASH_REQUEUE = 0, /* it runs again and uses no retry; the death is charged to it, and
                                 * too many of them archive it */
    QUERN_ON_CRASH_FAIL = 1,    /* as QUERN_RETRY: it uses a retry */
    QUERN_ON_CRASH_ARCHIVE = 2, /* as QUERN_ARCHIVE */
    QUERN_ON_CRASH_DROP = 3     /* as QUERN_DROP */
} quern_on_crash;

/* A run that failed. */
typedef struct quern_failure {
    const char *error;       /* as it is stored with the task */
    const char *error_class; /* "": none, see quern_run_set_error_class */
    int32_t outcome;         /* QUERN_RETRY or QUERN_ARCHIVE */
    bool is_final;           /* the task is archived: no retry is left, or none is allowed */
    uint8_t reserved[3];
    int64_t delay_ms; /* until the task is due again; 0 if it is final */
} quern_failure;

/* All zero: the defaults. What a task was enqueued with counts before its handler's options. */
typedef struct quern_handler_options {
    int32_t ack;              /* a quern_ack */
    int32_t prefetch_max;     /* prefetched runs per type; 0: measured; -1: none */
    quern_retry_policy retry; /* for tasks without a policy of their own */
    /* Returns the delay before the next attempt of `task` after its retry_count retries, in ms;
     * NULL: the policy decides. Called on a pool thread. A negative value means 0. */
    int64_t (*retry_delay_ms)(int64_t retry_count, const quern_task *task, void *user);
    int32_t on_crash; /* a quern_on_crash */
    /* A run that fails, or exceeds its time (timeout or deadline), is the task's last one: archived
     * with its error, as with QUERN_ARCHIVE. False: it is retried. These are the two halves of
     * Celery's task_acks_on_failure_or_timeout, which is true there: there retries are requested
     * by the task itself, here by the outcome QUERN_RETRY. */
    bool ack_on_failure;
    bool ack_on_timeout;
    uint8_t reserved[2]; /* 0 */
    /* Both for tasks that were enqueued without: no broker stores that they were, so a task that
     * has exactly the default counts as one (25 retries; 30 minutes and no deadline). 0: the
     * default; or QUERN_RETRY_NEVER, QUERN_TIMEOUT_NEVER. retry_max is at most 25: for more, the
     * task must be enqueued so. */
    int64_t retry_max;
    int64_t timeout_ms;
    /* From the cancellation of a run to SIGKILL of its process group, for commands (which get
     * SIGTERM at once) and for prefork children (which get SIGTERM after this time, and SIGKILL
     * soon after); 0: kill_after_ms of the command, else quarantine_after_ms of the worker. A
     * thread cannot be killed. */
    int64_t kill_after_ms;
    /* CPU time of a prefork run, or of each process of a command, in whole seconds, rounded up; 0:
     * no limit. At its end a process gets SIGXCPU, a second later SIGKILL; a command that ends so
     * has failed. */
    int64_t cpu_ms;
    int64_t memory_max; /* bytes of address space of a prefork child, or of each process of a
                         * command; 0: no limit */
    /* Runs of this pattern at a time in one worker, below its concurrency; 0: no limit of its own.
     * Tasks beyond it take no slot: they are left to other workers and come back within seconds,
     * and use no retry. For a limit of all workers together see quern_limit. */
    uint32_t concurrency;
    uint32_t reserved_too; /* 0 */
    /* Classes of errors (see quern_run_set_error_class), NULL-terminated and copied: a failure of
     * one in no_retry, or of none in only_retry, is archived at once. An element is also for the
     * classes below it: "http" for "http/503". NULL: no list. At most 64 elements; not both. */
    const char *const *no_retry;
    const char *const *only_retry;
    /* Called when a run has failed and its handler has returned, on the thread of the handler (in
     * a prefork child: there), before the outcome is stored; `user` is the handler's. `run` may
     * still be asked, and its result written. Also for a command that crashed and is not requeued.
     * Not called for a run that ended without its handler's return: the worker's on_run is. */
    void (*on_error)(quern_run *run, const quern_task *task, const quern_failure *failure,
                     void *user);
} quern_handler_options;

/* Options of a command that serves as handler; see quern_mux_exec. */
typedef struct quern_exec_options {
    size_t stdout_size_max; /* kept as result when the task has retention; 0: 1 MiB */
    size_t stderr_size_max; /* this many last bytes are kept for the error text; 0: 4 KiB */
    int64_t kill_after_ms;  /* from SIGTERM to SIGKILL of its process group; 0: 5 s */
    bool log_stderr;        /* the worker logs stderr of a command that succeeded, too */
    bool no_new_privs;      /* no set-uid program gives the command rights */
    uint8_t reserved[6];    /* 0 */
} quern_exec_options;

/* An empty mux, for the caller to free. Errors: QUERN_E_NOMEM. */
QUERN_NODISCARD QUERN_API quern_status quern_mux_new(quern_mux **ret_mux, quern_error *err);
/* Not while a worker uses the mux. NULL is allowed. */
QUERN_API void quern_mux_free(quern_mux *mux);

/* Registers `handler` for the types that `pattern` serves (1 to 256 bytes, copied). `user` is
 * passed to it unchanged. options may be NULL. Errors: QUERN_E_CONFLICT (the pattern has a handler
 * already), QUERN_E_STATE (a worker runs), QUERN_E_FULL (65536 patterns). */
QUERN_NODISCARD static inline quern_status quern_mux_handle(quern_mux *mux, const char *pattern,
                                                            quern_handler handler, void *user,
                                                            const quern_handler_options *options,
                                                            quern_error *err);

/* Registers a shell command: `/bin/sh -c command` in a process group of its own, the payload on
 * stdin, QUERN_TASK_ID, QUERN_TASK_TYPE, QUERN_QUEUE, QUERN_RETRY_COUNT, QUERN_FENCE and others
 * (docs/guide/handlers.md) in its environment. Its descriptor 3 is open for writing: each line
 * "PERCENT", "PERCENT NOTE" or "NOTE" is its progress, as by quern_run_write_progress. The latest
 * is stored at most once a second, less often with very many commands (a worker spends about 100 ms
 * of each second on it), and a note is cut at 256 bytes. If the task has retention, stdout becomes
 * the result (cut at stdout_size_max, with a last line that reports the cut, and a warning in the
 * log). The exit code decides the outcome: 0 done, 75 retry, 65 archive, any other one a failure
 * (retry). When the run is cancelled the group receives SIGTERM, and SIGKILL after kill_after_ms.
 * Lines of orders on descriptor 3 decide together with the exit code: "retry-in=30s" (if it fails,
 * run it again then), "snooze=5m" (run it again then, no attempt is used up), "no-retry=CLASS" (if
 * it fails, archive it), "error-class=CLASS" (of the failure). Death by a signal that quern did not
 * send is a crash; its error names the signal, the CPU time and the memory. A command that cannot
 * be started (no process, descriptor or memory) costs its task no attempt: the run is given back,
 * and the worker pauses fetching for a moment. With an environment too large for the system it
 * could never start: that is a failure (retry). Errors as quern_mux_handle. */
QUERN_NODISCARD static inline quern_status quern_mux_exec(quern_mux *mux, const char *pattern,
                                                          const char *command,
                                                          const quern_exec_options *options,
                                                          quern_error *err);

/* Replaces the options of a pattern that has a handler or a command. NULL: the defaults. Errors:
 * QUERN_E_NOT_FOUND (the pattern has none), QUERN_E_STATE (a worker runs), QUERN_E_INVALID. */
QUERN_NODISCARD static inline quern_status quern_mux_configure(quern_mux *mux, const char *pattern,
                                                               const quern_handler_options *options,
                                                               quern_error *err);

/* Wraps every handler: it decides whether to call `next(run, task, next_user)`, and returns an
 * outcome. The middleware added first is the outermost. The not-found outcome is wrapped, too. */
typedef quern_outcome (*quern_middleware)(quern_run *run, const quern_task *task,
                                          quern_handler next, void *next_user, void *user);
/* Errors: QUERN_E_STATE (a worker runs), QUERN_E_FULL (64 middlewares). */
QUERN_NODISCARD QUERN_API quern_status quern_mux_use(quern_mux *mux, quern_middleware middleware,
                                                     void *user, quern_error *err);

/* Sets the outcome of tasks that no pattern serves. Without this call a worker leaves such a task
 * to other workers: it goes to retry for 1 s, longer if no worker takes it (up to 30 s), and no
 * attempt is counted. With it the middlewares are called, and the outcome counts as that of a run;
 * asynq behaves as with QUERN_RETRY. Errors: QUERN_E_STATE (a worker runs). */
QUERN_NODISCARD QUERN_API quern_status quern_mux_not_found(quern_mux *mux, quern_outcome outcome,
                                                           quern_error *err);

/* Registers `aggregator` for the groups that `pattern` serves, by the rule for types, with their
 * settings. `user` is passed to it unchanged. options may be NULL. A worker aggregates the groups
 * of the queues that it serves, also of paused ones. Errors as quern_mux_handle. */
QUERN_NODISCARD static inline quern_status quern_mux_aggregate(quern_mux *mux, const char *pattern,
                                                               quern_aggregator aggregator,
                                                               void *user,
                                                               const quern_group_options *options,
                                                               quern_error *err);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_mux_handle_sized(quern_mux *mux, const char *pattern,
                                                              quern_handler handler, void *user,
                                                              const quern_handler_options *options,
                                                              size_t options_size,
                                                              quern_error *err);
static inline quern_status quern_mux_handle(quern_mux *mux, const char *pattern,
                                            quern_handler handler, void *user,
                                            const quern_handler_options *options, quern_error *err)
{
    return quern_mux_handle_sized(mux, pattern, handler, user, options,
                                  sizeof(quern_handler_options), err);
}

QUERN_NODISCARD QUERN_API quern_status
quern_mux_configure_sized(quern_mux *mux, const char *pattern, const quern_handler_options *options,
                          size_t options_size, quern_error *err);
static inline quern_status quern_mux_configure(quern_mux *mux, const char *pattern,
                                               const quern_handler_options *options,
                                               quern_error *err)
{
    return quern_mux_configure_sized(mux, pattern, options, sizeof(quern_handler_options), err);
}

QUERN_NODISCARD QUERN_API quern_status quern_mux_exec_sized(quern_mux *mux, const char *pattern,
                                                            const char *command,
                                                            const quern_exec_options *options,
                                                            size_t options_size, quern_error *err);
static inline quern_status quern_mux_exec(quern_mux *mux, const char *pattern, const char *command,
                                          const quern_exec_options *options, quern_error *err)
{
    return quern_mux_exec_sized(mux, pattern, command, options, sizeof(quern_exec_options), err);
}

QUERN_NODISCARD QUERN_API quern_status quern_mux_aggregate_sized(
    quern_mux *mux, const char *pattern, quern_aggregator aggregator, void *user,
    const quern_group_options *options, size_t options_size, quern_error *err);
static inline quern_status quern_mux_aggregate(quern_mux *mux, const char *pattern,
                                               quern_aggregator aggregator, void *user,
                                               const quern_group_options *options, quern_error *err)
{
    return quern_mux_aggregate_sized(mux, pattern, aggregator, user, options,
                                     sizeof(quern_group_options), err);
}

#ifdef __cplusplus
}
#endif
#endif
