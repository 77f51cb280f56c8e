/* SPDX-License-Identifier: MIT */
/* quern/inspector.h - lists and changes queues, tasks and workers, and repairs a broker.
 *
 * Any thread may call these functions. Lists are copies, which the caller frees; a long list read
 * from Redis is not a consistent snapshot. Accessors do not accept NULL for a list or for an
 * element of it; _at returns NULL for an index past the end. Each function that returns
 * quern_status may return broker errors. */
#ifndef QUERN_INSPECTOR_H
#define QUERN_INSPECTOR_H

#include "quern/entry.h"
#include "quern/task.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_inspector quern_inspector;
struct quern_clock;

typedef struct quern_inspector_options {
    int64_t connect_timeout_ms;      /* 0: 5 s */
    int64_t command_timeout_ms;      /* 0: 10 s */
    bool create;                     /* make the broker's file if it does not exist */
    bool init;                       /* add our tables to a file that has others, see db init */
    uint8_t reserved[6];             /* 0 */
    const struct quern_clock *clock; /* NULL: the system's */
} quern_inspector_options;

/* url as in quern_client_open; options may be NULL. Errors: QUERN_E_NOT_FOUND (no such file, and
 * create is not set), QUERN_E_STATE (a file with the tables of another program, and init is not
 * set). */
QUERN_NODISCARD static inline quern_status quern_inspector_open(
    const char *url, const quern_inspector_options *options, quern_inspector **ret_inspector,
    quern_error *err);
/* Call it after the calls of all other threads have returned. NULL is allowed. */
QUERN_API void quern_inspector_free(quern_inspector *inspector);

/* --- Queues ------------------------------------------------------------------------- */

#define QUERN_TASK_STATE_COUNT 8 /* a quern_task_state is less; 0 is none */
#define QUERN_TASK_STATE_ROOM 16 /* no release will have more */

typedef struct quern_queue_info {
    const char *name;         /* belongs to the list */
    uint64_t size;            /* of all states */
    uint64_t processed_today; /* UTC day; successes and failures */
    uint64_t failed_today;
    uint64_t processed_total;
    uint64_t failed_total;
    uint64_t group_count;
    int64_t latency_ms;     /* how long the oldest pending task has waited; 0: none */
    int64_t paused_at_ms;   /* 0: not paused */
    int64_t memory_bytes;   /* -1: not known for this broker */
    uint64_t trimmed_total; /* archived tasks deleted because the archive was full or too old */
    /* The number of hosts where its runs died ten times in a row, so that it is run there one task
     * at a time. */
    uint32_t braked_hosts;
    uint32_t reserved;
    int64_t probe_at_ms; /* when the first of these hosts may try the next task; 0: none */
    /* How many tasks are in each quern_task_state; 0 for states that do not exist yet. */
    uint64_t counts[QUERN_TASK_STATE_ROOM];
    int64_t max_pending; /* see quern_queue_settings; 0: no limit */
} quern_queue_info;

typedef struct quern_queue_list quern_queue_list;
/* All queues, sorted by name. Errors: broker errors. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_queues(quern_inspector *inspector,
                                                              quern_queue_list **ret_list,
                                                              quern_error *err);
QUERN_API size_t quern_queue_list_size(const quern_queue_list *list);
QUERN_API const quern_queue_info *quern_queue_list_at(const quern_queue_list *list, size_t index);
QUERN_API void quern_queue_list_free(quern_queue_list *list);

/* From 1 s after the call on, no task of this queue is started. QUERN_E_STATE: it is paused
 * already. QUERN_E_NOT_FOUND: no such queue. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_pause(quern_inspector *inspector,
                                                             const char *queue, quern_error *err);
/* Ends a pause. QUERN_E_STATE: it is not paused. QUERN_E_NOT_FOUND: no such queue. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_resume(quern_inspector *inspector,
                                                              const char *queue, quern_error *err);
#define QUERN_MAX_PENDING_NONE (-1)
#define QUERN_MAX_PENDING_MAX INT64_C(1000000000)

typedef struct quern_queue_settings {
    /* An enqueue that would make more than this many tasks of the queue wait for a run, pending or
     * scheduled, gets QUERN_E_FULL. Retries and members of groups are not counted; a task that
     * comes back (from a retry, from a worker, by hand) is never refused. At most
     * QUERN_MAX_PENDING_MAX; QUERN_MAX_PENDING_NONE: no limit; 0: stays as it is. Go's clients do
     * not obey it. */
    int64_t max_pending;
} quern_queue_settings;
/* Changes the settings that are not 0, at once and for all programs; a queue that does not exist is
 * made. QUERN_E_INVALID: the name, or a number. */
QUERN_NODISCARD static inline quern_status quern_inspector_set_queue(
    quern_inspector *inspector, const char *queue, const quern_queue_settings *settings,
    quern_error *err);

/* Removes a queue, its tasks, its settings and its figures. QUERN_E_STATE: it holds tasks and force
 * is false, or it holds active tasks. QUERN_E_NOT_FOUND: no such queue. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_remove_queue(quern_inspector *inspector,
                                                                    const char *queue, bool force,
                                                                    quern_error *err);

/* You own arrays of this struct, so it never grows. */
typedef struct quern_day {
    char date[16]; /* "2026-11-20", UTC */
    uint64_t processed;
    uint64_t failed;
} quern_day;
/* Fills `days` entries (1 to 90), today first; days without tasks are zero. QUERN_E_NOT_FOUND: no
 * such queue. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_history(quern_inspector *inspector,
                                                               const char *queue, size_t days,
                                                               quern_day *ret_days,
                                                               quern_error *err);

/* --- Tasks -------------------------------------------------------------------------- */

typedef struct quern_task_filter {
    const char *queue; /* NULL: all queues */
    int32_t state;     /* a quern_task_state; 0: all */
    int32_t reserved;  /* 0 */
    const char *type;  /* NULL: all; "image:resize" exactly, or "image:*" for a prefix */
    const char *group; /* NULL: all */
    const char *text;  /* NULL: all; a substring of the payload or of the last error */
    const char *id;    /* NULL: all; exactly this id */
    uint64_t offset;   /* skip this many matches */
    uint64_t limit;    /* 0: 30; at most 10000 */
} quern_task_filter;

typedef struct quern_task_list quern_task_list;
/* A page of the tasks that match filter; NULL matches all. Order: by queue, then state; pending and
 * active: next or oldest first; scheduled and retry: soonest first; archived and completed: newest
 * first. */
QUERN_NODISCARD static inline quern_status quern_inspector_tasks(quern_inspector *inspector,
                                                                 const quern_task_filter *filter,
                                                                 quern_task_list **ret_list,
                                                                 quern_error *err);
QUERN_API size_t quern_task_list_size(const quern_task_list *list);
QUERN_API const quern_task_info *quern_task_list_at(const quern_task_list *list, size_t index);
QUERN_API void quern_task_list_free(quern_task_list *list);

/* One task, for the caller to free. queue NULL: look in all queues. QUERN_E_NOT_FOUND: no such
 * task; QUERN_E_STATE: it is in several queues. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_task(quern_inspector *inspector,
                                                            const char *queue, const char *id,
                                                            quern_task_info **ret_info,
                                                            quern_error *err);

/* The same, and `id` may be the beginning of a UUID, at least 8 characters: where no task has it as
 * its id, the one whose id begins so is meant. QUERN_E_STATE: several begin so, and the text names
 * some. SQLite looks it up in an index, Redis walks through the names of all keys
 * (QUERN_E_UNSUPPORTED: there are more than a million); a whole id costs nothing more. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_task_short(quern_inspector *inspector,
                                                                  const char *queue, const char *id,
                                                                  quern_task_info **ret_info,
                                                                  quern_error *err);

/* Applies the action to one task; queue NULL: in any queue. QUERN_E_NOT_FOUND; QUERN_E_STATE: the
 * state does not allow it, or queue is NULL and several queues have this id. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_act(quern_inspector *inspector,
                                                           quern_action action, const char *queue,
                                                           const char *id, quern_error *err);
/* Applies the action to every task that the filter matches (offset and limit are not used; queue
 * and state must be given), in bounded transactions. *ret_count is the number of tasks it was
 * applied to, also on failure, when other matching tasks may be left. QUERN_E_STATE: the state does
 * not allow it, or the archive would grow beyond its limit, and its oldest tasks would be deleted.
 * QUERN_E_BUSY: twice the number of tasks that matched at first were handled, and more arrived
 * meanwhile; the same call continues with those. */
QUERN_NODISCARD static inline quern_status quern_inspector_act_all(quern_inspector *inspector,
                                                                   quern_action action,
                                                                   const quern_task_filter *filter,
                                                                   uint64_t *ret_count,
                                                                   quern_error *err);

/* --- Workers ------------------------------------------------------------------------ */

typedef struct quern_worker_run_info {
    const char *id; /* of the task, like the two next */
    const char *type;
    const char *queue;
    int64_t started_at_ms;
    int64_t deadline_at_ms; /* 0: none */
} quern_worker_run_info;

/* A newer library may report others. */
typedef enum quern_worker_status {
    QUERN_WORKER_UNKNOWN = 0,
    QUERN_WORKER_ACTIVE = 1,
    QUERN_WORKER_QUIET = 2,    /* it fetches nothing, see quern_worker_quiet */
    QUERN_WORKER_DRAINING = 3, /* it stops */
    QUERN_WORKER_BRAKED = 4,   /* after deaths in a row it runs one task of a queue at a time */
    QUERN_WORKER_STUCK = 5,    /* all its slots are held by handlers that hang */
    QUERN_WORKER_STALLED = 6   /* its requests for tasks have had no answer for stall_timeout_ms,
                                * or one of its threads hangs */
} quern_worker_status;

/* "unknown", "active", "quiet", ...; a static string; NULL for a number that is no status. */
QUERN_API const char *quern_worker_status_name(quern_worker_status status);

typedef struct quern_worker_info {
    const char *id;
    const char *host;
    const char *queues; /* "critical=6 default=3" */
    int64_t pid;
    int64_t started_at_ms;
    int64_t heartbeat_at_ms;
    quern_worker_status status;
    uint32_t concurrency;
    size_t run_count;
    const quern_worker_run_info *runs;
    /* The patterns of the types that it serves, one per line, "*" for all; NULL: not known (a Go
     * server, or a worker with very many). */
    const char *types;
    uint32_t hung; /* handlers that ignore their cancellation and still hold a thread */
    bool strict_priority;
    bool takes_commands; /* see quern/command.h; false: a Go server, or an older worker */
    uint8_t reserved[2];
    /* When the broker last answered a request for tasks, as of the heartbeat: later than that is
     * not known. It may be long ago while all slots are taken, as nothing is asked for then. 0: not
     * known (a Go server, an older worker, or there was none). */
    int64_t exchanged_at_ms;
} quern_worker_info;

typedef struct quern_worker_list quern_worker_list;
/* The workers whose heartbeats have not expired. Errors: broker errors. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_workers(quern_inspector *inspector,
                                                               quern_worker_list **ret_list,
                                                               quern_error *err);
QUERN_API size_t quern_worker_list_size(const quern_worker_list *list);
QUERN_API const quern_worker_info *quern_worker_list_at(const quern_worker_list *list,
                                                        size_t index);
QUERN_API void quern_worker_list_free(quern_worker_list *list);

/* --- Limits ------------------------------------------------------------------------- */

/* What a limit counts. */
typedef enum quern_limit_scope {
    QUERN_LIMIT_QUEUE = 1, /* all tasks of the queue */
    QUERN_LIMIT_TYPE = 2,  /* those of one type, or each type by itself */
    QUERN_LIMIT_KEY = 3,   /* those with one limit_key, or each key by itself */
    /* Those who hold a token of a semaphore: the runs of all queues for which it is set. A queue
     * starts a task while fewer than its own count are held. On Redis the semaphores are those of
     * asynq's x/rate, and handlers of Go that take their tokens themselves count, too. */
    QUERN_LIMIT_SEMAPHORE = 4
} quern_limit_scope;

/* In place of a queue's name: all queues of the broker together, also those that are made later. No
 * queue has such a name. */
#define QUERN_ALL_QUEUES "{all}"

/* How many tasks of a queue may run at a time, over all workers, or how many may start in a
 * period. Workers check it before they take a task, so one that has to wait costs no attempt and no
 * slot. Go's workers know nothing of limits: they do not observe them, and their starts do not
 * count; what they run does, but not for limits of a type or key on a Redis broker. */
typedef struct quern_limit {
    const char *queue; /* or QUERN_ALL_QUEUES */
    const char *name;  /* the type or key; "*": each one that has no limit of its own; the
                       * semaphore; of a queue NULL or "" */
    int32_t scope;     /* a quern_limit_scope */
    int32_t reserved;  /* 0 */
    int64_t count;     /* at a time, 0 to 1 000 000; or starts in each period, from 1 on */
    int64_t period_ms; /* 0: it counts tasks that run; else starts, at most 31 days */
    int64_t burst;     /* of starts: a token bucket with room for so many starts, which fills at the
                        * rate of count per period; 0: a sliding window, so that no period, wherever
                        * it begins, has more starts than count */
    int64_t used;      /* set by quern_limit_list_at: how many run, or how many starts count now; 0
                        * for "*" */
} quern_limit;

/* Sets a limit, or changes it if there is one with this queue, scope and name; one of tasks that
 * run and one of starts may hold beside each other, and so may those of a queue and of all queues.
 * It holds from then on for every worker; runs that have started go on. Makes the queue if there is
 * none. QUERN_E_INVALID. */
QUERN_NODISCARD static inline quern_status quern_inspector_set_limit(quern_inspector *inspector,
                                                                     const quern_limit *limit,
                                                                     quern_error *err);
/* Removes the limits with this queue, scope and name (of a queue NULL). QUERN_E_NOT_FOUND: there is
 * none. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_remove_limit(quern_inspector *inspector,
                                                                    const char *queue,
                                                                    quern_limit_scope scope,
                                                                    const char *name,
                                                                    quern_error *err);

typedef struct quern_limit_list quern_limit_list;
/* The limits of a queue, or with NULL all there are, by queue, scope and name; first those of all
 * queues together, which QUERN_ALL_QUEUES lists alone. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_limits(quern_inspector *inspector,
                                                              const char *queue,
                                                              quern_limit_list **ret_list,
                                                              quern_error *err);
QUERN_API size_t quern_limit_list_size(const quern_limit_list *list);
QUERN_API const quern_limit *quern_limit_list_at(const quern_limit_list *list, size_t index);
QUERN_API void quern_limit_list_free(quern_limit_list *list);

/* --- Entries of schedules ----------------------------------------------------------- */

typedef struct quern_entry_list quern_entry_list;
/* The stored entries by queue and name; queue NULL: of all queues; name NULL: all names. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_entries(quern_inspector *inspector,
                                                               const char *queue, const char *name,
                                                               quern_entry_list **ret_list,
                                                               quern_error *err);
QUERN_API size_t quern_entry_list_size(const quern_entry_list *list);
QUERN_API const quern_entry_info *quern_entry_list_at(const quern_entry_list *list, size_t index);
/* "host:pid:id" of the scheduler that led; "": none did, and no entry was enqueued. */
QUERN_API const char *quern_entry_list_leader(const quern_entry_list *list);
QUERN_API void quern_entry_list_free(quern_entry_list *list);

/* What quern_inspector_put_entry may replace. */
typedef enum quern_entry_put {
    QUERN_ENTRY_ADD = 0, /* nothing: QUERN_E_CONFLICT where the queue has an entry of this name; an
                          * equal one is left as it is */
    QUERN_ENTRY_REPLACE = 1, /* an entry that an operator added */
    QUERN_ENTRY_FORCE = 2 /* also one of a file or a program, which leave it alone from then on */
} quern_entry_put;
/* Stores an entry with its task, which has no id and no process_at_ms, and makes its queue. A new
 * entry has no missed ticks; a replaced one keeps its last tick, its pause and its count of runs.
 * QUERN_E_INVALID: the text names the field and the rule; QUERN_E_NOT_FOUND: this system has no
 * such zone; QUERN_E_CONFLICT: see quern_entry_put; QUERN_E_STATE: the entry is one of a file or a
 * program; QUERN_E_FULL: 10 000 are stored; QUERN_E_UNSUPPORTED: the broker has no
 * priorities, or keeps no limit_key. */
QUERN_NODISCARD static inline quern_status quern_inspector_put_entry(quern_inspector *inspector,
                                                                     const quern_entry *entry,
                                                                     const quern_task *task,
                                                                     quern_entry_put what,
                                                                     quern_error *err);

/* In the next four, queue may be NULL if only one queue has an entry of this name.
 * QUERN_E_NOT_FOUND: no such entry; QUERN_E_STATE: several queues have one, and the text names
 * them. */

typedef enum quern_entry_pause {
    QUERN_ENTRY_PAUSE = 1,
    QUERN_ENTRY_RESUME = 2,   /* ticks of the pause are not missed */
    QUERN_ENTRY_CATCH_UP = 3, /* resumes, and they are missed: the misfire policy decides */
    QUERN_ENTRY_RESET = 4     /* the next tick is the first one from now on, also for an entry that
                               * is not paused, or whose last tick lies ahead of the clock */
} quern_entry_pause;
/* QUERN_E_STATE: also if it is paused already, or is not paused. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_pause_entry(quern_inspector *inspector,
                                                                   const char *queue,
                                                                   const char *name,
                                                                   quern_entry_pause what,
                                                                   quern_error *err);
/* Its history stays for 90 days. QUERN_E_STATE: also for an entry of a file or a program, unless
 * forced: their next change may add it again. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_remove_entry(quern_inspector *inspector,
                                                                    const char *queue,
                                                                    const char *name, bool force,
                                                                    quern_error *err);
/* Enqueues its task now, with the id "NAME@UUID" and without a delay; its ticks stay as they are.
 * The info is for the caller to free; where on_duplicate leaves the task out or puts its data into
 * another one, it is that one's. QUERN_E_DUPLICATE, QUERN_E_FULL as quern_client_enqueue. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_trigger_entry(quern_inspector *inspector,
                                                                     const char *queue,
                                                                     const char *name,
                                                                     quern_task_info **ret_info,
                                                                     quern_error *err);
typedef struct quern_entry_history quern_entry_history;
/* What it did, the newest first, up to 1000 events of 90 days; also for an entry that was removed,
 * if the queue is given. */
QUERN_NODISCARD QUERN_API quern_status
quern_inspector_entry_history(quern_inspector *inspector, const char *queue, const char *name,
                              quern_entry_history **ret_history, quern_error *err);
QUERN_API size_t quern_entry_history_size(const quern_entry_history *history);
QUERN_API const quern_entry_event *quern_entry_history_at(const quern_entry_history *history,
                                                          size_t index);
QUERN_API void quern_entry_history_free(quern_entry_history *history);

/* --- The broker itself -------------------------------------------------------------- */

/* Calls on_fact for each fact: name ("version", "path", "durability", ...) and text, both borrowed
 * for the call. Errors: broker errors. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_broker(
    quern_inspector *inspector, void (*on_fact)(const char *name, const char *text, void *user),
    void *user, quern_error *err);

/* As quern_client_reload_certificates. */
QUERN_NODISCARD QUERN_API quern_status
quern_inspector_reload_certificates(quern_inspector *inspector, quern_error *err);

/* Copies all data into a new file at `path`: a consistent snapshot, while the queues stay in use.
 * QUERN_E_CONFLICT: the file exists. QUERN_E_UNSUPPORTED: the broker is not a file. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_backup(quern_inspector *inspector,
                                                              const char *path, quern_error *err);

/* A newer library may report other values. */
typedef enum quern_severity {
    QUERN_SEVERITY_NOTE = 0,
    QUERN_SEVERITY_WARNING = 1,
    QUERN_SEVERITY_VIOLATED = 2 /* an invariant does not hold */
} quern_severity;

typedef struct quern_finding {
    const char *invariant; /* e.g. "I3" of docs/internals/invariants.md */
    const char *queue;     /* "": the whole broker */
    const char *id;        /* "": no single task */
    const char *text;      /* what is wrong */
    quern_severity severity;
    bool repaired; /* this call repaired it */
    uint8_t reserved[3];
} quern_finding;
/* Checks the invariants of the live data and reports each finding; with repair it repairs what can
 * be repaired without losing a task. Findings are borrowed for the call. Errors: broker errors;
 * findings reported before an error are valid. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_check(
    quern_inspector *inspector, bool repair,
    void (*on_finding)(const quern_finding *finding, void *user), void *user, quern_error *err);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status
quern_inspector_open_sized(const char *url, const quern_inspector_options *options,
                           size_t options_size, quern_inspector **ret_inspector, quern_error *err);
static inline quern_status quern_inspector_open(const char *url,
                                                const quern_inspector_options *options,
                                                quern_inspector **ret_inspector, quern_error *err)
{
    return quern_inspector_open_sized(url, options, sizeof(quern_inspector_options), ret_inspector,
                                      err);
}

QUERN_NODISCARD QUERN_API quern_status quern_inspector_set_limit_sized(quern_inspector *inspector,
                                                                       const quern_limit *limit,
                                                                       size_t limit_size,
                                                                       quern_error *err);
static inline quern_status quern_inspector_set_limit(quern_inspector *inspector,
                                                     const quern_limit *limit, quern_error *err)
{
    return quern_inspector_set_limit_sized(inspector, limit, sizeof(quern_limit), err);
}

/* An entry and its task with their sizes. */
struct quern_entry_put_sized {
    const quern_entry *entry;
    size_t entry_size;
    const quern_task *task;
    size_t task_size;
};
QUERN_NODISCARD QUERN_API quern_status
quern_inspector_put_entry_sized(quern_inspector *inspector, const struct quern_entry_put_sized *put,
                                quern_entry_put what, quern_error *err);
static inline quern_status quern_inspector_put_entry(quern_inspector *inspector,
                                                     const quern_entry *entry,
                                                     const quern_task *task, quern_entry_put what,
                                                     quern_error *err)
{
    const struct quern_entry_put_sized put = {entry, sizeof(quern_entry), task, sizeof(quern_task)};
    return quern_inspector_put_entry_sized(inspector, &put, what, err);
}

QUERN_NODISCARD QUERN_API quern_status quern_inspector_set_queue_sized(
    quern_inspector *inspector, const char *queue, const quern_queue_settings *settings,
    size_t settings_size, quern_error *err);
static inline quern_status quern_inspector_set_queue(quern_inspector *inspector, const char *queue,
                                                     const quern_queue_settings *settings,
                                                     quern_error *err)
{
    return quern_inspector_set_queue_sized(inspector, queue, settings, sizeof(quern_queue_settings),
                                           err);
}

QUERN_NODISCARD QUERN_API quern_status quern_inspector_tasks_sized(quern_inspector *inspector,
                                                                   const quern_task_filter *filter,
                                                                   size_t filter_size,
                                                                   quern_task_list **ret_list,
                                                                   quern_error *err);
static inline quern_status quern_inspector_tasks(quern_inspector *inspector,
                                                 const quern_task_filter *filter,
                                                 quern_task_list **ret_list, quern_error *err)
{
    return quern_inspector_tasks_sized(inspector, filter, sizeof(quern_task_filter), ret_list, err);
}

QUERN_NODISCARD QUERN_API quern_status quern_inspector_act_all_sized(
    quern_inspector *inspector, quern_action action, const quern_task_filter *filter,
    size_t filter_size, uint64_t *ret_count, quern_error *err);
static inline quern_status quern_inspector_act_all(quern_inspector *inspector, quern_action action,
                                                   const quern_task_filter *filter,
                                                   uint64_t *ret_count, quern_error *err)
{
    return quern_inspector_act_all_sized(inspector, action, filter, sizeof(quern_task_filter),
                                         ret_count, err);
}

#ifdef __cplusplus
}
#endif
#endif
