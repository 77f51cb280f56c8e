/* SPDX-License-Identifier: MIT */
/* worker.c - a worker from its birth to its end: opens the broker, starts the threads, waits.
 *
 * The thread that calls quern_worker_run starts pump, keeper, listener and pool, and then sleeps at
 * an eventfd, the bell (steer.c). When told to stop it drains (shutdown.c), ends the threads and
 * takes the heartbeat away.
 *
 * A worker whose handlers did not end in time is left as it is: their threads still use it. */
#include "quern/worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "pool/thread.h"
#include "worker/internal.h"

enum { THREADS_END_MS = 200, LAST_WAIT_MS = 1000 };

/* The broker answers somebody: nobody waits for the end of a backoff. */
static void wake_all(void *user)
{
    struct quern_worker *worker = user;
    (void)pthread_mutex_lock(&worker->mutex);
    qn_pump_poke(worker);
    qn_keeper_poke(worker);
    worker->holder_poked = true; /* leases may be nearly over, and its channel closed */
    (void)pthread_cond_broadcast(&worker->second_cond);
    (void)pthread_cond_broadcast(&worker->holder_cond);
    (void)pthread_cond_broadcast(&worker->listener_cond);
    (void)pthread_mutex_unlock(&worker->mutex);
}

static void init_locks(struct quern_worker *worker)
{
    qn_cond_init(&worker->pump_cond);
    qn_cond_init(&worker->second_cond);
    qn_cond_init(&worker->keeper_cond);
    qn_cond_init(&worker->holder_cond);
    qn_cond_init(&worker->listener_cond);
    (void)pthread_mutex_init(&worker->mutex, NULL);
    (void)pthread_mutex_init(&worker->turn_mutex, NULL);
    (void)pthread_mutex_init(&worker->plan_mutex, NULL);
    (void)pthread_mutex_init(&worker->ack_mutex, NULL);
    qn_outages_init(&worker->outages, &worker->log, wake_all, worker);
}

static void finish_locks(struct quern_worker *worker)
{
    qn_outages_finish(&worker->outages);
    (void)pthread_mutex_destroy(&worker->ack_mutex);
    (void)pthread_mutex_destroy(&worker->plan_mutex);
    (void)pthread_mutex_destroy(&worker->turn_mutex);
    (void)pthread_mutex_destroy(&worker->mutex);
    (void)pthread_cond_destroy(&worker->listener_cond);
    (void)pthread_cond_destroy(&worker->holder_cond);
    (void)pthread_cond_destroy(&worker->keeper_cond);
    (void)pthread_cond_destroy(&worker->second_cond);
    (void)pthread_cond_destroy(&worker->pump_cond);
}

static quern_status init_identity(struct quern_worker *worker, quern_error *err)
{
    struct qn_id_source ids;
    qn_id_source_init(&ids);
    worker->started_at_ms = qn_clock_wall_ms(worker->clock);
    qn_id_next(&ids, worker->started_at_ms, worker->id);
    worker->opener_pid = getpid();
    if (worker->options.host != NULL) {
        (void)snprintf(worker->host, sizeof worker->host, "%s", worker->options.host);
        worker->options.host = worker->host;
    } else if (gethostname(worker->host, sizeof worker->host - 1) != 0) {
        (void)memcpy(worker->host, "unknown", sizeof "unknown");
    }
    return qn_owner_self(worker->owner, err);
}

static void init_pump(struct quern_worker *worker)
{
    struct qn_pump *pump = &worker->pump;
    uint32_t weights[QN_QUEUES_MAX];
    for (size_t i = 0; i < worker->queue_count; i++) {
        weights[i] = worker->options.queues[i].weight;
    }
    qn_random_init(&worker->random);
    qn_choice_init(&pump->choice, weights, worker->queue_count,
                   worker->options.strict_priority != 0, &worker->random);
    qn_fetch_init(&pump->fetch, worker->options.concurrency);
    qn_unknown_init(&pump->unknown);
    qn_outage_init(&pump->outage, &worker->outages);
    qn_outage_init(&pump->forward_outage, &worker->outages);
    qn_outage_init(&pump->second_outage, &worker->outages);
    pump->forward_outage.is_lazy = true;
    pump->second_outage.is_lazy = true; /* what it failed to send, the pump sends */
    worker->ack_stamp.session = qn_random_next(&worker->random);
    pump->next_due_at_ms = INT64_MAX;
    worker->look = true;
    worker->keeper_until_mono_ns = INT64_MAX;
    qn_books_init(&worker->books);
}

/* Everything of a worker that has no threads. */
static void dismantle(struct quern_worker *worker)
{
    qn_broker_close(worker->broker);
    qn_worker_forget_url(worker);
    if (worker->bell >= 0) {
        (void)close(worker->bell);
    }
    qn_turns_finish(worker);
    qn_fetch_finish(&worker->pump.fetch);
    qn_unknown_finish(&worker->pump.unknown);
    qn_worker_options_finish(worker);
    qn_log_finish(&worker->log);
    finish_locks(worker);
    qn_free(worker);
}

quern_status quern_worker_new_sized(const char *url, const quern_mux *mux,
                                    const quern_worker_options *options, size_t options_size,
                                    quern_worker **ret_worker, quern_error *err)
{
    if (url == NULL || mux == NULL || ret_worker == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "worker: url, mux or ret_worker is NULL");
    }
    struct quern_worker *worker = qn_alloc_zero(1, sizeof *worker);
    if (worker == NULL) {
        return qn_error_nomem(err);
    }
    worker->mux = mux;
    worker->bell = -1;
    init_locks(worker);
    quern_status status = qn_worker_options_read(worker, url, options, options_size, err);
    qn_log_init(&worker->log,
                worker->options.on_log != NULL ? worker->options.on_log : qn_log_to_stderr,
                worker->options.user);
    if (status != QUERN_OK) {
        goto fail;
    }
    worker->clock = worker->options.clock != NULL ? worker->options.clock : qn_clock_system();
    worker->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->bell < 0) {
        status = qn_error_set(err, QUERN_E_FULL, "no descriptor: %s", strerror(errno));
        goto fail;
    }
    status = init_identity(worker, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    init_pump(worker);
    status = qn_turns_init(worker, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    status = qn_worker_open(worker, url, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    *ret_worker = worker;
    return QUERN_OK;

fail:
    dismantle(worker);
    return status;
}

/* Ends the threads that were started: the first `count` of them. */
static void end_threads(struct quern_worker *worker, const pthread_t *threads, size_t count)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->state = QN_WORKER_STOPPED;
    (void)pthread_cond_broadcast(&worker->pump_cond);
    (void)pthread_cond_broadcast(&worker->second_cond);
    (void)pthread_cond_broadcast(&worker->keeper_cond);
    (void)pthread_cond_broadcast(&worker->holder_cond);
    (void)pthread_cond_broadcast(&worker->listener_cond);
    (void)pthread_mutex_unlock(&worker->mutex);
    qn_broker_interrupt(worker->broker);
    for (size_t i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

static quern_status run_threads(struct quern_worker *worker, quern_error *err)
{
    static const struct {
        const char *name;
        void *(*entry)(void *);
    } starts[] = {{"quern-pump", qn_pump_main},
                  {"quern-leases", qn_holder_main},
                  {"quern-keeper", qn_keeper_main},
                  {"quern-listener", qn_listener_main},
                  {"quern-second", qn_second_main}};
    pthread_t threads[sizeof starts / sizeof starts[0]];
    size_t wanted = sizeof starts / sizeof starts[0];
    wanted -= qn_broker_exchanges_max(worker->broker) < QN_EXCHANGES_MAX ? 1 : 0;
    size_t count = 0;
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && count < wanted) {
        status =
            qn_thread_start(&threads[count], starts[count].name, starts[count].entry, worker, err);
        count += status == QUERN_OK ? 1 : 0;
    }
    if (status == QUERN_OK) {
        status = qn_steer_until_stopped(worker, err);
    }
    qn_worker_shut_down(worker);
    qn_worker_hurry(worker, true);
    end_threads(worker, threads, count);
    if (!qn_worker_is_lost(worker, NULL)) {
        qn_worker_tell_untold(worker);
    }
    return status;
}

/* Once, by the process that made it. */
static quern_status claim(struct quern_worker *worker, quern_error *err)
{
    if (getpid() != worker->opener_pid) {
        return qn_error_set(err, QUERN_E_CLOSED, "worker belongs to the process that forked");
    }
    (void)pthread_mutex_lock(&worker->mutex);
    bool fresh = worker->state == QN_WORKER_NEW;
    if (fresh) {
        worker->state = QN_WORKER_RUNNING;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return fresh ? QUERN_OK : qn_error_set(err, QUERN_E_STATE, "worker has run already");
}

/* Makes `pool` the one of the worker, and returns the one before. */
static struct qn_pool *swap_pool(struct quern_worker *worker, struct qn_pool *pool)
{
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_pool *before = worker->pool;
    worker->pool = pool;
    (void)pthread_mutex_unlock(&worker->mutex);
    return before;
}

/* Ends the pool; false: handlers still run, and use the worker. Meanwhile the worker has
 * none: statistics must not look at a pool that is being freed. */
static bool end_pool(struct quern_worker *worker, int64_t wait_ms)
{
    struct qn_pool *pool = swap_pool(worker, NULL);
    if (pool == NULL) {
        return true;
    }
    if (!qn_pool_stop(pool, qn_clock_mono_ns() + wait_ms * QN_NS_PER_MS)) {
        (void)swap_pool(worker, pool);
        return false;
    }
    qn_mux_thaw(worker->mux);
    return true;
}

quern_status quern_worker_run(quern_worker *worker, quern_error *err)
{
    quern_status status = claim(worker, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_pool *pool;
    bool stopped = false;
    status = qn_worker_begin(worker, &stopped, err);
    if (status != QUERN_OK || stopped) {
        return status;
    }
    status = qn_pool_new(worker->options.concurrency, &pool, err);
    if (status != QUERN_OK) {
        goto withdraw;
    }
    qn_mux_freeze(worker->mux);
    worker->shares_process = qn_mux_shares_process(worker->mux);
    (void)swap_pool(worker, pool);
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker starts", QN_LOG_TEXT("worker", worker->id),
           QN_LOG_TEXT("queues", worker->queues_text),
           QN_LOG_NUMBER("concurrency", worker->options.concurrency));
    qn_unknown_say_served(worker);
    qn_worker_tell_queues(worker);
    status = run_threads(worker, err);
    bool ended = end_pool(worker, THREADS_END_MS);
    quern_error lost;
    if (status == QUERN_OK && qn_worker_is_lost(worker, &lost)) {
        status = qn_error_set(err, lost.code, "%s", lost.text);
    }
    if (status == QUERN_OK && !ended) {
        status =
            qn_error_set(err, QUERN_E_TIMEOUT,
                         "handlers were still running at the end; their tasks were given back");
    } else if (!ended) {
        status = QUERN_E_TIMEOUT; /* err says why it ended; its handlers still use it */
        if (err != NULL) {
            err->code = status;
        }
    }

withdraw:
    qn_worker_hurry(worker, true);
    /* If this fails the record stays until somebody finds that its process is gone. */
    quern_error refused = {0};
    if (qn_broker_deregister(worker->broker, worker->id, &refused) != QUERN_OK) {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "heartbeat could not be withdrawn",
               QN_LOG_TEXT("worker", worker->id), QN_LOG_TEXT("error", refused.text));
    }
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker ends", QN_LOG_TEXT("worker", worker->id));
    return status;
}

void quern_worker_stats_sized(quern_worker *worker, quern_worker_stats *ret_stats,
                              size_t stats_size)
{
    (void)pthread_mutex_lock(&worker->mutex);
    quern_worker_stats stats = worker->stats;
    stats.running = (uint32_t)worker->books.running_count;
    stats.quarantined = (uint32_t)worker->books.stuck_count;
    if (worker->pool != NULL) {
        stats.quarantined += (uint32_t)qn_pool_quarantined(worker->pool);
    }
    stats.ready = worker->state == QN_WORKER_RUNNING && worker->pool != NULL &&
                  !atomic_load(&worker->quiet) && !worker->braked && !qn_worker_is_stuck(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    memset(ret_stats, 0, stats_size);
    memcpy(ret_stats, &stats, stats_size < sizeof stats ? stats_size : sizeof stats);
}

void qn_worker_release_runs(struct quern_worker *worker, struct quern_run *const *runs,
                            size_t count)
{
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < count; i++) {
        qn_run_release(runs[i]);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Runs that the broker never heard the end of. */
static void drop_books(struct quern_worker *worker)
{
    struct qn_list *node = qn_list_shift(&worker->books.held);
    while (node != NULL) {
        qn_run_release(QN_CONTAINER_OF(node, struct quern_run, node));
        node = qn_list_shift(&worker->books.held);
    }
}

void quern_worker_free(quern_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    if (getpid() != worker->opener_pid || !end_pool(worker, LAST_WAIT_MS)) {
        return; /* leaked on purpose: its threads are not ours, or still use it */
    }
    drop_books(worker);
    dismantle(worker);
}
