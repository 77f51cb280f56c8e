/* SPDX-License-Identifier: MIT */
/* health.c - what a probe wants to know of a worker.
 *
 * A worker is live unless only a new process can help: a thread of it hangs, or the broker answers
 * its other threads but not the one that fetches. It is ready when it can fetch right now. A broker
 * that is away makes no worker dead: it would be away for the next process, too, and what runs
 * would be lost; nor does one that refuses the login or a command, until its administrator has
 * mended that: it makes the worker unready at once. Handlers that hang do the same; it ends by
 * itself after stuck_timeout_ms.
 *
 * Readers on other threads wait for the mutex of the worker for a second only: where it is held for
 * longer, a thread hangs with it. The thread of quern_worker_run looks from time to time, for the
 * callback and the log. */
#include "worker/liveness/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cond.h"
#include "base/memory/sized.h"
#include "worker/internal.h"
#include "worker/run/stuck.h"

enum { LOCK_MS = 1000, LOOK_MS_MIN = 250, LOOK_MS_MAX = 5000, LOOK_PARTS = 4, STOPPED_MS = 1000 };

enum check { STARTED, THREADS, BROKER, FETCH, SLOTS, ACCEPTS, BRAKE, CHECK_COUNT };
_Static_assert(CHECK_COUNT <= QUERN_WORKER_CHECKS_MAX, "no room for a check");

static const char *const names[CHECK_COUNT] = {
    [STARTED] = "started", [THREADS] = "threads",   [BROKER] = "broker", [FETCH] = "fetch",
    [SLOTS] = "slots",     [ACCEPTS] = "accepting", [BRAKE] = "brake",
};

/* What is guarded by the mutex of the worker. */
struct facts {
    bool locked; /* false: it could not be had, and nothing below is known */
    bool drains;
    bool has_slot;
    bool braked;
};

void qn_health_init(struct quern_worker *worker)
{
    (void)pthread_mutex_init(&worker->health.mutex, NULL);
    worker->health.made_at_mono_ns = qn_clock_mono_ns();
}

void qn_health_finish(struct quern_worker *worker)
{
    (void)pthread_mutex_destroy(&worker->health.mutex);
}

/* waits: for the mutex, however long. */
static struct facts read_facts(struct quern_worker *worker, bool waits)
{
    struct facts facts = {.locked = true};
    if (waits) {
        (void)pthread_mutex_lock(&worker->mutex);
    } else if (!qn_cond_lock_until(&worker->mutex, qn_clock_mono_ns() + LOCK_MS * QN_NS_PER_MS)) {
        return (struct facts){.locked = false};
    }
    facts.drains = worker->state == QN_WORKER_DRAINING || worker->state == QN_WORKER_STOPPED;
    facts.has_slot = !qn_stuck_has_no_slot(worker);
    facts.braked = worker->braked;
    (void)pthread_mutex_unlock(&worker->mutex);
    return facts;
}

/* Notes the result of a check. for_ms: how long it has been so; -1: since it changed. */
static void note(struct quern_worker *worker, quern_worker_health *health, enum check check,
                 bool ok, int64_t for_ms)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    struct qn_health *own = &worker->health;
    (void)pthread_mutex_lock(&own->mutex);
    if (!own->checks[check].is_known || own->checks[check].ok != ok) {
        own->checks[check].since_mono_ns =
            own->checks[check].is_known ? now_mono_ns : own->made_at_mono_ns;
        own->checks[check].is_known = true;
        own->checks[check].ok = ok;
    }
    if (for_ms >= 0) {
        own->checks[check].since_mono_ns = now_mono_ns - for_ms * QN_NS_PER_MS;
    }
    health->checks[check].for_ms = (now_mono_ns - own->checks[check].since_mono_ns) / QN_NS_PER_MS;
    (void)pthread_mutex_unlock(&own->mutex);
    health->checks[check].name = names[check];
    health->checks[check].ok = ok;
}

static void detail(quern_worker_health *health, enum check check, const char *text)
{
    (void)snprintf(health->checks[check].detail, sizeof health->checks[check].detail, "%s", text);
}

static void check_threads(struct quern_worker *worker, const struct facts *facts,
                          quern_worker_health *health, int64_t now_mono_ns)
{
    char text[64];
    const char *name = NULL;
    int64_t hang_ms = qn_beats_hang_ms(worker, now_mono_ns, &name);
    note(worker, health, THREADS, facts->locked && hang_ms == 0, hang_ms > 0 ? hang_ms : -1);
    if (hang_ms > 0) {
        (void)snprintf(text, sizeof text, "thread %s hangs", name);
        detail(health, THREADS, text);
    } else if (!facts->locked) {
        detail(health, THREADS, "the lock of the worker is held");
    }
}

static void check_broker(struct quern_worker *worker, quern_worker_health *health, bool started,
                         int64_t now_mono_ns)
{
    int64_t timeout_ms = worker->options.stall_timeout_ms;
    int64_t silence_ms = started ? qn_beats_silence_ms(worker, now_mono_ns) : 0;
    bool is_silent = timeout_ms > 0 && silence_ms >= timeout_ms;
    bool is_alone =
        started && timeout_ms > 0 && qn_backoff_is_alone(&worker->pump.backoff, timeout_ms);
    quern_status refusal = started ? qn_backoff_refusal(&worker->pump.backoff) : QUERN_OK;
    bool is_refused = refusal != QUERN_OK;
    note(worker, health, BROKER, !is_silent && !is_refused, is_silent ? silence_ms : -1);
    note(worker, health, FETCH, !is_alone, -1);
    if (is_refused) {
        detail(health, BROKER,
               refusal == QUERN_E_DENIED ? "it refuses the login"
                                         : "it refuses requests for tasks, see the log");
    } else if (is_silent) {
        detail(health, BROKER, "no answer");
    }
    if (is_alone) {
        detail(health, FETCH, "the broker answers other threads, not requests for tasks");
    }
}

static void check_state(struct quern_worker *worker, const struct facts *facts,
                        quern_worker_health *health)
{
    bool quiet = atomic_load(&worker->quiet);
    note(worker, health, SLOTS, facts->has_slot, -1);
    note(worker, health, ACCEPTS, !facts->drains && !quiet, -1);
    note(worker, health, BRAKE, !facts->braked, -1);
    if (!facts->has_slot) {
        detail(health, SLOTS, "handlers that hang hold all slots");
    }
    if (facts->drains || quiet) {
        detail(health, ACCEPTS, facts->drains ? "draining" : "quiet");
    }
    if (facts->braked) {
        detail(health, BRAKE, "runs of all its queues die on this host");
    }
}

static void evaluate(struct quern_worker *worker, bool waits, quern_worker_health *ret_health)
{
    quern_worker_health health = {.check_count = CHECK_COUNT, .exchange_age_ms = -1};
    struct facts facts = read_facts(worker, waits);
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t answered_at = atomic_load(&worker->beats.answered_at_mono_ns);
    health.started = atomic_load(&worker->health.started);
    if (answered_at != 0) {
        health.exchange_age_ms = (now_mono_ns - answered_at) / QN_NS_PER_MS;
    }
    note(worker, &health, STARTED, health.started, -1);
    if (!health.started) {
        detail(&health, STARTED, "waits for the broker");
    }
    check_threads(worker, &facts, &health, now_mono_ns);
    check_broker(worker, &health, health.started, now_mono_ns);
    facts.has_slot = facts.has_slot || !facts.locked;
    check_state(worker, &facts, &health);
    health.live = health.checks[THREADS].ok && health.checks[FETCH].ok;
    health.ready = true;
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        health.ready = health.ready && health.checks[i].ok;
    }
    *ret_health = health;
}

void quern_worker_get_health_sized(quern_worker *worker, quern_worker_health *ret_health,
                                   size_t health_size)
{
    if (ret_health == NULL) {
        return;
    }
    quern_worker_health health = {.exchange_age_ms = -1};
    if (worker != NULL) {
        evaluate(worker, false, &health);
    }
    (void)memset(ret_health, 0, health_size);
    (void)memcpy(ret_health, &health, health_size < sizeof health ? health_size : sizeof health);
}

/* --- The thread of quern_worker_run -------------------------------------------------------- */

static bool differs(const quern_worker_health *a, const quern_worker_health *b)
{
    bool differs = a->live != b->live || a->ready != b->ready || a->started != b->started;
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        differs = differs || a->checks[i].ok != b->checks[i].ok;
    }
    return differs;
}

/* The first check that says so; CHECK_COUNT: it has not stalled. */
static enum check stalled_by(const quern_worker_health *health)
{
    static const enum check order[] = {THREADS, FETCH, BROKER};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (!health->checks[order[i]].ok) {
            return order[i];
        }
    }
    return CHECK_COUNT;
}

static void log_change(struct quern_worker *worker, struct qn_health_watch *watch)
{
    enum check by = stalled_by(&watch->latest);
    bool stalled = by != CHECK_COUNT;
    if (stalled == watch->stalled) {
        return;
    }
    watch->stalled = stalled;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->heartbeat_due = true;
    qn_signals_wake_keeper(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (stalled) {
        QN_LOG(&worker->log, QUERN_LOG_ERROR, "worker has stalled, it cannot fetch tasks",
               QN_LOG_TEXT("worker", worker->id),
               QN_LOG_TEXT("reason", watch->latest.checks[by].detail),
               QN_LOG_NUMBER("for_ms", watch->latest.checks[by].for_ms),
               QN_LOG_NUMBER("exchange_age_ms", watch->latest.exchange_age_ms));
    } else {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "worker no longer stalls",
               QN_LOG_TEXT("worker", worker->id));
    }
}

int64_t qn_health_watch(struct quern_worker *worker, struct qn_health_watch *watch)
{
    int64_t timeout_ms = worker->options.stall_timeout_ms;
    int64_t pause_ms = timeout_ms > 0 ? timeout_ms / LOOK_PARTS : LOOK_MS_MAX;
    pause_ms = pause_ms < LOOK_MS_MIN ? LOOK_MS_MIN : qn_earlier(pause_ms, LOOK_MS_MAX);
    pause_ms = watch->stalled ? qn_earlier(pause_ms, STOPPED_MS) : pause_ms;
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t since_ms = (now_mono_ns - watch->at_mono_ns) / QN_NS_PER_MS;
    bool was_stopped = watch->is_known && since_ms > pause_ms + STOPPED_MS;
    watch->at_mono_ns = now_mono_ns;
    if (was_stopped) { /* as all threads of the process: they need a moment */
        return pause_ms;
    }
    quern_worker_health health;
    evaluate(worker, true, &health);
    bool changed = watch->is_known && differs(&watch->latest, &health);
    bool is_first = !watch->is_known;
    watch->latest = health;
    watch->is_known = true;
    if ((changed || is_first) && worker->options.on_health != NULL) {
        worker->options.on_health(&watch->latest, worker->options.user);
    }
    log_change(worker, watch);
    return pause_ms;
}
