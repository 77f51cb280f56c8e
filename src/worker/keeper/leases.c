/* SPDX-License-Identifier: MIT */
/* leases.c - the thread that keeps the leases of all held runs alive.
 *
 * A third of a lease after its latest request it sends the next, and does nothing else, on a
 * channel of the broker that is for this alone: so neither a slow answer to another call nor work
 * of this process can make an extension late. When the broker does not answer, it tries again after
 * a backoff that is never longer than the usual pace, and at once when another thread gets an
 * answer. With no run to hold it still keeps the channel open; between two extensions that are far
 * apart it looks whether the channel is alive, so that the next one finds a good one.
 *
 * The lease of a set of a group that is being aggregated is extended at the same pace.
 *
 * It asks in large batches, each run once a round, also for runs whose outcome the broker has not
 * confirmed yet. A lease that turns out to be lost cancels its run, because the task may belong to
 * another run by now. The run stays in the table until its handler ends, because a success may
 * still be salvaged. The same answer carries cancellations whose message did not reach the
 * listener. */
#include "worker/keeper/leases.h"

#include "base/bug.h"
#include "base/cond.h"
#include "worker/internal.h"
#include "worker/run/give_back.h"

/* In one request: where answers come late, those of a second request would come later still. */
enum {
    EXTENSIONS_MAX = 1024,
    AGAIN_MS = 500, /* where a server of several has not answered */
    LOOK_MS = 4000  /* the longest time without a word on the channel */
};

struct batch {
    struct quern_run *runs[EXTENSIONS_MAX]; /* each with a reference */
    struct qn_extension extensions[EXTENSIONS_MAX];
    size_t count;
    int64_t until_boot_ms; /* leases that were extended hold at least until then */
};

/* Runs that have not been part of this round. A run that was acked early has no lease. */
static void collect(struct quern_worker *worker, uint64_t round, struct batch *batch)
{
    batch->count = 0;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held && batch->count < EXTENSIONS_MAX;
         node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (run->extend_round == round || run->lost || run->acked) {
            continue;
        }
        run->extend_round = round;
        run->references++;
        batch->runs[batch->count] = run;
        batch->extensions[batch->count++] = (struct qn_extension){.run = run->leased};
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* With mutex held. A finished run is left alone: its outcome may have been applied while the
 * extension was in flight, and if not, the answer to the outcome will show it. */
static bool take_in(struct quern_worker *worker, struct quern_run *run,
                    const struct qn_extension *extension, int64_t until_boot_ms)
{
    bool alive = run->phase == QN_RUN_WAITING || run->phase == QN_RUN_RUNNING;
    if (!alive || run->acked) {
        return false;
    }
    if (!extension->held) {
        run->lost = true;
        worker->stats.lost_leases++;
        qn_give_back_cancelled(worker, run, QN_REASON_LEASE_LOST);
        return true;
    }
    run->lease_until_boot_ms = until_boot_ms;
    run->lease_unsure = false;
    switch (extension->cancel) {
    case QN_CANCEL_NONE:
        break;
    case QN_CANCEL_RETRY:
        qn_give_back_cancelled(worker, run, QN_REASON_OPERATOR_RETRY);
        break;
    case QN_CANCEL_ARCHIVE:
        qn_give_back_cancelled(worker, run, QN_REASON_OPERATOR_ARCHIVE);
        break;
    }
    return false;
}

/* Returns whether all are known. */
static bool settle(struct quern_worker *worker, struct batch *batch, bool answered)
{
    bool known = true;
    bool lost[EXTENSIONS_MAX] = {false};
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; answered && i < batch->count; i++) {
        bool unanswered = batch->extensions[i].unanswered;
        known = known && !unanswered;
        lost[i] = !unanswered &&
                  take_in(worker, batch->runs[i], &batch->extensions[i], batch->until_boot_ms);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    for (size_t i = 0; i < batch->count; i++) {
        char trace[QN_TRACE_ID_SIZE];
        if (lost[i]) {
            QN_LOG(&worker->log, QUERN_LOG_WARN, "lease lost",
                   QN_LOG_TEXT("queue", quern_run_queue(batch->runs[i])),
                   QN_LOG_TEXT("id", quern_run_task_id(batch->runs[i])),
                   QN_LOG_TEXT("trace_id", qn_run_trace_id(batch->runs[i], trace)));
        }
    }
    qn_run_release_all(batch->runs, batch->count, &worker->mutex);
    return known;
}

/* *ret_all: every server has answered. */
static quern_status extend_all(struct quern_worker *worker, uint64_t round, bool *ret_all,
                               quern_error *err)
{
    struct batch batch;
    *ret_all = true;
    quern_status status;
    do { /* also with no run: the channel is opened before it is needed */
        qn_beats_step(worker, QN_BEAT_LEASES);
        collect(worker, round, &batch);
        batch.until_boot_ms = qn_clock_boot_ms(worker->clock) + worker->options.lease_ms;
        status = qn_broker_extend(worker->broker, batch.extensions, batch.count,
                                  worker->options.lease_ms, err);
        *ret_all = settle(worker, &batch, status == QUERN_OK) && *ret_all;
    } while (status == QUERN_OK && batch.count == EXTENSIONS_MAX);
    if (status == QUERN_OK && *ret_all) {
        atomic_fetch_add(&worker->lease_rounds, 1);
    }
    return status;
}

/* True when the worker has stopped. */
static bool sleep_until(struct quern_worker *worker, int64_t until_mono_ns)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool in_time = true;
    while (worker->state != QN_WORKER_STOPPED && !worker->signals.leases_signalled && in_time) {
        in_time = qn_cond_wait_until(&worker->signals.leases_cond, &worker->mutex, until_mono_ns);
    }
    worker->signals.leases_signalled = false;
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

/* The same, and keeps an eye on the channel. */
static bool watch_until(struct quern_worker *worker, int64_t until_mono_ns)
{
    int64_t look_mono_ns = qn_clock_mono_ns() + LOOK_MS * QN_NS_PER_MS;
    while (look_mono_ns < until_mono_ns) {
        if (sleep_until(worker, look_mono_ns)) {
            return true;
        }
        if (qn_clock_mono_ns() < look_mono_ns ||
            qn_broker_extend(worker->broker, NULL, 0, worker->options.lease_ms, NULL) != QUERN_OK) {
            return false; /* a round is due at once */
        }
        look_mono_ns = qn_clock_mono_ns() + LOOK_MS * QN_NS_PER_MS;
    }
    return sleep_until(worker, until_mono_ns);
}

void *qn_leases_main(void *argument)
{
    struct quern_worker *worker = argument;
    struct qn_backoff backoff;
    qn_backoff_init(&backoff, &worker->backoffs);
    backoff.is_witness = true;
    int64_t until_mono_ns;
    uint64_t round = 0;
    do {
        quern_error error = {0};
        int64_t pace_ms =
            QN_BUG(EXTENDED_LATE) ? 4 * worker->options.lease_ms : worker->options.lease_ms / 3;
        until_mono_ns = qn_clock_mono_ns() + pace_ms * QN_NS_PER_MS;
        bool all = true;
        quern_status status = extend_all(worker, ++round, &all, &error);
        if (status == QUERN_OK && worker->groups.served) {
            status = qn_aggregator_extend(&worker->groups.aggregator, &error);
        }
        if (status == QUERN_OK) {
            qn_backoff_end(&backoff);
            until_mono_ns =
                all ? until_mono_ns
                    : qn_earlier(until_mono_ns, qn_clock_mono_ns() + AGAIN_MS * QN_NS_PER_MS);
        } else {
            qn_backoff_fail(&backoff, &error);
            until_mono_ns = qn_earlier(until_mono_ns, atomic_load(&backoff.retry_at_mono_ns));
        }
        qn_beats_sleep(worker, QN_BEAT_LEASES, until_mono_ns);
    } while (!watch_until(worker, until_mono_ns));
    qn_beats_end(worker, QN_BEAT_LEASES);
    qn_backoff_finish(&backoff);
    return NULL;
}
