/* SPDX-License-Identifier: MIT */
/* groups.c - the thread of a worker that aggregates groups.
 *
 * The loop is schedule/group/aggregator.c; here it gets what it needs of the worker. The thread of
 * the leases extends the lease of its set, the keeper checks its timeout. An aggregator that does
 * not end at shutdown is treated like a handler: its set goes back, its thread is left alone. */
#include "worker/groups.h"

#include "base/thread.h"
#include "worker/internal.h"
#include "worker/run/mux.h"
#include "worker/run/report.h"

static bool may_take(void *user)
{
    struct quern_worker *worker = user;
    (void)pthread_mutex_lock(&worker->mutex);
    bool running = worker->state == QN_WORKER_RUNNING;
    (void)pthread_mutex_unlock(&worker->mutex);
    return running && !atomic_load(&worker->quiet);
}

static int64_t note_answer(quern_status status, const quern_error *error, void *user)
{
    struct quern_worker *worker = user;
    struct qn_backoff *backoff = &worker->groups.backoff;
    if (status == QUERN_OK) {
        qn_backoff_end(backoff);
        return 0;
    }
    qn_backoff_fail(backoff, error);
    return atomic_load(&backoff->retry_at_mono_ns);
}

/* A shutdown may wait for it, and a worker that ends by itself. */
static void note_settled(void *user)
{
    struct quern_worker *worker = user;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->look = true;
    qn_signals_wake_pump(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    qn_signals_wake_main(worker);
}

static void *groups_main(void *argument)
{
    struct quern_worker *worker = argument;
    qn_aggregator_run(&worker->groups.aggregator);
    return NULL;
}

quern_status qn_groups_start(struct quern_worker *worker, quern_error *err)
{
    struct qn_worker_groups *groups = &worker->groups;
    const struct qn_group_table *table = qn_mux_groups(worker->mux);
    if (table->count == 0) {
        return QUERN_OK;
    }
    const struct qn_aggregator_spec spec = {
        .broker = worker->broker,
        .clock = worker->clock,
        .table = table,
        .queues = qn_worker_names(worker),
        .worker_id = worker->id,
        .lease_ms = worker->options.lease_ms,
        .ignores_rests = worker->options.until_idle,
        .launcher = worker->launcher,
        .log = &worker->log,
        .may_take = may_take,
        .on_answer = note_answer,
        .on_unusable = qn_report_unusable,
        .on_settled = note_settled,
        .user = worker,
    };
    quern_status status = qn_aggregator_init(&groups->aggregator, &spec, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_backoff_init(&groups->backoff, &worker->backoffs);
    status = qn_thread_start(&groups->thread, "quern-groups", groups_main, worker, err);
    if (status != QUERN_OK) {
        qn_backoff_finish(&groups->backoff);
        qn_aggregator_finish(&groups->aggregator);
        return status;
    }
    groups->served = true;
    return QUERN_OK;
}

void qn_groups_stop(struct quern_worker *worker)
{
    if (worker->groups.served) {
        qn_aggregator_end(&worker->groups.aggregator);
    }
}

bool qn_groups_join(struct quern_worker *worker, int64_t wait_ms)
{
    struct qn_worker_groups *groups = &worker->groups;
    if (!groups->served) {
        return true;
    }
    if (!qn_aggregator_wait(&groups->aggregator, qn_clock_mono_ns() + wait_ms * QN_NS_PER_MS)) {
        return false;
    }
    (void)pthread_join(groups->thread, NULL);
    qn_backoff_finish(&groups->backoff);
    qn_aggregator_finish(&groups->aggregator);
    groups->served = false;
    return true;
}
