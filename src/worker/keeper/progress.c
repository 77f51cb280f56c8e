/* SPDX-License-Identifier: MIT */
/* progress.c - stores the progress of commands.
 *
 * The thread of a command also feeds and cancels it, and must not wait for the broker. So it only
 * posts the progress to its run, and here the latest of each run is stored, once a second at most.
 * A call takes SPEND_MS, then the other timers are looked at. In a round each run has its turn,
 * also where that of another fails; a call that ends before its round is continued by the next.
 * What a run posts in its last second may never be stored: its end removes the progress anyway. */
#include "worker/keeper/progress.h"

#include "worker/internal.h"

enum { BATCH_MAX = 64, SPEND_MS = 100 };

struct batch {
    struct quern_run *runs[BATCH_MAX]; /* each with a reference */
    size_t count;
};

/* Running ones that had no turn in this round. */
static void collect(struct quern_worker *worker, struct batch *batch)
{
    batch->count = 0;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held && batch->count < BATCH_MAX;
         node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        if (run->phase == QN_RUN_RUNNING && !run->lost && !run->acked &&
            run->progress_round != worker->keeper.progress_round) {
            run->references++;
            batch->runs[batch->count++] = run;
        }
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* The first `handled` runs had their turn. */
static void release(struct quern_worker *worker, const struct batch *batch, size_t handled)
{
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < batch->count; i++) {
        if (i < handled) {
            batch->runs[i]->progress_round = worker->keeper.progress_round;
        }
        qn_run_release(batch->runs[i]);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* A run whose lease is lost has no progress any more. */
static quern_status store_one(struct quern_worker *worker, struct quern_run *run, quern_error *err)
{
    struct qn_progress progress;
    if (!qn_run_take_progress(run, &progress)) {
        return QUERN_OK;
    }
    quern_status status =
        qn_broker_write_progress(worker->broker, run->leased, progress.percent,
                                 progress.note[0] != '\0' ? progress.note : NULL, err);
    if (status == QUERN_OK || status == QUERN_E_STALE) {
        return QUERN_OK;
    }
    qn_run_untake_progress(run);
    return status;
}

/* *ret_done: every run had its turn. */
static quern_status store_round(struct quern_worker *worker, bool *ret_done, quern_error *err)
{
    int64_t until_mono_ns = qn_clock_mono_ns() + SPEND_MS * QN_NS_PER_MS;
    quern_status status = QUERN_OK;
    bool in_time = true;
    bool more = true;
    while (more && status == QUERN_OK && in_time) {
        struct batch batch;
        size_t handled = 0;
        collect(worker, &batch);
        while (handled < batch.count && status == QUERN_OK && in_time) {
            status = store_one(worker, batch.runs[handled++], err);
            in_time = qn_clock_mono_ns() < until_mono_ns;
        }
        release(worker, &batch, handled);
        more = batch.count == BATCH_MAX || handled < batch.count;
    }
    *ret_done = !more;
    return status;
}

quern_status qn_progress_store(struct quern_worker *worker, quern_error *err)
{
    struct qn_keeper *keeper = &worker->keeper;
    if (!atomic_exchange(&worker->progress_posted, false)) {
        return QUERN_OK;
    }
    bool done = false;
    quern_status status = store_round(worker, &done, err);
    /* In a round of several calls a run may have posted again after its turn. */
    keeper->progress_left = keeper->progress_left || status != QUERN_OK || !done;
    if (keeper->progress_left) {
        atomic_store(&worker->progress_posted, true);
    }
    if (done) {
        keeper->progress_round++;
        keeper->progress_left = false;
    }
    return status;
}
