/* SPDX-License-Identifier: MIT */
/* leases.c - keeps the leases of all held runs alive.
 *
 * In large batches, each run once a round, also runs whose outcome the broker has not confirmed
 * yet. A lease that turns out to be lost cancels its run: somebody else may have the task by now.
 * The run stays in the books until its handler ends, because a success may still be salvaged. The
 * same answer carries cancellations whose message did not reach the listener. */
#include "worker/internal.h"

/* In one request: where answers come late, those of a second one would come later still. */
enum { EXTENSIONS_MAX = 1024 };

struct batch {
    struct quern_run *runs[EXTENSIONS_MAX]; /* each with a reference */
    struct qn_extension extensions[EXTENSIONS_MAX];
    size_t count;
    int64_t until_boot_ms; /* leases that were prolonged hold at least until then */
};

/* Runs that have not been part of this round. A run that is acked early has no lease. */
static void collect(struct quern_worker *worker, struct batch *batch)
{
    batch->count = 0;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->books.held;
    for (struct qn_list *node = held->next; node != held && batch->count < EXTENSIONS_MAX;
         node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (run->extend_round == worker->extend_round || run->lost || run->acked) {
            continue;
        }
        run->extend_round = worker->extend_round;
        run->references++;
        batch->runs[batch->count] = run;
        batch->extensions[batch->count++] = (struct qn_extension){.run = run->leased};
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* With mutex held. A finished run is left alone: its outcome may have been applied while the
 * extension was under way, and if not, the broker will say so. */
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
        qn_worker_cancel_run(worker, run, QN_REASON_LEASE_LOST);
        return true;
    }
    run->lease_until_boot_ms = until_boot_ms;
    run->lease_unsure = false;
    switch (extension->cancel) {
    case QN_CANCEL_NONE:
        break;
    case QN_CANCEL_RETRY:
        qn_worker_cancel_run(worker, run, QN_REASON_OPERATOR_RETRY);
        break;
    case QN_CANCEL_ARCHIVE:
        qn_worker_cancel_run(worker, run, QN_REASON_OPERATOR_ARCHIVE);
        break;
    }
    return false;
}

static void settle(struct quern_worker *worker, struct batch *batch, bool answered)
{
    bool lost[EXTENSIONS_MAX] = {false};
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; answered && i < batch->count; i++) {
        lost[i] = take_in(worker, batch->runs[i], &batch->extensions[i], batch->until_boot_ms);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    for (size_t i = 0; i < batch->count; i++) {
        if (lost[i]) {
            QN_LOG(&worker->log, QUERN_LOG_WARN, "lease lost",
                   QN_LOG_TEXT("queue", quern_run_queue(batch->runs[i])),
                   QN_LOG_TEXT("id", quern_run_task_id(batch->runs[i])));
        }
    }
    qn_worker_release_runs(worker, batch->runs, batch->count);
}

quern_status qn_leases_extend(struct quern_worker *worker, quern_error *err)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->extend_round++;
    (void)pthread_mutex_unlock(&worker->mutex);
    struct batch batch;
    quern_status status;
    do { /* also with no run: the channel is opened before it is needed */
        collect(worker, &batch);
        batch.until_boot_ms = qn_clock_boot_ms(worker->clock) + worker->options.lease_ms;
        status = qn_broker_extend(worker->broker, batch.extensions, batch.count,
                                  worker->options.lease_ms, err);
        settle(worker, &batch, status == QUERN_OK);
    } while (status == QUERN_OK && batch.count == EXTENSIONS_MAX);
    return status;
}
