/* SPDX-License-Identifier: MIT */
/* quern/entry.h - entries: tasks that are enqueued by the clock.
 *
 * An entry has a name, a cron expression and a task, and is stored in the broker. Its ticks are the
 * moments of the expression. Schedulers enqueue a task for each tick; operators list and change the
 * stored entries (quern_inspector_entries and the others in quern/inspector.h). */
#ifndef QUERN_ENTRY_H
#define QUERN_ENTRY_H

#include "quern/task.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero means the default in every field. */
typedef struct quern_entry {
    const char *name; /* unique in the queue: 1 to 128 bytes of visible ASCII without { } / " */
    const char *cron; /* "30 2 * * *"; with six fields the first one is the second; "@every 90s" */
    const char *zone; /* "Europe/Berlin"; NULL: the one in cron, else that of the scheduler */
    const char *misfire; /* what happens to missed ticks: "skip", "once" (the newest one; the
                          * default), or "all N": the newest N, at most 1000 */
    int64_t late_ms;     /* a tick is missed when it is later than this; 0: 1 minute; -1: at once */
    int64_t jitter_ms;   /* delays each task by a time below this, at most a day */
} quern_entry;

/* A stored entry. Its fields may be copied into a quern_entry, and stored again with its task. */
typedef struct quern_entry_info {
    const char *name;
    const char *queue;
    const char *type; /* of its task */
    const char *cron;
    const char *zone;   /* "": the one in cron, else UTC */
    const char *origin; /* "cli", "file:PATH", "code:PROGRAM" */
    const char *fault;  /* why it is not enqueued; NULL: nothing is wrong */
    int64_t created_at_ms;
    int64_t paused_at_ms; /* 0: it is not paused */
    int64_t last_at_ms;   /* ticks up to this moment are done with */
    uint64_t run_count;   /* tasks of it that were enqueued */
    int64_t next_at_ms;   /* the tick after last_at_ms; in the past: no scheduler has enqueued it
                           * yet; 0: none, or it is paused */
    const char *misfire;  /* as in quern_entry */
    int64_t late_ms;      /* as in quern_entry, never 0 */
    int64_t jitter_ms;
    const quern_task *task; /* without id; all durations count from the tick */
} quern_entry_info;

/* How an event of an entry came about, and what it did. A newer library may report others. */
typedef enum quern_entry_event_kind {
    QUERN_ENTRY_ENQUEUED = 1,  /* on time */
    QUERN_ENTRY_LATE = 2,      /* a missed tick, enqueued by the misfire policy */
    QUERN_ENTRY_SKIPPED = 3,   /* missed ticks, not enqueued */
    QUERN_ENTRY_VETOED = 4,    /* refused by a hook */
    QUERN_ENTRY_DUPLICATE = 5, /* not enqueued: an equal task held its unique lock */
    QUERN_ENTRY_CONFLICT = 6,  /* not enqueued: there was a task with its id */
    QUERN_ENTRY_TRIGGERED = 7, /* by hand */
    QUERN_ENTRY_REPLACED = 8   /* its on_duplicate put its data into the task that held the lock: id
                                * is that one's; by a tick, or by hand if that is 0 */
} quern_entry_event_kind;

/* "enqueued", "late", ...; a static string; NULL for a number that is no kind. */
QUERN_API const char *quern_entry_event_kind_name(quern_entry_event_kind kind);

typedef struct quern_entry_event {
    int64_t tick_at_ms; /* the moment of the entry; 0: triggered by hand */
    int64_t at_ms;      /* when it happened */
    const char *id;     /* of the task; "": none was stored or changed */
    int32_t kind;       /* a quern_entry_event_kind */
    uint32_t skipped;   /* ticks before it that were passed over */
} quern_entry_event;

#ifdef __cplusplus
}
#endif
#endif
