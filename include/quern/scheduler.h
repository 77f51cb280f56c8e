/* SPDX-License-Identifier: MIT */
/* quern/scheduler.h - enqueues tasks by the clock.
 *
 * An entry has a name, a cron expression and a task; the broker stores it. Any number of schedulers
 * may run, on any number of machines: one of them leads, and each tick (a moment of an entry) is
 * enqueued once, whichever of them dies or stops. The ticks of a time without any scheduler are
 * handled by the misfire policy of the entry when one runs again.
 *
 * A scheduler runs once: new, register, run (blocks), free. */
#ifndef QUERN_SCHEDULER_H
#define QUERN_SCHEDULER_H

#include "quern/entry.h"
#include "quern/log.h"
#include "quern/task.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_scheduler quern_scheduler;
struct quern_clock;

/* A set of entries that a program gives to its scheduler. */
typedef struct quern_entry_set quern_entry_set;

/* Adds an entry with its task; both are copied. The task is without id and process_at_ms: the id is
 * "NAME@2026-11-23T01:30:00Z", and cron decides. QUERN_E_INVALID: the text names the field and the
 * rule; QUERN_E_NOT_FOUND: there is no such time zone; QUERN_E_CONFLICT: the set has an entry of
 * this name in the queue; QUERN_E_FULL: it has 10 000; QUERN_E_UNSUPPORTED: the broker has no
 * priorities, or keeps no limit_key. */
QUERN_NODISCARD static inline quern_status quern_entry_set_add(quern_entry_set *set,
                                                               const quern_entry *entry,
                                                               const quern_task *task,
                                                               quern_error *err);

/* A tick that is about to be enqueued, or was. */
typedef struct quern_tick {
    const char *name; /* of the entry */
    const char *queue;
    const char *id;    /* of the task */
    int64_t at_ms;     /* the moment of the entry */
    bool missed;       /* it is not on time */
    bool vetoed;       /* for `after`: `before` has refused it */
    bool is_duplicate; /* for `after`: no task was stored, because of its lock or its id; by
                        * on_duplicate its data may be in the one that is there */
    uint8_t reserved[5];
} quern_tick;

typedef struct quern_scheduler_options {
    const char *program; /* the name under which the entries of this program are stored; programs
                          * with the same name have the same entries. Needed with entries from the
                          * program, at most 255 bytes of visible ASCII. */
    const char *zone;    /* of entries without one; NULL: UTC */
    const char *const *files; /* with entries, see schedule.conf; read again when they change */
    size_t file_count;        /* at most 64 */
    int64_t sync_ms;          /* how often on_entries is called; 0: 3 minutes; at least 1 s */
    bool no_wait;             /* a broker that is absent or busy at the start is an error */
    bool allow_empty;         /* an empty set may replace one that was not empty */
    uint8_t reserved[6];
    const struct quern_clock *clock; /* NULL: the system's */
    /* Lines of logfmt, as those of a worker; NULL: warnings and errors go to stderr. */
    void (*on_log)(quern_log_level level, const char *line, void *user);
    /* Adds the entries that the program wants now, besides those that are registered. If it returns
     * an error, the stored entries stay as they are. */
    quern_status (*on_entries)(quern_entry_set *set, void *user);
    /* Before a tick is enqueued: may change payload, headers and options of the task, whose
     * pointers must then stay valid until the next call of a hook; false: it is not enqueued. May
     * be called again for the same tick if the scheduler dies before it is enqueued. */
    bool (*before)(const quern_tick *tick, quern_task *task, void *user);
    /* After it was enqueued or refused. Both run on the thread of quern_scheduler_run: a slow one
     * delays the other ticks, and one of more than a second is logged. After 7 s the lease has to
     * be taken again; after 10 s another scheduler leads, if there is one, and calls its own hook
     * for the tick. */
    void (*after)(const quern_tick *tick, void *user);
    void *user;
} quern_scheduler_options;

/* Opens the broker of `url`; options may be NULL. A broker that is absent or busy is no error
 * unless no_wait is set: quern_scheduler_run waits for it. QUERN_E_INVALID: the text names the
 * option; QUERN_E_UNSUPPORTED: this broker has no schedules; other errors as quern_worker_new. */
QUERN_NODISCARD static inline quern_status quern_scheduler_new(
    const char *url, const quern_scheduler_options *options, quern_scheduler **ret_scheduler,
    quern_error *err);
/* Not while it runs. NULL is allowed. */
QUERN_API void quern_scheduler_free(quern_scheduler *scheduler);

/* Adds an entry to those of the program, which are stored when the scheduler starts, and soon after
 * each change. Stored entries of the same program that are in no set are removed. Errors as
 * quern_entry_set_add. Any thread. */
QUERN_NODISCARD static inline quern_status quern_scheduler_register(quern_scheduler *scheduler,
                                                                    const quern_entry *entry,
                                                                    const quern_task *task,
                                                                    quern_error *err);
/* queue may be NULL: "default". QUERN_E_NOT_FOUND: none of this name is registered. Any thread. */
QUERN_NODISCARD QUERN_API quern_status quern_scheduler_unregister(quern_scheduler *scheduler,
                                                                  const char *queue,
                                                                  const char *name,
                                                                  quern_error *err);

/* Enqueues ticks while it leads, until quern_scheduler_stop. It waits for a broker that does not
 * answer. QUERN_OK after a stop. QUERN_E_STATE: it has run already; QUERN_E_CLOSED: the child of a
 * fork; with no_wait the errors of a broker that is not available; a file that was removed or
 * replaced ends it with QUERN_E_CONNECT or QUERN_E_CORRUPT. */
QUERN_NODISCARD QUERN_API quern_status quern_scheduler_run(quern_scheduler *scheduler,
                                                           quern_error *err);
/* The same for a program without signal handling of its own: SIGINT and SIGTERM stop it. Both are
 * blocked in the calling thread meanwhile; block them in the other threads, too. */
QUERN_NODISCARD QUERN_API quern_status quern_scheduler_run_until_signal(quern_scheduler *scheduler,
                                                                        quern_error *err);
/* These: any thread; async-signal-safe; NULL does nothing. */
QUERN_API void quern_scheduler_stop(quern_scheduler *scheduler);
/* Reads its files, the certificates of its URL and the time zones again, and calls on_entries
 * (SIGHUP in the CLI). */
QUERN_API void quern_scheduler_reload(quern_scheduler *scheduler);
/* It runs, and leads or knows of a scheduler that does. False for NULL. */
QUERN_API bool quern_scheduler_is_ready(const quern_scheduler *scheduler);
/* Its loop makes progress, or does not run; false: a step of it has taken more than a minute, so it
 * hangs. A broker that is away leaves it live. False for NULL. */
QUERN_API bool quern_scheduler_is_live(const quern_scheduler *scheduler);

/* Reports each stored entry of any origin until on_entry returns false. QUERN_E_STATE: the broker
 * was not available so far. on_entry must not use the scheduler. */
QUERN_NODISCARD QUERN_API quern_status quern_scheduler_list(
    quern_scheduler *scheduler, bool (*on_entry)(const quern_entry_info *info, void *user),
    void *user, quern_error *err);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status
quern_entry_set_add_sized(quern_entry_set *set, const quern_entry *entry, size_t entry_size,
                          const quern_task *task, size_t task_size, quern_error *err);
static inline quern_status quern_entry_set_add(quern_entry_set *set, const quern_entry *entry,
                                               const quern_task *task, quern_error *err)
{
    return quern_entry_set_add_sized(set, entry, sizeof(quern_entry), task, sizeof(quern_task),
                                     err);
}

QUERN_NODISCARD QUERN_API quern_status
quern_scheduler_new_sized(const char *url, const quern_scheduler_options *options,
                          size_t options_size, quern_scheduler **ret_scheduler, quern_error *err);
static inline quern_status quern_scheduler_new(const char *url,
                                               const quern_scheduler_options *options,
                                               quern_scheduler **ret_scheduler, quern_error *err)
{
    return quern_scheduler_new_sized(url, options, sizeof(quern_scheduler_options), ret_scheduler,
                                     err);
}

QUERN_NODISCARD QUERN_API quern_status quern_scheduler_register_sized(
    quern_scheduler *scheduler, const quern_entry *entry, size_t entry_size, const quern_task *task,
    size_t task_size, quern_error *err);
static inline quern_status quern_scheduler_register(quern_scheduler *scheduler,
                                                    const quern_entry *entry,
                                                    const quern_task *task, quern_error *err)
{
    return quern_scheduler_register_sized(scheduler, entry, sizeof(quern_entry), task,
                                          sizeof(quern_task), err);
}

#ifdef __cplusplus
}
#endif
#endif
