/* SPDX-License-Identifier: MIT */
/* schedule.h - the part of a broker's interface that schedulers use: entries, their ticks, and
 * which scheduler leads.
 *
 * An entry is enqueued by the clock: its cron expression has moments, its ticks. An entry belongs
 * to one queue, and its name is unique there. The broker knows nothing of cron: the leading
 * scheduler (src/schedule) finds the ticks, and the broker enqueues the task of a tick and advances
 * the entry's last tick in one step. Of any number of schedulers, one enqueues a tick.
 *
 * It belongs to broker.h, whose rules and errors hold here, too. Ticks are seconds since the epoch
 * (tick_s), all other moments ms. Time is the broker's wall clock, for the lease of the leader one
 * that does not jump. QUERN_E_UNSUPPORTED: the broker has no such operation. */
#ifndef QN_BROKER_SCHEDULE_SCHEDULE_H
#define QN_BROKER_SCHEDULE_SCHEDULE_H

#include "broker/broker.h"
#include "broker/owner.h"

#define QN_ENTRY_NAME_SIZE_MAX 128
#define QN_ENTRY_SIZE_MAX ((size_t)1 << 20) /* of a definition: each scheduler loads it */
#define QN_ENTRIES_MAX 10000                /* of a broker: each scheduler loads them all */
#define QN_ZONE_SIZE_MAX 255                /* a name of the zone database, or a TZ text */
#define QN_ORIGIN_SIZE_MAX 4200             /* "file:" and a path */
#define QN_LEADER_ID_SIZE_MAX 400           /* "host:pid:id" */
#define QN_LEAD_MS_MAX 60000                /* the lease of the leader */
#define QN_MISFIRE_MAX 1000                 /* ticks caught up at once */
#define QN_JITTER_MS_MAX (24 * 3600 * INT64_C(1000))
#define QN_TICK_HISTORY_MAX 1000 /* events of an entry, as asynq */
#define QN_TICK_HISTORY_MS (90 * 24 * 3600 * INT64_C(1000))

/* 1 to 128 bytes of visible ASCII, without { } / and ". */
QUERN_NODISCARD quern_status qn_schedule_check_name(const char *name, quern_error *err);

/* --- Entries ------------------------------------------------------------------------ */

/* What happens to missed ticks. */
enum qn_misfire {
    QN_MISFIRE_SKIP = 1, /* none is enqueued, but the newest if it is still on time */
    QN_MISFIRE_ONCE = 2, /* the newest */
    QN_MISFIRE_ALL = 3   /* the newest misfire_max */
};

struct qn_schedule_entry {
    const char *name;
    /* Its queue is the entry's; it has no id (NULL). Moments and durations are stored as they are,
     * in the form of template.h; the scheduler makes the task of a tick from it. */
    struct qn_task task;
    const char *origin; /* "cli", "file:PATH", "code:PROGRAM" */
    const char *cron;
    const char *zone;  /* "": the one in the cron text, else UTC */
    bool with_seconds; /* the cron text has six fields */
    enum qn_misfire misfire;
    uint32_t misfire_max; /* 1 to QN_MISFIRE_MAX */
    int64_t late_ms;      /* up to this long after its moment a tick is on time */
    int64_t jitter_ms;
    /* What follows is the broker's; put reads last_s only. */
    uint64_t revision; /* new with each change; never one of an earlier entry of this name */
    int64_t created_at_ms;
    int64_t paused_at_ms; /* 0: it is not paused */
    int64_t last_s;       /* ticks up to this one are done with */
    uint64_t runs;        /* ticks and triggers that were enqueued */
    const char *fault;    /* in a listing; not NULL: why its definition cannot be read; then only
                           * name, task.queue and the broker's fields are set */
};

/* Its name, the sizes of its texts, its numbers; not its task. QUERN_E_INVALID. */
QUERN_NODISCARD quern_status qn_schedule_check_entry(const struct qn_schedule_entry *entry,
                                                     quern_error *err);

/* QUERN_E_UNSUPPORTED: the task has a priority or a limit_key, and the broker has none: the text
 * begins with the name of the field. */
QUERN_NODISCARD quern_status qn_schedule_check_offered(const struct qn_broker *broker,
                                                       const struct qn_task *task,
                                                       quern_error *err);

/* put and remove: which stored entry is expected. */
#define QN_REVISION_NONE 0         /* none of this name */
#define QN_REVISION_ANY UINT64_MAX /* any, or none */

enum qn_put_result {
    QN_PUT_ADDED = 0,
    QN_PUT_REPLACED,
    QN_PUT_SAME,    /* the stored definition is equal, whatever was expected: not touched */
    QN_PUT_EXISTS,  /* QN_REVISION_NONE was expected */
    QN_PUT_CHANGED, /* another revision was expected */
    QN_PUT_GONE,    /* a revision was expected, and there is no entry */
    QN_PUT_FULL     /* QN_ENTRIES_MAX are stored */
};

struct qn_put {
    const struct qn_schedule_entry *entry;
    uint64_t expected;         /* a revision, QN_REVISION_NONE or QN_REVISION_ANY */
    enum qn_put_result result; /* out */
    uint64_t revision;         /* out: the stored one; 0: none */
};

/* Adds or replaces up to QN_BATCH_MAX entries, and makes their queues. A new one has the last tick
 * entry->last_s, or if that is 0 the broker's now, so that nothing is caught up. A replaced one
 * keeps its last tick (at least the broker's now if cron, zone or with_seconds have changed), its
 * pause, its creation and its runs. QUERN_E_INVALID: a name that is none, a number out of its
 * range, or a definition longer than QN_ENTRY_SIZE_MAX; QUERN_E_UNSUPPORTED: see
 * qn_schedule_check_offered; nothing was changed. */
typedef quern_status qn_schedule_put_fn(struct qn_broker *broker, struct qn_put *puts, size_t count,
                                        quern_error *err);
QUERN_NODISCARD qn_schedule_put_fn qn_schedule_put;

struct qn_entry_key {
    const char *queue;
    const char *name;
    uint64_t revision; /* QN_REVISION_ANY, or the one expected */
};

/* Its history stays for its time. QUERN_E_NOT_FOUND; QUERN_E_CONFLICT: another revision. */
typedef quern_status qn_schedule_remove_fn(struct qn_broker *broker, const struct qn_entry_key *key,
                                           quern_error *err);
QUERN_NODISCARD qn_schedule_remove_fn qn_schedule_remove;

enum qn_entry_pause {
    QN_ENTRY_PAUSE = 1,
    QN_ENTRY_RESUME,   /* the last tick is the broker's now, unless it lies ahead of it: the
                           * ticks of the pause are not missed */
    QN_ENTRY_CATCH_UP, /* resumes with the last tick as it is: they are missed */
    QN_ENTRY_RESET     /* as resume, and also sets back a last tick that lies ahead; for an entry
                           * that is not paused, too */
};

/* QUERN_E_NOT_FOUND; QUERN_E_STATE: it is paused already, or is not paused; QUERN_E_CONFLICT:
 * another revision. */
typedef quern_status qn_schedule_pause_fn(struct qn_broker *broker, const struct qn_entry_key *key,
                                          enum qn_entry_pause what, quern_error *err);
QUERN_NODISCARD qn_schedule_pause_fn qn_schedule_pause;

struct qn_entry_filter {
    const char *queue; /* NULL: all */
    const char *name;  /* NULL: all */
};

/* Reports each entry once, in no order, until on_entry returns false, which must not use the
 * broker. Reads them in pages, so that no writer waits long; one that is changed meanwhile may be
 * reported as it was or is. */
typedef quern_status qn_schedule_list_fn(struct qn_broker *broker,
                                         const struct qn_entry_filter *filter,
                                         bool (*on_entry)(const struct qn_schedule_entry *entry,
                                                          void *user),
                                         void *user, quern_error *err);
QUERN_NODISCARD qn_schedule_list_fn qn_schedule_list;

/* --- The leader --------------------------------------------------------------------- */

enum qn_lead_what {
    QN_LEAD_LOOK = 0, /* changes nothing */
    QN_LEAD_TAKE,     /* if there is no leader, its lease is over, or its process is known to be
                       * dead (owner.h); for the leader itself as renew */
    QN_LEAD_RENEW,
    QN_LEAD_GIVE_BACK
};

struct qn_lead {
    enum qn_lead_what what;
    const char *owner; /* from qn_owner_self */
    const char *id;    /* "host:pid:id" of this scheduler, unique for its life */
    int64_t lease_ms;  /* take and renew; at most QN_LEAD_MS_MAX */
};

struct qn_lead_reply {
    bool leads;     /* the caller leads now */
    uint64_t epoch; /* of the leader, or of the last one; a new leader has a greater one than all
                     * before; 0: there was none */
    char owner[QN_OWNER_SIZE];
    char id[QN_LEADER_ID_SIZE_MAX + 1]; /* of the leader; "": none leads now */
    int64_t lease_left_ms;              /* 0: none leads, or its lease is over */
    uint64_t version; /* differs from before if any entry was put, removed, paused or resumed */
    int64_t now_ms;   /* the broker's wall clock */
};

typedef quern_status qn_schedule_lead_fn(struct qn_broker *broker, const struct qn_lead *lead,
                                         struct qn_lead_reply *ret_reply, quern_error *err);
QUERN_NODISCARD qn_schedule_lead_fn qn_schedule_lead;

/* A new leader calls it before its first tick: from then on no queue takes a tick of an earlier
 * epoch. QUERN_E_STATE: there is a later one. */
typedef quern_status qn_schedule_claim_fn(struct qn_broker *broker, uint64_t epoch,
                                          quern_error *err);
QUERN_NODISCARD qn_schedule_claim_fn qn_schedule_claim;

/* --- Ticks -------------------------------------------------------------------------- */

/* Of a tick as the scheduler sends it, and as the history has it. Stored: never renumber. */
enum qn_tick_what {
    QN_TICK_ENQUEUE = 1,   /* on time */
    QN_TICK_LATE = 2,      /* enqueued as a missed one */
    QN_TICK_SKIP = 3,      /* passed over: the last tick is advanced only */
    QN_TICK_VETO = 4,      /* the same: a hook has refused it */
    QN_TICK_DUPLICATE = 5, /* history only: a task with its unique lock was there */
    QN_TICK_CONFLICT = 6,  /* history only: a task with its id was there */
    QN_TICK_MANUAL = 7,    /* history only: a trigger */
    QN_TICK_REPLACED = 8   /* history only: on_duplicate put its data into the task that had its
                            * unique lock, with its id; of a tick or, with tick_s 0, of a trigger */
};

enum qn_tick_result {
    QN_TICKED = 1,       /* enqueued, or for skip and veto advanced */
    QN_TICKED_DUPLICATE, /* advanced; the task was not stored, as its lock is held */
    QN_TICKED_CONFLICT,  /* advanced; there is a task with this id */
    QN_TICKED_REPLACED,  /* advanced; on_duplicate put its data into the one that holds its lock */
    /* Nothing was changed: */
    QN_TICK_STALE,   /* there is a later epoch: of all ticks of the call */
    QN_TICK_GONE,    /* no such entry */
    QN_TICK_CHANGED, /* another revision */
    QN_TICK_PAUSED,
    QN_TICK_PAST,  /* the last tick is not known_s, or tick_s is not after it */
    QN_TICK_EARLY, /* ahead of the broker's clock */
    QN_TICK_FULL,  /* its queue has its max_pending tasks */
    QN_TICK_FAILED /* its data are damaged; or, where each queue is a transaction of its own, the
                    * broker has refused that of this queue, and others have taken effect */
};

struct qn_tick {
    const char *queue;
    const char *name;
    uint64_t revision;
    int64_t known_s;            /* the last tick, as the caller knows it */
    int64_t tick_s;             /* the new one */
    uint32_t skipped;           /* ticks between them that are passed over */
    enum qn_tick_what what;     /* enqueue, late, skip or veto */
    const struct qn_task *task; /* in this queue; NULL for skip and veto */
    enum qn_tick_result result; /* out */
    int64_t stored_s;           /* out: the last tick that is stored now; 0: stale or gone */
};

struct qn_ticks {
    struct qn_stamp stamp;
    uint64_t epoch;
    struct qn_tick *ticks;
    size_t count;   /* at most QN_BATCH_MAX */
    int64_t now_ms; /* out: the broker's wall clock; a repeated request may get 0 */
};

/* The ticks in their order: several of one entry may follow each other, each with the one before as
 * known_s. on_duplicate of a task does what it does in enqueue; as no caller waits for the result
 * of a tick, FAIL and IGNORE are the same there. All ticks of one queue are one transaction; each
 * is enqueued and its entry advanced, or neither. Tests epoch, entry, revision, pause, last tick
 * and clock in the order of the results above. Wakes sleeping workers. */
typedef quern_status qn_schedule_tick_fn(struct qn_broker *broker, struct qn_ticks *ticks,
                                         quern_error *err);
QUERN_NODISCARD qn_schedule_tick_fn qn_schedule_tick;

struct qn_trigger {
    struct qn_stamp stamp;
    const char *name;
    const struct qn_task *task; /* in the entry's queue */
    /* Out: the id of the task that on_duplicate settled it with; NULL: it was stored. May be NULL,
     * else with the arena for it. */
    const char **ret_holder;
    struct qn_arena *arena;
};

/* Enqueues a task by hand: the last tick stays, runs +1, and the history has it; where on_duplicate
 * replaces another one, the history only, and where it is left out, nothing. QUERN_E_NOT_FOUND: no
 * such entry; QUERN_E_DUPLICATE, QUERN_E_CONFLICT as enqueue. */
typedef quern_status qn_schedule_trigger_fn(struct qn_broker *broker,
                                            const struct qn_trigger *trigger, quern_error *err);
QUERN_NODISCARD qn_schedule_trigger_fn qn_schedule_trigger;

/* --- History ------------------------------------------------------------------------ */

struct qn_tick_event {
    int64_t tick_s; /* 0: manual */
    int64_t at_ms;
    enum qn_tick_what what;
    uint32_t skipped; /* ticks before it that were passed over */
    const char *id;   /* of the task; "": none was stored or changed */
};

/* The newest first, of an entry that is stored or was removed. */
typedef quern_status qn_schedule_history_fn(
    struct qn_broker *broker, const struct qn_entry_key *key,
    bool (*on_event)(const struct qn_tick_event *event, void *user), void *user, quern_error *err);
QUERN_NODISCARD qn_schedule_history_fn qn_schedule_history;

/* --- The record of the leader, for programs of others ------------------------------- */

struct qn_record_row {
    const struct qn_schedule_entry *entry;
    int64_t next_s; /* 0: never */
    int64_t prev_s; /* the last one that was enqueued; 0: none */
};

struct qn_record {
    const char *id; /* of the leader */
    const struct qn_record_row *rows;
    size_t count; /* 0: the record is removed */
    int64_t ttl_s;
};

/* What Go's Inspector lists as the entries of this scheduler. Nothing where no other program looks.
 */
typedef quern_status qn_schedule_record_fn(struct qn_broker *broker, const struct qn_record *record,
                                           quern_error *err);
QUERN_NODISCARD qn_schedule_record_fn qn_schedule_record;

#endif
