/* SPDX-License-Identifier: MIT */
/* worker.c - a worker from its birth to its end: opens the broker, starts the threads, waits.
 *
 * The thread that calls quern_worker_run starts pump, keeper, listener and pool, and then sleeps at
 * an eventfd (control.c). When the worker is stopped it drains (shutdown.c), ends the threads and
 * deregisters the worker.
 *
 * A worker whose handlers did not end in time is left as it is: their threads still use it. */
#include "quern/worker.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/thread.h"
#include "worker/begin.h"
#include "worker/commands.h"
#include "worker/control.h"
#include "worker/fetch/listener.h"
#include "worker/fetch/second_pump.h"
#include "worker/groups.h"
#include "worker/internal.h"
#include "worker/keeper/data_loss.h"
#include "worker/keeper/leases.h"
#include "worker/options.h"
#include "worker/prefork/cgroup.h"
#include "worker/prefork/nursery.h"
#include "worker/prefork/remote.h"
#include "worker/queue_check.h"
#include "worker/run/mux.h"
#include "worker/run/stuck.h"
#include "worker/shutdown.h"

enum { THREADS_END_MS = 200, LAST_WAIT_MS = 1000 };

/* The broker answers again: no thread waits for the end of its backoff. */
static void wake_all(void *user)
{
    struct quern_worker *worker = user;
    (void)pthread_mutex_lock(&worker->mutex);
    qn_signals_wake_all(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (worker->groups.served) {
        qn_aggregator_wake(&worker->groups.aggregator);
    }
}

static void init_locks(struct quern_worker *worker)
{
    qn_signals_init(&worker->signals);
    (void)pthread_mutex_init(&worker->mutex, NULL);
    (void)pthread_mutex_init(&worker->pump.step_mutex, NULL);
    (void)pthread_mutex_init(&worker->pump.plan_mutex, NULL);
    (void)pthread_mutex_init(&worker->early_acks.mutex, NULL);
    qn_backoff_group_init(&worker->backoffs, &worker->log, wake_all, worker);
}

static void finish_locks(struct quern_worker *worker)
{
    qn_backoff_group_finish(&worker->backoffs);
    (void)pthread_mutex_destroy(&worker->early_acks.mutex);
    (void)pthread_mutex_destroy(&worker->pump.plan_mutex);
    (void)pthread_mutex_destroy(&worker->pump.step_mutex);
    (void)pthread_mutex_destroy(&worker->mutex);
    qn_signals_finish(&worker->signals);
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

/* A zygote has the mux that its children call. */
static quern_status choose_mux(struct quern_worker *worker, quern_error *err)
{
    quern_zygote *zygote = worker->options.zygote;
    worker->options.zygote = NULL;
    if (zygote != NULL) {
        quern_status status = qn_nursery_claim(zygote, worker->mux, &worker->mux, err);
        worker->options.zygote = status == QUERN_OK ? zygote : NULL;
        return status;
    }
    return worker->mux != NULL ? QUERN_OK
                               : qn_error_set(err, QUERN_E_INVALID, "mux: must not be NULL");
}

/* Frees a worker that has no threads. */
static void dismantle(struct quern_worker *worker)
{
    qn_broker_close(worker->broker);
    qn_begin_forget_url(worker);
    qn_hand_over_finish(worker);
    qn_pump_finish(worker);
    qn_options_finish(worker);
    qn_cgroup_close(worker);
    qn_log_finish(&worker->log);
    qn_health_finish(worker);
    qn_measure_finish(&worker->measures);
    finish_locks(worker);
    qn_free(worker);
}

quern_status quern_worker_new_sized(const char *url, const quern_mux *mux,
                                    const quern_worker_options *options, size_t options_size,
                                    quern_worker **ret_worker, quern_error *err)
{
    if (url == NULL || ret_worker == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            url == NULL ? "url" : "ret_worker");
    }
    struct quern_worker *worker = qn_alloc_zero(1, sizeof *worker);
    if (worker == NULL) {
        return qn_error_nomem(err);
    }
    worker->mux = mux;
    init_locks(worker);
    qn_health_init(worker);
    quern_status status = qn_options_read(worker, url, options, options_size, err);
    qn_log_init(&worker->log,
                worker->options.on_log != NULL ? worker->options.on_log : qn_log_to_stderr,
                worker->options.user);
    if (status == QUERN_OK) {
        status = qn_measure_init(&worker->measures, err);
    }
    if (status == QUERN_OK) {
        status = choose_mux(worker, err);
    }
    if (status == QUERN_OK) {
        status = qn_cgroup_open(worker, err);
    }
    if (status != QUERN_OK) {
        goto fail;
    }
    worker->clock = worker->options.clock != NULL ? worker->options.clock : qn_clock_system();
    status = qn_signals_open(&worker->signals, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    status = init_identity(worker, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    atomic_store(&worker->slots, worker->options.concurrency);
    qn_run_table_init(&worker->run_table, worker->options.concurrency);
    qn_random_init(&worker->random);
    worker->early_acks.stamp.session = qn_random_next(&worker->random);
    status = qn_pump_init(worker, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    status = qn_begin_open(worker, url, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    *ret_worker = worker;
    return QUERN_OK;

fail:
    if (worker->options.zygote != NULL) {
        qn_nursery_unclaim(worker->options.zygote);
    }
    dismantle(worker);
    return status;
}

/* Ends the threads that were started: the first `count` of them. */
static void end_threads(struct quern_worker *worker, const pthread_t *threads, size_t count)
{
    (void)pthread_mutex_lock(&worker->mutex);
    worker->state = QN_WORKER_STOPPED;
    qn_signals_wake_all(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    qn_groups_stop(worker);
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
                  {"quern-leases", qn_leases_main},
                  {"quern-keeper", qn_keeper_main},
                  {"quern-listener", qn_listener_main},
                  {"quern-second", qn_second_pump_main}};
    pthread_t threads[sizeof starts / sizeof starts[0]];
    size_t wanted = sizeof starts / sizeof starts[0];
    wanted -= qn_broker_exchanges_max(worker->broker) < QN_EXCHANGES_MAX ? 1 : 0;
    size_t count = 0;
    quern_status status = qn_groups_start(worker, err);
    while (status == QUERN_OK && count < wanted) {
        status =
            qn_thread_start(&threads[count], starts[count].name, starts[count].entry, worker, err);
        count += status == QUERN_OK ? 1 : 0;
    }
    if (status == QUERN_OK) {
        atomic_store(&worker->health.started, true);
        status = qn_control_until_stopped(worker, err);
    }
    bool passes = worker->hand_over.is_passing;
    if (!passes) {
        qn_shutdown_drain(worker);
    }
    qn_begin_hurry(worker, true);
    end_threads(worker, threads, count);
    if (!passes && !qn_data_loss_found(worker, NULL) && !qn_shutdown_has_fallen(worker)) {
        qn_shutdown_log_unconfirmed(worker);
    }
    return status;
}

/* A worker runs once, in the process that made it. */
static quern_status claim(struct quern_worker *worker, quern_error *err)
{
    if (worker == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "worker: must not be NULL");
    }
    if (getpid() != worker->opener_pid) {
        return qn_error_set(err, QUERN_E_CLOSED, "worker belongs to the process that forked");
    }
    (void)pthread_mutex_lock(&worker->mutex);
    bool fresh = worker->state == QN_WORKER_NEW;
    if (fresh) {
        worker->state = QN_WORKER_RUNNING;
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return fresh ? QUERN_OK : qn_error_set(err, QUERN_E_STATE, "worker has already run");
}

/* Makes `pool` the pool of the worker, and returns the pool before it. */
static struct qn_pool *swap_pool(struct quern_worker *worker, struct qn_pool *pool)
{
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_pool *before = worker->pool;
    worker->pool = pool;
    if (pool != NULL) {
        qn_pool_resize(pool, qn_worker_slots(worker)); /* that may have changed meanwhile */
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    return before;
}

/* Ends the pool; false: handlers still run, and use the worker. Meanwhile the worker has no pool,
 * because statistics must not read one that is being freed. */
static bool end_pool(struct quern_worker *worker, int64_t wait_ms)
{
    struct qn_pool *pool = swap_pool(worker, NULL);
    if (pool != NULL && !qn_pool_stop(pool, qn_clock_mono_ns() + wait_ms * QN_NS_PER_MS)) {
        (void)swap_pool(worker, pool);
        return false;
    }
    /* Then no thread answers a child any more. */
    if (!worker->hand_over.is_passing && !qn_remote_end(worker)) {
        return false;
    }
    if (pool != NULL) {
        qn_mux_thaw(worker->mux);
    }
    return true;
}

/* Its record stays, because its process does. A thread that did not end uses nothing of what is
 * passed on. If it fails, the children end, and their tasks are those of a worker that has died. */
static quern_status pass_on(struct quern_worker *worker, quern_status status, quern_error *err)
{
    if (status == QUERN_OK) {
        status = qn_hand_over_write(worker, err);
    }
    if (status != QUERN_OK) {
        (void)qn_remote_end(worker);
    }
    return status;
}

/* False: handlers still run. */
static bool end_runners(struct quern_worker *worker)
{
    bool groups_ended = qn_groups_join(worker, THREADS_END_MS);
    bool ended = end_pool(worker, THREADS_END_MS) && groups_ended;
    if (ended) {
        qn_commands_end(worker);
    }
    return ended;
}

/* The zygote of commands is asked for while the one of children can still answer. */
static quern_status start_children(struct quern_worker *worker, quern_error *err)
{
    quern_status status = qn_commands_prepare(worker, err);
    if (status == QUERN_OK) {
        status = qn_remote_start(worker, qn_hand_over_passed_on(worker), err);
    }
    if (status != QUERN_OK) {
        qn_hand_over_abandon(worker);
        return status;
    }
    return qn_commands_start(worker, err);
}

quern_status quern_worker_run(quern_worker *worker, quern_error *err)
{
    quern_status status = claim(worker, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_pool *pool;
    bool stopped = false;
    status = qn_begin_wait(worker, &stopped, err);
    if (status != QUERN_OK || stopped) {
        return status;
    }
    status = qn_pool_new(qn_worker_slots(worker), &pool, err);
    if (status != QUERN_OK) {
        goto deregister;
    }
    (void)swap_pool(worker, pool); /* children of the program before may send results at once */
    status = start_children(worker, err);
    if (status != QUERN_OK) {
        (void)qn_pool_stop(swap_pool(worker, NULL), INT64_MAX);
        goto deregister;
    }
    qn_mux_freeze(worker->mux);
    worker->is_mixed = worker->options.pool == QUERN_POOL_PREFORK && qn_mux_is_mixed(worker->mux);
    worker->only_aggregates = qn_mux_only_aggregates(worker->mux);
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker starts", QN_LOG_TEXT("worker", worker->id),
           QN_LOG_TEXT("queues", worker->queues_text),
           QN_LOG_NUMBER("concurrency", qn_worker_slots(worker)));
    qn_cgroup_log(worker);
    qn_hand_over_settle(worker);
    qn_unknown_log_served(worker);
    qn_queue_check_log(worker);
    status = run_threads(worker, err);
    bool ended = end_runners(worker);
    if (worker->hand_over.is_passing) {
        return pass_on(worker, status, err);
    }
    quern_error lost;
    if (status == QUERN_OK && qn_data_loss_found(worker, &lost)) {
        status = qn_error_set(err, lost.code, "%s", lost.text);
    }
    if (status == QUERN_OK && qn_remote_gone(worker, &lost)) {
        status = qn_error_set(err, lost.code, "%s", lost.text);
    }
    if (status == QUERN_OK && !ended) {
        status =
            qn_error_set(err, QUERN_E_TIMEOUT,
                         "handlers were still running at the end; their tasks were given back");
    } else if (!ended) {
        status = QUERN_E_TIMEOUT; /* err has the reason of its end; its handlers still use it */
        if (err != NULL) {
            err->code = status;
        }
    }

deregister:
    qn_begin_hurry(worker, true);
    /* If this fails the record stays until another worker finds that its process is gone. It stays
     * too if its zygote died: the end of a worker that leaves charges no task. */
    quern_error error = {0};
    if (!qn_shutdown_has_fallen(worker) &&
        qn_broker_deregister(worker->broker, worker->id, &error) != QUERN_OK) {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "worker could not be deregistered",
               QN_LOG_TEXT("worker", worker->id), QN_LOG_TEXT("error", error.text));
    }
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker ends", QN_LOG_TEXT("worker", worker->id));
    return status;
}

/* On the wall clock; 0: never. */
static int64_t exchanged_at_ms(const struct quern_worker *worker)
{
    int64_t at_mono_ns = atomic_load(&worker->beats.answered_at_mono_ns);
    int64_t age_ms = (qn_clock_mono_ns() - at_mono_ns) / QN_NS_PER_MS;
    return at_mono_ns == 0 ? 0 : qn_clock_wall_ms(worker->clock) - age_ms;
}

void quern_worker_get_stats_sized(quern_worker *worker, quern_worker_stats *ret_stats,
                                  size_t stats_size)
{
    if (ret_stats == NULL) {
        return;
    }
    memset(ret_stats, 0, stats_size);
    if (worker == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&worker->mutex);
    quern_worker_stats stats = worker->stats;
    stats.running = (uint32_t)worker->run_table.running_count;
    stats.quarantined = (uint32_t)worker->run_table.stuck_count;
    if (worker->pool != NULL) {
        stats.quarantined += (uint32_t)qn_pool_quarantined(worker->pool);
    }
    stats.ready = worker->state == QN_WORKER_RUNNING && worker->pool != NULL &&
                  !atomic_load(&worker->quiet) && !worker->braked &&
                  !qn_stuck_has_no_slot(worker) &&
                  !qn_beats_has_stalled(worker, qn_clock_mono_ns());
    (void)pthread_mutex_unlock(&worker->mutex);
    stats.exchanged_at_ms = exchanged_at_ms(worker);
    memcpy(ret_stats, &stats, stats_size < sizeof stats ? stats_size : sizeof stats);
}

/* Runs whose outcome the broker never confirmed. */
static void drop_runs(struct quern_worker *worker)
{
    struct qn_list *node = qn_list_shift(&worker->run_table.held);
    while (node != NULL) {
        qn_run_release(QN_CONTAINER_OF(node, struct quern_run, node));
        node = qn_list_shift(&worker->run_table.held);
    }
}

void quern_worker_free(quern_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    if (getpid() != worker->opener_pid || !qn_groups_join(worker, LAST_WAIT_MS) ||
        !end_pool(worker, LAST_WAIT_MS)) {
        return; /* leaked on purpose: its threads are not ours, or still use it */
    }
    qn_commands_end(worker);
    drop_runs(worker);
    qn_run_table_free_types(&worker->run_table);
    dismantle(worker);
}
