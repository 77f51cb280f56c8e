/* SPDX-License-Identifier: MIT */
/* supply.c - see supply.h.
 *
 * Where the mux has commands, too, it is not known before the lease whether a run needs a child. So
 * all slots are open there as soon as there is one child. */
#include "worker/run/supply.h"

#include "worker/internal.h"

enum { LOG_EACH_MS = 60000, PAUSE_MS_MIN = 100, PAUSE_MS_MAX = 5000 };

size_t qn_supply_slots(const struct quern_worker *worker)
{
    size_t slots = qn_worker_slots(worker);
    size_t ready = worker->supply.ready;
    if (worker->options.pool != QUERN_POOL_PREFORK) {
        size_t threads = worker->supply.threads;
        return threads > 0 && threads < slots ? threads : slots;
    }
    if (worker->is_mixed && ready > 0) {
        return slots;
    }
    return ready < slots ? ready : slots;
}

void qn_supply_set_ready(struct quern_worker *worker, uint32_t count)
{
    struct qn_supply *supply = &worker->supply;
    (void)pthread_mutex_lock(&worker->mutex);
    bool more = count > supply->ready;
    supply->ready = count;
    bool ends = supply->is_short && count >= qn_worker_slots(worker);
    int64_t for_ms = (qn_clock_mono_ns() - supply->since_mono_ns) / QN_NS_PER_MS;
    uint64_t failed = supply->failed;
    if (ends) {
        supply->is_short = false;
        supply->failed = 0;
    }
    if (more) {
        worker->look = true;
        qn_signals_wake_pump(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    if (ends) {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "children can be started again",
               QN_LOG_NUMBER("after_s", for_ms / 1000), QN_LOG_NUMBER("failed", failed));
    }
}

void qn_supply_note_failure(struct quern_worker *worker, int64_t pid, const char *why)
{
    struct qn_supply *supply = &worker->supply;
    int64_t now_mono_ns = qn_clock_mono_ns();
    (void)pthread_mutex_lock(&worker->mutex);
    if (!supply->is_short) {
        supply->is_short = true;
        supply->since_mono_ns = now_mono_ns;
        supply->logged_at_mono_ns = now_mono_ns - LOG_EACH_MS * QN_NS_PER_MS;
    }
    supply->failed++;
    uint64_t failed = supply->failed;
    uint32_t ready = supply->ready;
    int64_t for_s = (now_mono_ns - supply->since_mono_ns) / QN_NS_PER_MS / 1000;
    bool logs = now_mono_ns - supply->logged_at_mono_ns >= LOG_EACH_MS * QN_NS_PER_MS;
    supply->logged_at_mono_ns = logs ? now_mono_ns : supply->logged_at_mono_ns;
    (void)pthread_mutex_unlock(&worker->mutex);
    if (logs) {
        QN_LOG(&worker->log, QUERN_LOG_WARN,
               "children cannot be started, only as many tasks are fetched as can run",
               QN_LOG_NUMBER("ready", ready), QN_LOG_NUMBER("slots", qn_worker_slots(worker)),
               QN_LOG_NUMBER("for_s", for_s), QN_LOG_NUMBER("failed", failed),
               QN_LOG_NUMBER("pid", pid), QN_LOG_TEXT("error", why));
    }
}

/* Returns how many there are. */
static size_t limit_threads(struct quern_worker *worker, bool is_short)
{
    struct qn_pool_counts counts = {0};
    qn_pool_count(worker->pool, &counts);
    size_t threads = counts.alive - counts.quarantined;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->supply.threads = !is_short ? 0 : threads > 0 ? threads : 1;
    if (!is_short) {
        worker->look = true;
        qn_signals_wake_pump(worker);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return threads;
}

static void log_refusal(struct quern_worker *worker, struct qn_supply_watch *watch, size_t threads,
                        const quern_error *err)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (watch->logged_at_mono_ns == 0 ||
        now_mono_ns - watch->logged_at_mono_ns >= LOG_EACH_MS * QN_NS_PER_MS) {
        watch->logged_at_mono_ns = now_mono_ns;
        watch->is_logged = true;
        QN_LOG(&worker->log, QUERN_LOG_WARN,
               "threads cannot be started, runs wait for others to end",
               QN_LOG_NUMBER("threads", threads), QN_LOG_NUMBER("slots", qn_worker_slots(worker)),
               QN_LOG_TEXT("error", err->text));
    }
}

/* Where some can be started and others not, that may begin and end again and again. */
static void end_shortage(struct quern_worker *worker, struct qn_supply_watch *watch)
{
    size_t threads = limit_threads(worker, false);
    watch->pause_ms = 0;
    if (watch->is_logged) {
        watch->is_logged = false;
        QN_LOG(&worker->log, QUERN_LOG_INFO, "threads can be started again",
               QN_LOG_NUMBER("threads", threads));
    }
}

int64_t qn_supply_watch_threads(struct quern_worker *worker, struct qn_supply_watch *watch)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    quern_error err = {.text = ""};
    if (watch->pause_ms > 0 && now_mono_ns < watch->next_at_mono_ns) {
        return (watch->next_at_mono_ns - now_mono_ns) / QN_NS_PER_MS + 1;
    }
    if (qn_pool_fill(worker->pool, &err) != QUERN_OK) {
        int64_t pause_ms = watch->pause_ms == 0 ? PAUSE_MS_MIN : 2 * watch->pause_ms;
        watch->pause_ms = qn_earlier(pause_ms, PAUSE_MS_MAX);
        watch->next_at_mono_ns = now_mono_ns + watch->pause_ms * QN_NS_PER_MS;
        log_refusal(worker, watch, limit_threads(worker, true), &err);
        return watch->pause_ms;
    }
    if (watch->pause_ms > 0) {
        end_shortage(worker, watch);
    }
    return -1;
}
