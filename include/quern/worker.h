/* SPDX-License-Identifier: MIT */
/* quern/worker.h - takes tasks out of queues and runs them.
 *
 * A worker runs once: new, run (blocks), free. Its threads block all signals, and it installs no
 * signal handler: call quern_worker_stop from your own, or quern_worker_run_until_signal. */
#ifndef QUERN_WORKER_H
#define QUERN_WORKER_H

#include "quern/log.h"
#include "quern/mux.h"
#include "quern/trace.h"
#include "quern/zygote.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_worker quern_worker;
struct quern_clock;

/* You own arrays of this struct, so it grows only into its reserved fields. */
typedef struct quern_queue {
    const char *name;  /* "a,b" and "*" are refused unless there is a queue of exactly that name */
    uint32_t weight;   /* share of starts, 1 to 10000; 0: 1; under strict_priority the rank */
    uint32_t reserved; /* 0 */
} quern_queue;

/* Where handlers run. */
typedef enum quern_pool {
    QUERN_POOL_THREADS = 0, /* in threads of the worker's process */
    QUERN_POOL_PREFORK = 1  /* each in a process of its own, see quern/zygote.h */
} quern_pool;

/* One thing that is checked of a worker:
 *   started    its record is at the broker, and its threads run
 *   threads    its own threads make progress
 *   broker     the broker answers, and answers its requests for tasks if it has any
 *   fetch      not: for stall_timeout_ms the broker has answered other threads only
 *   slots      handlers that ignore their cancellation have left a slot
 *   accepting  it takes tasks: it is neither draining nor quiet
 *   brake      not: after deaths of runs all its queues are braked on this host */
typedef struct quern_worker_check {
    const char *name; /* a static string */
    int64_t for_ms;   /* how long it has been so */
    bool ok;
    uint8_t reserved[7];
    char detail[72]; /* why it is not; one line; may be "" */
} quern_worker_check;

#define QUERN_WORKER_CHECKS_MAX 12

/* Idle is healthy: a worker without work asks the broker all the same. */
typedef struct quern_worker_health {
    bool started;
    bool live;  /* threads and fetch are ok; else only a new process can help. A broker that is away
                 * leaves it live */
    bool ready; /* all checks are ok: it can fetch now */
    uint8_t reserved[5];
    int64_t exchange_age_ms; /* since the broker last answered a request for tasks; long while all
                              * slots are taken; -1: never */
    size_t check_count;
    quern_worker_check checks[QUERN_WORKER_CHECKS_MAX];
} quern_worker_health;

/* One run that ended, for counters and logs of the caller. */
typedef struct quern_run_report {
    const char *id;
    const char *queue;
    const char *type;
    const char *error; /* "": none */
    int32_t outcome;   /* a quern_outcome */
    bool applied;      /* false: the broker refused it as stale */
    uint8_t reserved[3];
    int64_t run_ns;       /* how long the handler ran */
    const char *trace_id; /* 32 digits of hex, of the header "traceparent"; "": none */
} quern_run_report;

typedef struct quern_worker_options {
    const quern_queue *queues; /* NULL: "default" with weight 1 */
    size_t queue_count;
    uint32_t concurrency;            /* runs at a time, 1 to 4096; 0: one per CPU */
    bool strict_priority;            /* serve a lower weight only if all higher ones are empty */
    bool drain;                      /* stop by itself when its queues hold nothing that is due,
                                      * scheduled or being run */
    bool no_wait;                    /* a broker that is absent or busy at the start is an error */
    bool until_idle;                 /* stop by itself when nothing is due now: tasks that are
                                      * delayed, wait for a retry, are in a paused queue or run
                                      * elsewhere stay, but it waits for what a limit holds up; not
                                      * together with drain */
    int64_t shutdown_timeout_ms;     /* how long runs may take to finish; the others are given back
                                      * to their queues; 0: 8 s; -1: until all have finished */
    int64_t lease_ms;                /* 0: 30 s; at least 1 s */
    int64_t quarantine_after_ms;     /* grace of a handler after its cancellation; 0: 5 s */
    quern_retry_policy retry;        /* for tasks and handlers without a policy */
    const struct quern_clock *clock; /* NULL: the system's */
    /* on_log receives lines of logfmt without time and level: msg="run failed" queue=mail id=...;
     * without it warnings and errors go to stderr. Callbacks may be NULL. The worker's threads call
     * them, one at a time. Of the worker's functions they may call only quern_worker_stop. */
    void (*on_log)(quern_log_level level, const char *line, void *user);
    void (*on_run)(const quern_run_report *report, void *user);
    void *user;
    /* The name under which this machine counts deaths of processes: a queue whose runs all die on
     * one host is slowed down there only. NULL: its host name; at most 255 bytes. */
    const char *host;
    int64_t stuck_timeout_ms; /* how long handlers that ignore their cancellation may hold all slots
                               * before run ends with QUERN_E_TIMEOUT (QUERN_E_STATE if they have
                               * ended by then), so that the process is started again; 0: 1 minute;
                               * -1: no limit */
    /* How long runs that were cancelled at the end of shutdown_timeout_ms may take to end, before
     * they are killed (commands) or given up, and given back; 0: 1 s, and 250 ms after a second
     * quern_worker_stop; -1: until all have ended. */
    int64_t soft_shutdown_timeout_ms;
    int32_t prefetch_max; /* runs prefetched beyond free slots, of types whose handler says nothing:
                           * 1 to 64; 0: measured, and only of types whose runs are short; -1:
                           * none. One that has not started after 100 ms goes back to its queue,
                           * where another worker may take it */
    int32_t pool;         /* a quern_pool */
    uint32_t child_runs_max; /* a prefork child is replaced after so many runs; 0: never */
    uint32_t reserved;       /* 0 */
    uint64_t child_rss_max;  /* the same when it has more resident memory, in bytes, after a run */
    /* Of the prefork pool; it also forks commands, with any pool (NULL: this process does). For one
     * worker, and freed after it. */
    quern_zygote *zygote;
    /* A directory of cgroup v2 with limits of its own, for a worker with a zygote: children and
     * commands join it, the worker and its zygotes do not, so that they survive its memory.max.
     * This user must be allowed to move processes there (delegation). The start logs which of
     * memory, cpu and pids it cannot limit because the controller is missing. NULL: children stay
     * in the cgroup of the worker. */
    const char *child_cgroup;
    int32_t ack; /* a quern_ack, of handlers whose options say nothing */
    /* As if each handler had them, see quern_handler_options. */
    bool ack_on_failure;
    bool ack_on_timeout;
    uint8_t reserved_too[2]; /* 0 */
    /* Called for each failed attempt to connect to a server, by the thread that connects, several
     * at a time; and the choice of the next one of several servers after `current` failed (NULL: as
     * the URL says). They are called with `user`, and may call only quern_worker_stop. */
    void (*on_link_failure)(const quern_link_failure *failure, void *user);
    size_t (*choose_server)(size_t count, size_t current, void *user);
    /* How long the broker may leave requests for tasks without an answer, or a thread of the worker
     * may hang, until the worker has stalled: its log, its health and its record at the broker say
     * so. 0: 30 s; at least 2 s; -1: never */
    int64_t stall_timeout_ms;
    /* Called at the start and when a check changes, by the thread of quern_worker_run, also while
     * another callback runs. May be NULL. */
    void (*on_health)(const quern_worker_health *health, void *user);
    /* How to try again while the broker is absent. Each pause is random, up to a limit:
     * interval_start_ms for the first one (0: 50 ms), growing by interval_step_ms each time (0: it
     * doubles) up to interval_max_ms (0: 1 s). After max_retries in a row have failed, at the start
     * or later, the worker ends with the broker's error; 0: it tries for ever. What is 0 is as the
     * URL says, see docs/guide/brokers.md. */
    int64_t interval_start_ms;
    int64_t interval_step_ms;
    int64_t interval_max_ms;
    uint32_t max_retries;
    uint32_t reserved_last; /* 0 */
    /* An operator asks for this level of the log (QUERN_ORDER_LOG_LEVEL of quern/command.h): lines
     * below it are to be left out by on_log. By a thread of the worker, also while another callback
     * runs. NULL: such a command is refused. */
    void (*on_log_level)(quern_log_level level, void *user);
    /* Each run gets a span, and one for its wait before. It must outlive the worker. NULL: none. */
    quern_tracer *tracer;
} quern_worker_options;

/* Opens the broker of `url` (see quern_client_open) for running tasks with `mux`, which must
 * outlive the worker (NULL: that of the zygote). options may be NULL. A broker that is absent or
 * busy (a server that is down or loading, a locked file, a full disk) is not an error, unless
 * no_wait is set: quern_worker_run
 * waits for it. Errors: QUERN_E_INVALID (the text names the option), QUERN_E_FULL (no descriptor is
 * free), QUERN_E_STATE (a file with the tables of another program), QUERN_E_CONNECT (the directory
 * of the file is missing, or it is no regular file), QUERN_E_BROKER (the server has no such
 * database), QUERN_E_CORRUPT, QUERN_E_DENIED, QUERN_E_UNSUPPORTED (a version of the broker that is
 * too old or too new); with no_wait all broker errors. */
QUERN_NODISCARD static inline quern_status quern_worker_new(const char *url, const quern_mux *mux,
                                                            const quern_worker_options *options,
                                                            quern_worker **ret_worker,
                                                            quern_error *err);

/* Runs tasks until quern_worker_stop; with drain until the queues are empty, with until_idle until
 * nothing is due; or until the worker was stuck for stuck_timeout_ms. It waits for a broker that is
 * absent, at the start and later, until that answers or quern_worker_stop is called; with no_wait
 * it returns QUERN_E_CONNECT (a full disk: QUERN_E_FULL, a locked file: QUERN_E_BUSY) instead of
 * waiting at the start. Returns QUERN_OK after a clean stop; QUERN_E_TIMEOUT has one meaning only:
 * handlers were still running at the end (after shutdown_timeout_ms). Their tasks were given back,
 * but their threads still use the worker, so the process should exit and not free it. A file that
 * was removed, replaced or damaged under the worker ends it with QUERN_E_CONNECT or
 * QUERN_E_CORRUPT, so that its supervisor starts it again. Other errors: QUERN_E_STATE (it has run
 * already, or was stuck and its handlers have ended at last, or its zygote died), QUERN_E_CLOSED
 * (the child of a fork), QUERN_E_NOMEM (no memory or no thread), QUERN_E_DENIED and
 * QUERN_E_UNSUPPORTED (detected when a server that was down answers again). */
QUERN_NODISCARD QUERN_API quern_status quern_worker_run(quern_worker *worker, quern_error *err);

/* The same for a program that has no signal handling of its own: SIGINT and SIGTERM stop the worker
 * as quern_worker_stop does, the first drains, the second ends that wait. While it runs, both are
 * blocked in the calling thread and read by one thread of the worker; no handler is installed, and
 * the signal mask is restored afterwards. Call it while no other thread runs, or block both signals
 * in the others: else one of those may receive them. Where several threads of a process run workers
 * this way, each signal stops all of them; then block both signals in all these threads first, and
 * until the last worker has ended, since a thread whose worker has ended would receive the next
 * one. Errors as quern_worker_run, QUERN_E_FULL (no descriptor is free), QUERN_E_NOMEM (no thread).
 * */
QUERN_NODISCARD QUERN_API quern_status quern_worker_run_until_signal(quern_worker *worker,
                                                                     quern_error *err);

/* Any thread; async-signal-safe; NULL does nothing. The first call drains: the worker stops
 * fetching and lets runs finish within shutdown_timeout_ms, then cancels them and waits for
 * soft_shutdown_timeout_ms, then gives them back. Each further call ends the wait of one stage.
 * No task is lost, and none that is given back uses a retry. If the broker does not answer, the
 * worker waits 5 s more if outcomes are to be written, else about 2 s. */
QUERN_API void quern_worker_stop(quern_worker *worker);
/* Stops fetching; the worker and its runs continue (SIGTSTP in the CLI). Any thread;
 * async-signal-safe; NULL does nothing. */
QUERN_API void quern_worker_quiet(quern_worker *worker);
/* Fetches again after quern_worker_quiet (SIGCONT in the CLI). Any thread; async-signal-safe; NULL
 * does nothing. */
QUERN_API void quern_worker_resume(quern_worker *worker);
/* From now on it has up to `concurrency` runs at a time, 1 to 4096, in threads or in prefork
 * children: more start as tasks come. Of fewer, no run is ended: threads and children that are too
 * many end after what they run. Any thread, but no signal handler. QUERN_E_INVALID: not in this
 * range. */
QUERN_NODISCARD QUERN_API quern_status quern_worker_resize(quern_worker *worker,
                                                           uint32_t concurrency, quern_error *err);
/* Logs the worker's runs and the state of its threads (SIGUSR1 in the CLI): a line for the worker
 * and one for each run. Any thread; async-signal-safe; NULL does nothing. */
QUERN_API void quern_worker_log_runs(quern_worker *worker);

/* From now on children come from `zygote`, which was executed (quern_zygote_exec) after that of the
 * worker and announced the same patterns and options; children of the old one end after what they
 * run, and then it ends. Free `zygote` afterwards, at any time. Any thread. Errors: QUERN_E_INVALID
 * (what it announced differs: start the worker again; or one of them was not executed),
 * QUERN_E_STATE (the worker does not run; a worker has the zygote already). */
QUERN_NODISCARD QUERN_API quern_status quern_worker_reload(quern_worker *worker,
                                                           quern_zygote *zygote, quern_error *err);

/* Reads the files again that its URL names (`ca`, `cert`, `key`; SIGHUP in the CLI). Connections
 * that are made from now on use them; those that there are stay. Any thread, but no signal handler.
 * Errors: QUERN_E_UNSUPPORTED (the URL names none, or is that of a file), QUERN_E_INVALID (a file
 * is broken or missing: the old ones stay), QUERN_E_STATE (the worker does not run: it reads them
 * when it starts). */
QUERN_NODISCARD QUERN_API quern_status quern_worker_reload_certificates(quern_worker *worker,
                                                                        quern_error *err);

/* From the next request on the queues get starts by these weights; one that is not named keeps its
 * weight. All are set or none. Before and while the worker runs; any thread, but no signal handler.
 * queues is borrowed until it returns. Errors: QUERN_E_INVALID (a queue that it does not serve, or
 * that is named twice; a weight that is not 1 to 10000, or 0 for 1), QUERN_E_UNSUPPORTED (under
 * strict_priority, where weights are an order). */
QUERN_NODISCARD QUERN_API quern_status quern_worker_set_weights(quern_worker *worker,
                                                                const quern_queue *queues,
                                                                size_t queue_count,
                                                                quern_error *err);

typedef struct quern_worker_stats {
    uint64_t done, retried, archived, dropped, snoozed, given_back, crashed, stale, salvaged;
    uint64_t lost_leases;
    uint32_t running;
    uint32_t quarantined; /* handlers that ignore their cancellation and still hold a thread */
    bool ready; /* false: starting, draining, quiet, stuck, stalled, or braked after crashes in a
                 * row */
    uint8_t reserved[7];
    int64_t exchanged_at_ms; /* when the broker last answered a request for tasks; 0: never */
} quern_worker_stats;
/* A consistent snapshot; all zero when worker is NULL. Any thread. */
static inline void quern_worker_get_stats(quern_worker *worker, quern_worker_stats *ret_stats);

/* What a probe wants to know. Never waits for more than about a second, also when a thread of the
 * worker hangs. All zero, and not live, when worker is NULL. Any thread. */
static inline void quern_worker_get_health(quern_worker *worker, quern_worker_health *ret_health);

/* Call it after quern_worker_run has returned, or if it was never called. NULL is allowed. */
QUERN_API void quern_worker_free(quern_worker *worker);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_worker_new_sized(const char *url, const quern_mux *mux,
                                                              const quern_worker_options *options,
                                                              size_t options_size,
                                                              quern_worker **ret_worker,
                                                              quern_error *err);
static inline quern_status quern_worker_new(const char *url, const quern_mux *mux,
                                            const quern_worker_options *options,
                                            quern_worker **ret_worker, quern_error *err)
{
    return quern_worker_new_sized(url, mux, options, sizeof(quern_worker_options), ret_worker, err);
}

QUERN_API void quern_worker_get_stats_sized(quern_worker *worker, quern_worker_stats *ret_stats,
                                            size_t stats_size);
static inline void quern_worker_get_stats(quern_worker *worker, quern_worker_stats *ret_stats)
{
    quern_worker_get_stats_sized(worker, ret_stats, sizeof(quern_worker_stats));
}

QUERN_API void quern_worker_get_health_sized(quern_worker *worker, quern_worker_health *ret_health,
                                             size_t health_size);
static inline void quern_worker_get_health(quern_worker *worker, quern_worker_health *ret_health)
{
    quern_worker_get_health_sized(worker, ret_health, sizeof(quern_worker_health));
}

#ifdef __cplusplus
}
#endif
#endif
