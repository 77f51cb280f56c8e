/* SPDX-License-Identifier: MIT */
/* solo.c - the state machine of solo.h.
 *
 * While the lock is held nothing else is fetched, and runs that have not started are given back.
 * The lock is a lease: exchanges extend it, and recovery takes it from a worker that dies. The
 * task gets company again when its run has lived longer than at any of its deaths, so a long run
 * keeps the other slots empty for a moment only. */
#include "worker/fetch/solo.h"

#include "worker/internal.h"
#include "worker/run/give_back.h"

enum { KEEP_MS = QN_SOLO_MS / 3, DOUBT_MS_MAX = 1000, DOUBT_MS_MIN = 100 };

bool qn_solo_is_idle(const struct qn_solo_state *solo)
{
    return solo->phase == QN_SOLO_IDLE;
}

static bool serves(const struct quern_worker *worker)
{
    return worker->state == QN_WORKER_RUNNING && !atomic_load(&worker->quiet);
}

static void set_solo(struct qn_exchange_request *request, enum qn_solo what, uint32_t queue)
{
    request->exchange.solo = what;
    request->exchange.solo_queue = queue;
}

/* Whether the other runs have not ended for as long as it waits for them. */
static bool is_in_vain(const struct qn_solo_state *solo, int64_t now_mono_ns)
{
    return solo->phase == QN_SOLO_CLEARING &&
           now_mono_ns - solo->taken_at_mono_ns > solo->patience_ms * QN_NS_PER_MS;
}

static void begin_rest(struct qn_solo_state *solo, int64_t now_mono_ns)
{
    int64_t patience_ms = is_in_vain(solo, now_mono_ns) ? 2 * solo->patience_ms : QN_SOLO_MS;
    *solo = (struct qn_solo_state){.rest_until_mono_ns =
                                       now_mono_ns + (now_mono_ns - solo->taken_at_mono_ns),
                                   .patience_ms = patience_ms};
}

/* The next request to the broker; QN_SOLO_NONE: none yet. */
static enum qn_solo choose_solo(struct quern_worker *worker, bool other_is_open,
                                int64_t now_mono_ns)
{
    const struct qn_solo_state *solo = &worker->pump.solo;
    const struct qn_run_table *table = &worker->run_table;
    bool is_over = !serves(worker) || worker->paused[solo->queue];
    switch (solo->phase) {
    case QN_SOLO_IDLE:
        return QN_SOLO_NONE;
    case QN_SOLO_CLEARING:
        if (is_over || is_in_vain(solo, now_mono_ns)) {
            return QN_SOLO_END;
        }
        if (table->held_count == 0 && !other_is_open && worker->pump.unplaced_count == 0) {
            return QN_SOLO_RUN;
        }
        break;
    case QN_SOLO_RUNNING:
        if (is_over || table->waiting_count + table->running_count == 0 ||
            now_mono_ns >= solo->company_at_mono_ns) {
            return QN_SOLO_END;
        }
        break;
    case QN_SOLO_ENDING:
        return QN_SOLO_END;
    }
    return now_mono_ns >= solo->keep_at_mono_ns ? QN_SOLO_KEEP : QN_SOLO_NONE;
}

void qn_solo_plan(struct quern_worker *worker, struct qn_exchange_request *request,
                  int64_t now_mono_ns)
{
    struct qn_solo_state *solo = &worker->pump.solo;
    if (request != &worker->pump.first) {
        return;
    }
    bool other_is_open = worker->pump.second.open || worker->pump.leftovers.first != NULL;
    enum qn_solo what = choose_solo(worker, other_is_open, now_mono_ns);
    set_solo(request, what, solo->queue);
    if (what == QN_SOLO_END) {
        begin_rest(solo, now_mono_ns);
        worker->clearing = false;
    }
}

void qn_solo_ask(struct quern_worker *worker, struct qn_exchange_request *request,
                 int64_t now_mono_ns)
{
    const struct qn_pump *pump = &worker->pump;
    bool may = request == &pump->first && request->exchange.solo == QN_SOLO_NONE &&
               qn_solo_is_idle(&pump->solo) && now_mono_ns >= pump->solo.rest_until_mono_ns;
    if (may && request->exchange.isolation.slots > 1) {
        set_solo(request, QN_SOLO_ASK, 0);
    }
}

static void set_clearing(struct quern_worker *worker, bool clearing)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->clearing = clearing;
    if (clearing) {
        (void)qn_give_back_waiting(worker, qn_clock_mono_ns());
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void begin_clearing(struct quern_worker *worker, uint32_t queue, int64_t now_mono_ns)
{
    int64_t patience_ms = worker->pump.solo.patience_ms;
    worker->pump.solo =
        (struct qn_solo_state){.phase = QN_SOLO_CLEARING,
                               .queue = queue,
                               .taken_at_mono_ns = now_mono_ns,
                               .keep_at_mono_ns = now_mono_ns + KEEP_MS * QN_NS_PER_MS,
                               .patience_ms = patience_ms > 0 ? patience_ms : QN_SOLO_MS};
    set_clearing(worker, true);
    QN_LOG(&worker->log, QUERN_LOG_INFO, "a task charged with several deaths runs alone next",
           QN_LOG_TEXT("queue", worker->queue_names[queue]));
}

static void begin_run(struct quern_worker *worker, const struct qn_leased *leased,
                      int64_t now_mono_ns)
{
    struct qn_solo_state *solo = &worker->pump.solo;
    int64_t doubt_ms = leased->life_ms < DOUBT_MS_MAX ? leased->life_ms : DOUBT_MS_MAX;
    solo->phase = QN_SOLO_RUNNING;
    solo->company_at_mono_ns =
        now_mono_ns + (leased->life_ms + doubt_ms + DOUBT_MS_MIN) * QN_NS_PER_MS;
    set_clearing(worker, false);
}

static void lose_lock(struct quern_worker *worker, int64_t now_mono_ns)
{
    begin_rest(&worker->pump.solo, now_mono_ns);
    set_clearing(worker, false);
}

void qn_solo_answer(struct quern_worker *worker, const struct qn_exchange_request *request,
                    int64_t now_mono_ns)
{
    struct qn_solo_state *solo = &worker->pump.solo;
    bool has_queue = request->exchange.solo_queue < worker->queue_count;
    switch (request->exchange.solo) {
    case QN_SOLO_NONE:
    case QN_SOLO_END:
        break;
    case QN_SOLO_ASK:
        if (has_queue) {
            begin_clearing(worker, request->exchange.solo_queue, now_mono_ns);
        }
        break;
    case QN_SOLO_KEEP:
    case QN_SOLO_RUN:
        solo->keep_at_mono_ns = now_mono_ns + KEEP_MS * QN_NS_PER_MS;
        if (!has_queue) {
            lose_lock(worker, now_mono_ns);
        } else if (request->reply.run_count > 0) {
            begin_run(worker, request->leased[0], now_mono_ns);
        } else if (request->exchange.solo == QN_SOLO_RUN) {
            solo->phase = QN_SOLO_ENDING;
        }
        break;
    }
}

int64_t qn_solo_moment(const struct qn_solo_state *solo)
{
    switch (solo->phase) {
    case QN_SOLO_IDLE:
        return solo->rest_until_mono_ns != 0 ? solo->rest_until_mono_ns : INT64_MAX;
    case QN_SOLO_CLEARING:
        return solo->keep_at_mono_ns;
    case QN_SOLO_RUNNING:
        return qn_earlier(solo->keep_at_mono_ns, solo->company_at_mono_ns);
    case QN_SOLO_ENDING:
        break;
    }
    return 0;
}

bool qn_solo_rest_is_over(struct qn_solo_state *solo, int64_t now_mono_ns)
{
    bool is_over = solo->phase == QN_SOLO_IDLE && solo->rest_until_mono_ns != 0 &&
                   now_mono_ns >= solo->rest_until_mono_ns;
    if (is_over) {
        solo->rest_until_mono_ns = 0;
    }
    return is_over;
}
