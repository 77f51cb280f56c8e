/* SPDX-License-Identifier: MIT */
/* keeper.c - the timers of a worker.
 *
 * A thread of its own, so that no handler and no slow exchange delays them; leases are not among
 * them, see holder.c. The order of the table is the order of their importance. A timer that the
 * broker does not answer waits for a backoff, and the others are looked at again, from the first
 * on. The outage is over when none of them fails any more: some calls only read, and work where
 * others do not. After damaged data there is no backoff: the sound data was served, and goes on
 * being served at the usual pace. */
#include "worker/internal.h"

struct timer {
    quern_status (*act)(struct quern_worker *worker, quern_error *err);
    int64_t period_ms;
};

static const struct timer timers[] = {
    {.act = qn_keeper_heartbeat, .period_ms = QN_HEARTBEAT_MS},
    {.act = qn_keeper_recover, .period_ms = 1000},
    {.act = qn_keeper_forward, .period_ms = 1000},
    {.act = qn_keeper_prune, .period_ms = 10000},
    {.act = qn_keeper_check_place, .period_ms = 1000},
    {.act = qn_keeper_warn_groups, .period_ms = 600000}, /* reads all counts of all queues */
};
enum { TIMER_COUNT = sizeof timers / sizeof timers[0], ANNOUNCE = 0 };

struct keeper {
    struct quern_worker *worker;
    struct qn_outage outage;
    int64_t due_mono_ns[TIMER_COUNT]; /* 0 at first: at once */
    bool fails[TIMER_COUNT];
};

void qn_keeper_poke(struct quern_worker *worker)
{
    if (!worker->keeper_poked) {
        worker->keeper_poked = true;
        (void)pthread_cond_signal(&worker->keeper_cond);
    }
}

static bool any_fails(const struct keeper *keeper)
{
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        if (keeper->fails[i]) {
            return true;
        }
    }
    return false;
}

static void ring_timer(struct keeper *keeper, size_t index)
{
    quern_error error = {0};
    quern_status status = timers[index].act(keeper->worker, &error);
    bool fails = status != QUERN_OK;
    keeper->fails[index] = fails;
    keeper->due_mono_ns[index] = qn_clock_mono_ns() + timers[index].period_ms * QN_NS_PER_MS;
    if (fails) {
        qn_outage_fail(&keeper->outage, &error);
    }
    if (fails && status != QUERN_E_CORRUPT) {
        keeper->due_mono_ns[index] = atomic_load(&keeper->outage.retry_at_mono_ns);
    } else if (!any_fails(keeper)) {
        qn_outage_end(&keeper->outage);
    }
}

/* The broker has answered somebody else: timers that failed are due at once. */
static void hurry_what_fails(struct keeper *keeper)
{
    bool waits = atomic_load(&keeper->outage.retry_at_mono_ns) != 0;
    for (size_t i = 0; !waits && i < TIMER_COUNT; i++) {
        keeper->due_mono_ns[i] = keeper->fails[i] ? 0 : keeper->due_mono_ns[i];
    }
}

static int64_t ring_timers(struct keeper *keeper)
{
    struct quern_worker *worker = keeper->worker;
    (void)pthread_mutex_lock(&worker->mutex);
    if (worker->announce_due) {
        keeper->due_mono_ns[ANNOUNCE] = 0;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    hurry_what_fails(keeper);
    int64_t until_mono_ns = INT64_MAX;
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        int64_t now_mono_ns = qn_clock_mono_ns();
        if (now_mono_ns >= keeper->due_mono_ns[i]) {
            ring_timer(keeper, i);
            if (keeper->fails[i]) {
                return now_mono_ns;
            }
        }
        until_mono_ns = qn_earlier(until_mono_ns, keeper->due_mono_ns[i]);
    }
    return until_mono_ns;
}

/* True when the worker has stopped. */
static bool sleep_until(struct quern_worker *worker, int64_t until_mono_ns)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->keeper_until_mono_ns = until_mono_ns;
    bool in_time = true;
    while (!worker->keeper_poked && worker->state != QN_WORKER_STOPPED && in_time) {
        in_time = qn_cond_wait_until(&worker->keeper_cond, &worker->mutex, until_mono_ns);
    }
    worker->keeper_poked = false;
    worker->keeper_until_mono_ns = INT64_MAX; /* awake: it looks at everything anyway */
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

void *qn_keeper_main(void *argument)
{
    struct keeper keeper = {.worker = argument};
    qn_outage_init(&keeper.outage, &keeper.worker->outages);
    bool stopped = false;
    while (!stopped) {
        int64_t until_mono_ns = qn_keeper_watch(keeper.worker, qn_clock_mono_ns());
        until_mono_ns = qn_earlier(until_mono_ns, ring_timers(&keeper));
        stopped = sleep_until(keeper.worker, until_mono_ns);
    }
    qn_outage_finish(&keeper.outage);
    return NULL;
}
