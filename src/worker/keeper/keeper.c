/* SPDX-License-Identifier: MIT */
/* keeper.c - the timers of a worker.
 *
 * A thread of its own, so that no handler and no slow exchange delays them; leases have another
 * one, see leases.c. The table has the most important timer first. A timer that the broker does not
 * answer waits for a backoff, and the others are checked again, from the first on. The backoff is
 * over when none of them fails any more: some calls only read, and work where others do not. After
 * damaged data there is no backoff: the sound data was served, and is served on at the usual
 * pace. */
#include "worker/keeper/keeper.h"

#include "base/cond.h"
#include "worker/internal.h"
#include "worker/keeper/data_loss.h"
#include "worker/keeper/progress.h"
#include "worker/keeper/timeouts.h"
#include "worker/keeper/upkeep.h"

struct timer {
    quern_status (*run)(struct quern_worker *worker, quern_error *err);
    int64_t period_ms;
};

static const struct timer timers[] = {
    {.run = qn_upkeep_heartbeat, .period_ms = QN_HEARTBEAT_MS},
    {.run = qn_upkeep_recover, .period_ms = 1000},
    {.run = qn_upkeep_forward, .period_ms = 1000},
    {.run = qn_upkeep_prune, .period_ms = 10000},
    {.run = qn_data_loss_check, .period_ms = 1000},
    {.run = qn_progress_store, .period_ms = 1000},
    {.run = qn_upkeep_check_groups, .period_ms = 1000},
    {.run = qn_upkeep_reclaim_sets, .period_ms = 5000},
    {.run = qn_upkeep_warn_groups, .period_ms = 600000}, /* reads all counts */
};
enum { TIMER_COUNT = sizeof timers / sizeof timers[0], HEARTBEAT = 0 };

struct timetable {
    struct quern_worker *worker;
    struct qn_backoff backoff;
    int64_t due_mono_ns[TIMER_COUNT]; /* 0 at first: at once */
    bool fails[TIMER_COUNT];
};

static bool any_fails(const struct timetable *table)
{
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        if (table->fails[i]) {
            return true;
        }
    }
    return false;
}

static void run_timer(struct timetable *table, size_t index)
{
    quern_error error = {0};
    qn_beats_step(table->worker, QN_BEAT_KEEPER);
    quern_status status = timers[index].run(table->worker, &error);
    bool fails = status != QUERN_OK;
    table->fails[index] = fails;
    table->due_mono_ns[index] = qn_clock_mono_ns() + timers[index].period_ms * QN_NS_PER_MS;
    if (fails) {
        qn_backoff_fail(&table->backoff, &error);
    }
    if (fails && status != QUERN_E_CORRUPT) {
        table->due_mono_ns[index] = atomic_load(&table->backoff.retry_at_mono_ns);
    } else if (!any_fails(table)) {
        qn_backoff_end(&table->backoff);
    }
}

/* The broker has answered another thread: timers that failed are due at once. */
static void retry_failed(struct timetable *table)
{
    bool waits = atomic_load(&table->backoff.retry_at_mono_ns) != 0;
    for (size_t i = 0; !waits && i < TIMER_COUNT; i++) {
        table->due_mono_ns[i] = table->fails[i] ? 0 : table->due_mono_ns[i];
    }
}

static int64_t run_due_timers(struct timetable *table)
{
    struct quern_worker *worker = table->worker;
    (void)pthread_mutex_lock(&worker->mutex);
    if (worker->heartbeat_due) {
        table->due_mono_ns[HEARTBEAT] = 0;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    retry_failed(table);
    int64_t until_mono_ns = INT64_MAX;
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        int64_t now_mono_ns = qn_clock_mono_ns();
        if (now_mono_ns >= table->due_mono_ns[i]) {
            run_timer(table, i);
            if (table->fails[i]) {
                return now_mono_ns;
            }
        }
        until_mono_ns = qn_earlier(until_mono_ns, table->due_mono_ns[i]);
    }
    return until_mono_ns;
}

/* True when the worker has stopped. */
static bool sleep_until(struct quern_worker *worker, int64_t until_mono_ns)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->signals.keeper_until_mono_ns = until_mono_ns;
    bool in_time = true;
    while (!worker->signals.keeper_signalled && worker->state != QN_WORKER_STOPPED && in_time) {
        in_time = qn_cond_wait_until(&worker->signals.keeper_cond, &worker->mutex, until_mono_ns);
    }
    worker->signals.keeper_signalled = false;
    worker->signals.keeper_until_mono_ns = INT64_MAX; /* awake: it checks everything anyway */
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

void *qn_keeper_main(void *argument)
{
    struct timetable table = {.worker = argument};
    table.worker->keeper.progress_round = 1;
    qn_backoff_init(&table.backoff, &table.worker->backoffs);
    table.backoff.is_witness = true;
    bool stopped = false;
    while (!stopped) {
        qn_beats_step(table.worker, QN_BEAT_KEEPER);
        int64_t until_mono_ns = qn_timeouts_check(table.worker, qn_clock_mono_ns());
        until_mono_ns = qn_earlier(until_mono_ns, run_due_timers(&table));
        qn_beats_sleep(table.worker, QN_BEAT_KEEPER, until_mono_ns);
        stopped = sleep_until(table.worker, until_mono_ns);
    }
    qn_backoff_finish(&table.backoff);
    qn_beats_end(table.worker, QN_BEAT_KEEPER);
    return NULL;
}
