/* SPDX-License-Identifier: MIT */
/* scheduler.h - the scheduler itself: what its files share. */
#ifndef QN_SCHEDULE_SCHEDULER_H
#define QN_SCHEDULE_SCHEDULER_H

#include <pthread.h>
#include <stdatomic.h>

#include "schedule/entry_set.h"
#include "schedule/files.h"
#include "schedule/outage.h"
#include "schedule/tick/ticker.h"

struct quern_scheduler {
    /* Constant after quern_scheduler_new. */
    quern_scheduler_options options; /* texts are copies in the arena */
    struct qn_arena arena;
    const struct quern_clock *clock;
    char *origin; /* "code:PROGRAM"; NULL: there is no program */
    int64_t opener_pid;
    int wake_fd;

    struct qn_log log;
    _Atomic int stops;
    _Atomic bool reload_asked;
    _Atomic bool is_ready;
    _Atomic int64_t stepped_at_mono_ns; /* its loop began a step; 0: it does not run */

    /* Of the thread that runs it. */
    char *url; /* secret; until the broker is open */
    struct qn_zones *zones;
    struct qn_leader leader;
    struct qn_ticker ticker;
    struct qn_schedule_files files;
    int64_t asked_at_boot_ms; /* on_entries was called */
    uint64_t synced_hash;     /* of the program's set */
    bool must_sync;           /* whatever its hash is */
    struct qn_outage outage;  /* without a failure of the first opening */

    pthread_mutex_t mutex;    /* guards the rest; not held while a callback runs */
    struct qn_broker *broker; /* NULL until it is open; then it stays */
    bool has_run;
    struct quern_entry_set registered;
    bool was_registered; /* anything, ever */
    bool has_changed;    /* the registered ones, since the last sync */
};

/* Stores the entries of the program if they have changed, or on_entries is due. */
QUERN_NODISCARD quern_status qn_program_sync(struct quern_scheduler *scheduler, quern_error *err);
/* New time zones; all is read again. */
QUERN_NODISCARD quern_status qn_scheduler_reload_all(struct quern_scheduler *scheduler,
                                                     quern_error *err);
QUERN_NODISCARD quern_status qn_scheduler_new_zones(struct qn_zones **ret_zones, quern_error *err);
void qn_scheduler_free_zones(struct qn_zones *zones);
/* Opens the broker. */
QUERN_NODISCARD quern_status qn_scheduler_open(struct quern_scheduler *scheduler, const char *url,
                                               quern_error *err);

#endif
