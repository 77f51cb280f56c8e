/* SPDX-License-Identifier: MIT */
/* ticker.h - the loop of the leading scheduler: loads the entries, and enqueues the tasks of the
 * ticks that are due. One thread; it does not sleep. */
#ifndef QN_SCHEDULE_TICK_TICKER_H
#define QN_SCHEDULE_TICK_TICKER_H

#include "base/memory/arena.h"
#include "quern/scheduler.h"
#include "schedule/entry.h"
#include "schedule/tick/leader.h"
#include "task/limits.h"

#define QN_TICKER_STEP_MS 1000 /* the longest sleep between two steps */

/* An entry that is loaded. */
struct qn_ticking {
    struct qn_schedule_entry entry; /* in the arena of its list */
    struct qn_entry_clock clock;
    bool is_sound; /* its expression and zone can be read, and it has no fault */
    bool has_next;
    bool was_logged;        /* that it is not sound, or that its ticks fail */
    bool is_over;           /* no more ticks of it in this round */
    int64_t next_s;         /* its next tick */
    int64_t rests_until_ms; /* boot clock: a tick of it has failed */
};

struct qn_ticking_list {
    struct qn_arena arena;
    struct qn_ticking *items; /* by queue and name; qn_free */
    size_t count;
};

/* The ticks of one request. */
struct qn_tick_batch {
    struct qn_arena arena;
    struct qn_tick ticks[QN_BATCH_MAX];
    struct qn_task tasks[QN_BATCH_MAX];
    struct qn_ticking *owners[QN_BATCH_MAX];
    size_t count;
    size_t payload_size;
    struct qn_plan plan; /* for the next tick of each */
};

struct qn_ticker_hooks {
    bool (*before)(const quern_tick *tick, quern_task *task, void *user);
    void (*after)(const quern_tick *tick, void *user);
    void *user;
};

struct qn_ticker {
    struct qn_leader *leader;
    struct qn_zones *zones;
    struct qn_ticker_hooks hooks;
    struct qn_ticking_list list;
    struct qn_tick_batch batch;
    struct qn_plan plan;
    struct qn_stamp stamp;
    uint64_t epoch; /* for which the list was loaded; 0: it must be loaded */
    uint64_t version;
    uint64_t led_epoch; /* the last one that it has begun to lead in */
    int64_t loaded_at_boot_ms;
    int64_t recorded_at_boot_ms;
    bool has_changed; /* since the last record */
};

void qn_ticker_init(struct qn_ticker *ticker, struct qn_leader *leader, struct qn_zones *zones,
                    const struct qn_ticker_hooks *hooks);
void qn_ticker_finish(struct qn_ticker *ticker);
/* Looks who leads, and if it is this scheduler, sends all that is due. ret_sleep_ms: until the next
 * step, at most QN_TICKER_STEP_MS. On an error the ticks that were not sent are sent by a later
 * step. */
QUERN_NODISCARD quern_status qn_ticker_step(struct qn_ticker *ticker, int64_t *ret_sleep_ms,
                                            quern_error *err);
/* All is loaded again at the next step, with new zones. NULL: the zones stay. */
void qn_ticker_reload(struct qn_ticker *ticker, struct qn_zones *zones);

#endif
