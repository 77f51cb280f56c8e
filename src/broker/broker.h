/* SPDX-License-Identifier: MIT */
/* broker.h - the interface that every broker implements, as client and worker use it. Listing and
 * changing tasks by hand is in inspect.h.
 *
 * Every operation is synchronous, takes a batch, and documents which part of it is one transaction.
 * All operations of a broker object are thread-safe. Those of the pump (exchange), the keeper
 * (extend, recover, ...) and the listener (wait) never wait for each other longer than one batch
 * takes, and extend goes first.
 *
 * Errors are one of: QUERN_E_BUSY, QUERN_E_FULL, QUERN_E_BROKER, QUERN_E_TIMEOUT, QUERN_E_CONNECT,
 * QUERN_E_CORRUPT, QUERN_E_DENIED, QUERN_E_NOMEM: nothing was changed; QUERN_E_UNKNOWN: something
 * may have been changed; the same request sent again with the same stamp takes effect once.
 *
 * Time is the broker's: its wall clock for due times, and for leases a clock that does not jump.
 *
 * Each operation is declared once, as the type of a function: qn_enqueue_fn is the type of
 * qn_broker_enqueue and of qn_sqlite_enqueue.
 *
 * Adding an operation: the recipe in CONTRIBUTING.md. */
#ifndef QN_BROKER_BROKER_H
#define QN_BROKER_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory/slab.h"
#include "base/memory/view.h"
#include "broker/change/task_change.h"
#include "broker/notices.h"
#include "task/isolation.h"
#include "task/task.h"

struct qn_broker;
struct qn_failover_rules;

/* --- Opening ------------------------------------------------------------------------ */

struct qn_broker_options {
    const struct quern_clock *clock; /* NULL: the system's */
    int64_t connect_timeout_ms;      /* 0: 5 s */
    int64_t command_timeout_ms; /* how long one operation may wait for a lock or a reply; 0: 10 s */
    bool create;                /* make the file if there is none */
    const struct qn_failover_rules *failover; /* of servers; NULL: no callbacks, the strategy of the
                                               * URL; see redis/failover/failover.h */
    bool init; /* add our tables to a file that has others (quern db init) */
};

/* url: "sqlite:///path?..." or a plain path. QUERN_E_INVALID: unknown scheme or parameter;
 * QUERN_E_NOT_FOUND: no such file and create is false; QUERN_E_CONNECT: cannot be opened;
 * QUERN_E_CORRUPT: not a database, damaged, or of a newer version; nothing is overwritten. */
QUERN_NODISCARD quern_status qn_broker_open(const char *url,
                                            const struct qn_broker_options *options,
                                            struct qn_broker **ret_broker, quern_error *err);
/* Whether a worker can serve a queue of this name there. Where Go programs enqueue, too, these are
 * all names that they can make (qn_name_check_served), else ours (qn_name_check_queue). Opens
 * nothing. */
QUERN_NODISCARD quern_status qn_broker_check_queue(const char *url, const char *name,
                                                   quern_error *err);
/* Whether there is a queue of this name: QUERN_OK or QUERN_E_NOT_FOUND. Cheap. */
typedef quern_status qn_find_queue_fn(struct qn_broker *broker, const char *queue,
                                      quern_error *err);
QUERN_NODISCARD qn_find_queue_fn qn_broker_find_queue;
/* Whether opening, which failed with this status, may succeed a moment later: a server is down or
 * loading, a file is locked, a disk is full. */
bool qn_broker_may_come(const char *url, quern_status status);
/* Whether its file was removed or replaced while it was in use, which cannot be repaired; err has
 * the reason. Any thread; never blocks. */
typedef bool qn_is_gone_fn(struct qn_broker *broker, quern_error *err);
qn_is_gone_fn qn_broker_is_gone;
bool qn_broker_is_remote(const struct qn_broker *broker);
/* Whether an operation that failed with this status, and changed nothing, is worth another try a
 * moment later. */
bool qn_broker_may_recover(const struct qn_broker *broker, quern_status status);
/* How long an operation may wait for a lock or a reply; it applies to running operations, too.
 * hurries: a user or supervisor waits for this program to start or end, so nothing takes longer
 * than a second or so. */
void qn_broker_set_patience(struct qn_broker *broker, int64_t command_timeout_ms, bool hurries);
/* No operation may be in progress. NULL does nothing; an implementation never gets it. */
typedef void qn_close_fn(struct qn_broker *broker);
qn_close_fn qn_broker_close;

/* QUERN_E_CLOSED with a text when this process is a fork of the one that opened it. */
QUERN_NODISCARD quern_status qn_broker_check_fork(const struct qn_broker *broker, quern_error *err);

/* Makes a lost reply harmless: the broker remembers, per session, the last sequence that took
 * effect and its answer. A second request with the same stamp gets the same answer and changes
 * nothing. Sequence 0: not remembered. Sequences of a session only grow, one request at a time. */
struct qn_stamp {
    uint64_t session; /* random, chosen by the caller for its lifetime */
    uint64_t sequence;
};

/* --- Enqueue ------------------------------------------------------------------------ */

/* At most qn_broker_enqueue_max tasks; in a transaction of the caller at most QN_BATCH_MAX. */
struct qn_enqueue {
    struct qn_stamp stamp; /* not used in a transaction of the caller */
    const struct qn_task *tasks;
    size_t count;
    quern_status *results; /* out: one per task */
    bool *ret_limited;     /* out, may be NULL: set if a QUERN_E_FULL comes from a queue's limit */
    /* Out, for each task: the id of the equal one that holds its lock, where that decided; it is
     * there instead if the result is QUERN_OK. Else NULL. `holders` NULL: not wanted. */
    const char **holders;
    struct qn_arena *arena; /* for these ids; with holders */
    bool *ret_partial;      /* out, may be NULL: set if QUERN_E_UNKNOWN is returned although results
                             * are known: those of tasks with a final one, which stays, while the
                             * others have QUERN_E_BUSY (not stored now) or QUERN_E_UNKNOWN */
    quern_error *ret_few_replicas; /* out, may be NULL: of QUERN_E_NOT_REPLICATED, if any is */
    int64_t deadline_mono_ns;      /* no reply is waited for much longer; 0: as the options say */
};

/* Stores each task whole or not at all: results[i] is QUERN_OK, QUERN_E_DUPLICATE,
 * QUERN_E_CONFLICT, QUERN_E_FULL (the queue has its max_pending tasks, see quern_queue_settings)
 * or, where one transaction does not store them all, the error of its part; or
 * QUERN_E_NOT_REPLICATED: it is stored, but too few replicas confirmed it. Order is kept. The lock
 * is tested before the id; when the id conflicts, no lock is left behind. Wakes sleeping workers.
 */
typedef quern_status qn_enqueue_fn(struct qn_broker *broker, const struct qn_enqueue *enqueue,
                                   quern_error *err);
QUERN_NODISCARD qn_enqueue_fn qn_broker_enqueue;

/* Whether tasks may have a priority; else an enqueue with one is QUERN_E_UNSUPPORTED as a whole. */
bool qn_broker_has_priorities(const struct qn_broker *broker);
/* The text for that. */
quern_status qn_broker_refuse_priority(quern_error *err);

/* QN_BATCH_MAX, or up to QN_ENQUEUE_MAX where it is faster to take more at once. */
size_t qn_broker_enqueue_max(const struct qn_broker *broker);

/* The same inside the caller's transaction `tx` (SQLite: a sqlite3 *). QUERN_E_UNSUPPORTED where a
 * broker has none. Wakes no worker. */
typedef quern_status qn_enqueue_in_fn(struct qn_broker *broker, void *tx,
                                      const struct qn_enqueue *enqueue, quern_error *err);
QUERN_NODISCARD qn_enqueue_in_fn qn_broker_enqueue_in;

/* Wakes all sleeping workers of this broker. */
typedef void qn_wake_fn(struct qn_broker *broker);
qn_wake_fn qn_broker_wake;

/* --- Exchange ----------------------------------------------------------------------- */

/* A leased run: the task, its lease and its past. One block of memory, freed by qn_leased_free. */
struct qn_leased {
    struct qn_task task; /* process_at_ms: when it became due (enqueued, if never delayed) */
    uint64_t token;      /* proves the lease to the broker */
    uint64_t fence;      /* for the handler; grows over all runs of the broker */
    int64_t row;         /* the broker's own hint for finding the task again */
    int64_t leased_at_boot_ms;
    int64_t retry_count;
    int64_t crash_count; /* how often it was charged with a death, see task/deaths.h */
    int64_t level;       /* how much company it may have: struct qn_deaths */
    int64_t life_ms;     /* how long it had lived at a death, at most */
    quern_cause cause;
    uint16_t queue_index; /* into the exchange's queues */
    bool started;         /* known to the broker as started */
};
/* A deep copy in one block of the slab (NULL: of its own); NULL when memory is out. */
QUERN_NODISCARD struct qn_leased *qn_leased_copy(struct qn_slab *slab,
                                                 const struct qn_leased *leased);
void qn_leased_free(struct qn_leased *leased);
/* The error of a task that is archived instead of leased, because its deadline or the moment by
 * which it must have started is over; NULL: it may be leased. */
const char *qn_leased_why_late(const struct qn_leased *leased, int64_t now_ms);

/* If you add one: the recipe in CONTRIBUTING.md. */
enum qn_outcome_kind {
    QN_DONE,      /* deleted, or completed for its retention; lock freed; processed +1 */
    QN_DROP,      /* deleted; lock freed; processed +1 */
    QN_RETRY,     /* to retry at delay_ms, archived when attempts are used up; retry_count +1;
                   * processed +1, failed +1; lock kept */
    QN_SNOOZE,    /* to retry at delay_ms; nothing counted; lock kept */
    QN_ARCHIVE,   /* archived; processed +1, failed +1; lock kept */
    QN_GIVE_BACK, /* to pending at its old place, before all that came later; nothing counted. With
                   * a change of its queue: to retry there, due at once */
    QN_CRASH,     /* its process died (a child or a command, so alone): charged if `started`, a
                   * death for the brake of its queue on the worker's host; task/deaths.h decides
                   * where the task goes. Not started: as give-back. */
    QN_CANCEL,    /* cancelled by an operator who chose archive: as QN_ARCHIVE */
    QN_ASIDE,     /* this worker has no handler for it: to retry at delay_ms, otherwise unchanged,
                   * its cause included; nothing is counted, no brake is released; lock kept */
    QN_ENDED      /* it was acked early and has ended now: releases a brake, nothing else */
};
#define QN_OUTCOME_KINDS (QN_ENDED + 1) /* how many; the last one stands here */

struct qn_outcome {
    const struct qn_leased *run;
    enum qn_outcome_kind kind;
    bool started;                     /* its handler was called; else its end releases no brake */
    quern_cause cause;                /* give-back and crash: why the next run will happen */
    int64_t delay_ms;                 /* retry, snooze and aside */
    int64_t lived_ms;                 /* how long the run lived; 0 if it never started */
    int64_t ago_ms;                   /* how long ago it ended */
    const struct qn_run_facts *facts; /* of its process; NULL: none */
    const char *error;  /* NULL: none; valid UTF-8, at most QN_ERROR_TEXT_SIZE_MAX bytes */
    const void *result; /* done: replaces the result when has_result */
    size_t result_size;
    bool has_result;
    const struct qn_task_change *change; /* retry, snooze and give-back; NULL: none */
};

/* Whether the task has started by then: it need not start by a moment any more. Started or not, a
 * run that is put aside leaves its task as it was. */
static inline bool qn_outcome_has_begun(const struct qn_outcome *outcome)
{
    return outcome->kind == QN_RETRY || (outcome->started && outcome->kind != QN_ASIDE);
}

enum qn_applied {
    QN_APPLIED = 0,
    QN_STALE,    /* the token is no longer valid: nothing was changed */
    QN_SALVAGED, /* done: the lease was lost, but the task had not started since: counted once */
    QN_ARCHIVED, /* retry or crash: applied, and the task is now in the archive */
    QN_UNMOVED   /* applied with its change, but the task is still in its queue: the other one has a
                  * task with its id, or with its lock, or cannot take one */
};

struct qn_queue_share { /* one queue's part in an exchange */
    const char *name;
    uint32_t weight; /* for the redraw; strict: not used, order is that of the array */
    uint32_t quota;  /* runs drawn for it */
    uint32_t leased; /* out */
    bool paused;     /* out */
    bool braked;     /* out: on the host of the exchange */
    uint32_t deaths; /* out: in a row on that host */
    int64_t wait_ms; /* out: until a probe or a solo lock can be had; 0: no task waits for one */
    bool skip;       /* not asked, as a part of an earlier exchange is unanswered; out: as before */
    bool unasked;    /* out, with in_rows: it was not asked, so what is out says nothing */
    bool unanswered; /* out, see qn_exchange_reply */
};

/* For a task that must run alone (qn_isolation_is_solo) a worker takes the solo lock of its queue,
 * lets its other runs end, runs it and returns the lock. The queue rests as long as it was held. */
enum qn_solo {
    QN_SOLO_NONE = 0,
    QN_SOLO_ASK, /* take the lock of a queue where a task waits that must be alone, unless the queue
                  * is paused, rests or is braked with no probe due: leases nothing. No such queue:
                  * leases as usual. */
    QN_SOLO_KEEP, /* extend the lock; leases nothing */
    QN_SOLO_RUN,  /* extend it, and lease the one task (of a braked queue: as its probe), if any */
    QN_SOLO_END   /* return it; then leases as usual */
};

/* A task that another program stored, and that no worker can run. */
struct qn_unusable {
    const char *queue;
    const char *id; /* up to its first NUL */
    const char *why;
};

struct qn_exchange {
    struct qn_stamp stamp;
    const struct qn_outcome *outcomes;
    size_t outcome_count; /* at most QN_BATCH_MAX */
    /* Prefetched runs that have started since: from now on a crash is charged to them. */
    const struct qn_leased *const *starts;
    size_t start_count;
    const char *worker_id; /* its first heartbeat came before */
    const char *host;      /* as in the heartbeat: whose brakes hold */
    bool is_leaving;       /* the worker drains: an end releases no brake and charges no task */
    int64_t lease_ms;
    struct qn_queue_share *queues; /* in and out */
    size_t queue_count;
    bool strict;
    bool in_rows;  /* queues without a quota need not be asked while the others give enough */
    uint32_t room; /* lease at most this many; at most QN_BATCH_MAX; 0: none */
    /* How many of the leased runs are marked as started: first all of charged tasks, which are
     * leased only within this number, then others in their order. */
    uint32_t start_count_now;
    struct qn_isolation isolation; /* how many runs of charged tasks the worker may have */
    enum qn_solo solo;
    /* Keep, run and end: the queue of the lock. Out, after ask: the queue whose lock was taken;
     * queue_count: none. After keep and run: queue_count when the lock was lost. */
    uint32_t solo_queue;
    /* Below qn_broker_exchanges_max. Those in flight at the same time have different ones, else one
     * waits for the other. It may change when the same request is sent again. */
    uint32_t channel;
    /* Called for each task that was archived instead of leased because its message cannot be used;
     * may be NULL. It must not use the broker. */
    void (*on_unusable)(const struct qn_unusable *unusable, void *user);
    void *user;
    /* Out, when the exchange failed: an earlier copy of it may still be on its way. */
    bool again;
};

struct qn_exchange_reply {
    enum qn_applied *applied; /* the caller's array, one per outcome */
    struct qn_leased **runs;  /* the caller's array of `room`; by queue, FIFO within a queue; the
                               * caller frees each with qn_leased_free */
    size_t run_count;
    /* Tasks past their deadline, or not started in time, that were archived instead of leased. On
     * Redis, after a reply was lost, the repeat does not know those of the first request: they are
     * not counted. */
    size_t late_count;
    bool more; /* it ended early, and there may be more to lease: exchange again at once */
    /* Where queues are at several servers (a cluster), and one of these does not answer in time,
     * the others' answers count: then is_partial is set. These are the outcomes and, behind them,
     * the starts of the queues that got no answer. They may have taken effect, and are sent again
     * with the same stamp, without those of other queues; until then nothing newer of these queues
     * is sent. No run of such a queue is in `runs`. The status is QUERN_OK with the reason in err,
     * or a failure if no queue was answered. The caller's array; NULL: all or nothing. */
    bool *unanswered;
    bool is_partial;
};

/* In one transaction: applies each outcome whose token is still valid, records the starts, then
 * leases. A task past its deadline, or past the moment by which it must have started, is archived
 * instead of leased (qn_leased_why_late, processed +1, failed +1): about QN_PRUNE_BATCH_MAX of them
 * at most, then `more` is set. A task whose message cannot be used is archived, too. Paused queues
 * give nothing. */
typedef quern_status qn_exchange_fn(struct qn_broker *broker, struct qn_exchange *exchange,
                                    struct qn_exchange_reply *reply, quern_error *err);
QUERN_NODISCARD qn_exchange_fn qn_broker_exchange;

/* How many exchanges are worth having in flight at a time: 1, or QN_EXCHANGES_MAX at a server. */
uint32_t qn_broker_exchanges_max(const struct qn_broker *broker);
/* Whether an exchange asks each queue by a call of its own: then one of few queues is cheaper. */
bool qn_broker_asks_apart(const struct qn_broker *broker);

/* --- Leases ------------------------------------------------------------------------- */

enum qn_cancel { QN_CANCEL_NONE = 0, QN_CANCEL_RETRY = 1, QN_CANCEL_ARCHIVE = 2 };

struct qn_extension {
    const struct qn_leased *run;
    bool held;             /* out: false: the lease is lost */
    bool unanswered;       /* out: its server did not answer in time, the others did: the rest of
                            * this is not known */
    enum qn_cancel cancel; /* out: its cancellation was requested */
};
/* Extends the leases still held to lease_ms from now; the token stays. Goes before everything else,
 * on a channel of its own where there are channels; count 0 only opens that channel. */
typedef quern_status qn_extend_fn(struct qn_broker *broker, struct qn_extension *extensions,
                                  size_t count, int64_t lease_ms, quern_error *err);
QUERN_NODISCARD qn_extend_fn qn_broker_extend;

/* Replaces the result. QUERN_E_STALE when the lease is lost. */
typedef quern_status qn_write_result_fn(struct qn_broker *broker, const struct qn_leased *run,
                                        struct qn_bytes result, quern_error *err);
QUERN_NODISCARD qn_write_result_fn qn_broker_write_result;

/* The same with the progress; percent >= 0, note may be NULL. */
typedef quern_status qn_write_progress_fn(struct qn_broker *broker, const struct qn_leased *run,
                                          int32_t percent, const char *note, quern_error *err);
QUERN_NODISCARD qn_write_progress_fn qn_broker_write_progress;

/* --- Upkeep ------------------------------------------------------------------------- */

/* Which queues an operation of the keeper looks after. */
struct qn_upkeep {
    struct qn_names queues;
    size_t limit; /* tasks that one call may change */
};

/* Moves up to `limit` due scheduled and retry tasks of the queues to pending (their tail); those
 * that have a group join it, as if they had come now.
 * ret_next_due_at_ms: when the next is due, wall clock; INT64_MAX: none known. */
typedef quern_status qn_forward_fn(struct qn_broker *broker, struct qn_upkeep upkeep,
                                   size_t *ret_moved, int64_t *ret_next_due_at_ms,
                                   quern_error *err);
QUERN_NODISCARD qn_forward_fn qn_broker_forward;

struct qn_recovery {
    const char *queue;
    const char *id;
    quern_cause cause;
    bool charged;  /* with a death */
    bool archived; /* as poison, or because no attempts are left */
};
struct qn_recovery_sink {
    void (*on_recovery)(const struct qn_recovery *recovery, void *user);
    void *user;
};
/* Ends up to `limit` leases that expired, or whose worker's process is known to be gone (same
 * kernel and pid namespace, see owner.h); leases of Go workers in their grace period are skipped.
 * All started runs of a dead worker are charged, as one death for each queue's brake on its host;
 * the charge is a lone one if the worker had started no other run in any queue. No task is charged
 * if the worker was draining or quiet, if the host has rebooted, or if the owner of an expired
 * lease is alive (its process, or its heartbeat: then the cause is QUERN_CAUSE_LEASE_EXPIRED). A
 * started run whose task has no attempts left is archived, whatever the cause. Frees the solo locks
 * of dead workers. Also repairs orphans (active without lease and the like). sink may be NULL. */
typedef quern_status qn_recover_fn(struct qn_broker *broker, struct qn_upkeep upkeep,
                                   const struct qn_recovery_sink *sink, size_t *ret_recovered,
                                   quern_error *err);
QUERN_NODISCARD qn_recover_fn qn_broker_recover;

/* Removes up to `limit` tasks: completed past their retention, archived beyond QN_ARCHIVE_SIZE_MAX
 * or QN_ARCHIVE_AGE_MS (counted in trimmed_total), locks, sessions, days and brakes past their
 * time. ret_removed == limit: there may be more. Damaged queues stop no others: QUERN_E_CORRUPT,
 * and ret_removed is set all the same. */
typedef quern_status qn_prune_fn(struct qn_broker *broker, struct qn_upkeep upkeep,
                                 size_t *ret_removed, quern_error *err);
QUERN_NODISCARD qn_prune_fn qn_broker_prune;

/* --- Waiting ------------------------------------------------------------------------ */

/* Arms a wake-up for everything that could make work in these queues: a new pending task, the end
 * of a pause, a delayed task due before the next known one. *ret_work says whether there is work
 * after that (then do not sleep), *ret_next_due_at_ms when a delayed task becomes due. A change
 * that sends no message is found within a second nevertheless, by wait or by recover (which the
 * worker calls each second), and ends wait. */
typedef quern_status qn_arm_fn(struct qn_broker *broker, struct qn_names queues, bool *ret_work,
                               int64_t *ret_next_due_at_ms, quern_error *err);
QUERN_NODISCARD qn_arm_fn qn_broker_arm;

struct qn_wakeup {
    bool work;                         /* something changed since arm */
    char command[QN_COMMAND_SIZE_MAX]; /* for some worker; "": none */
    enum qn_cancel cancel;             /* not QN_CANCEL_NONE: cancel this run */
    char queue[QN_SERVED_NAME_SIZE_MAX + 1];
    char id[QN_NAME_SIZE_MAX + 1];
};
/* Blocks the listener until a wake-up, a cancellation or qn_broker_interrupt comes, or timeout_ms
 * of real time have passed (then the wake-up is empty). One thread at a time. */
typedef quern_status qn_wait_fn(struct qn_broker *broker, int64_t timeout_ms,
                                struct qn_wakeup *ret_wakeup, quern_error *err);
QUERN_NODISCARD qn_wait_fn qn_broker_wait;

/* Any thread; async-signal-safe. */
typedef void qn_interrupt_fn(struct qn_broker *broker);
qn_interrupt_fn qn_broker_interrupt;

/* --- Waiting for one task ----------------------------------------------------------- */

/* For clients: arms a notice of the end of this task. It may come for other changes, too, also more
 * than once, and may rarely be lost: read the task after each call, and each second; after a notice
 * watch it again. Any thread. QUERN_E_UNSUPPORTED: there can be no notices here, and the text says
 * why. On a broker object that watches, arm and wait are not called. */
typedef quern_status qn_watch_fn(struct qn_broker *broker, const char *queue, const char *id,
                                 quern_error *err);
QUERN_NODISCARD qn_watch_fn qn_broker_watch;

/* Blocks until there are notices or timeout_ms of real time have passed. They name tasks by
 * qn_notices_task, also some that are not watched, or all. Notices that came before the call count.
 * One thread at a time. */
typedef quern_status qn_await_fn(struct qn_broker *broker, int64_t timeout_ms,
                                 struct qn_notices *ret_notices, quern_error *err);
QUERN_NODISCARD qn_await_fn qn_broker_await;

/* --- The worker's record ------------------------------------------------------------ */

/* A run that the worker has started; all borrowed. */
struct qn_heartbeat_run {
    const char *task_id;
    const char *task_type;
    const void *payload; /* a broker may show the beginning of it */
    size_t payload_size;
    const char *queue;
    int64_t started_at_ms;
    int64_t deadline_at_ms; /* 0: none */
};

/* Two more fields follow the queues of a heartbeat, each after this sign: the state, and the types
 * that the worker serves. The state: how many handlers hang, for how many ms its requests for tasks
 * have had no answer (-1: there were none), and its answer to the last command. */
#define QN_HEARTBEAT_SEPARATOR '\x1f'

struct qn_heartbeat {
    const char *worker_id; /* unique for the life of the worker */
    const char *owner;     /* from qn_owner_self: boot id, pid namespace, pid, start time */
    const char *host;
    const char *status; /* "active", "quiet", "draining", "braked", "stuck", "stalled" */
    const char *queues; /* "critical=6 default=3" and two fields, see QN_HEARTBEAT_SEPARATOR */
    int64_t pid;
    int64_t started_at_ms;
    uint32_t concurrency;
    bool strict;
    const struct qn_queue_share *queue_shares; /* so that the queues exist and are listed */
    size_t queue_count;
    const struct qn_heartbeat_run *runs; /* for brokers that cannot see them in the tasks */
    size_t run_count;
};
/* Writes the heartbeat; before the first exchange, then every few seconds. */
typedef quern_status qn_heartbeat_fn(struct qn_broker *broker, const struct qn_heartbeat *heartbeat,
                                     quern_error *err);
QUERN_NODISCARD qn_heartbeat_fn qn_broker_heartbeat;

/* Removes the record. */
typedef quern_status qn_deregister_fn(struct qn_broker *broker, const char *worker_id,
                                      quern_error *err);
QUERN_NODISCARD qn_deregister_fn qn_broker_deregister;

enum qn_until {
    QN_UNTIL_EMPTY, /* no task is pending, active (anywhere), scheduled or in retry, and no set of
                     * a group is being aggregated (anywhere). Tasks in groups do not count: who
                     * aggregates them empties those (qn_aggregate_reply.waiting) */
    QN_UNTIL_IDLE   /* no task is pending but in queues that are paused */
};
/* Whether the queues hold nothing that a worker which ends then would still have to run. */
typedef quern_status qn_drained_fn(struct qn_broker *broker, struct qn_names queues,
                                   enum qn_until until, bool *ret_drained, quern_error *err);
QUERN_NODISCARD qn_drained_fn qn_broker_drained;

#endif
