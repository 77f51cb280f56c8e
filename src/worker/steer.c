/* SPDX-License-Identifier: MIT */
/* steer.c - how a running worker is steered from outside, and what the thread that called
 * quern_worker_run does until it is told to stop.
 *
 * The public functions may be called from a signal handler, so all they do is to set an atomic and
 * ring the bell. The thread of quern_worker_run sleeps at the bell. It says in the log what
 * changed, and watches whether any slot is left: handlers that ignore their cancellation hold
 * threads, and a worker whose threads are all held would look alive for ever and run nothing. So it
 * says that it is stuck, each minute, and ends after a grace, with an error by which a supervisor
 * restarts the process. */
#include <errno.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "worker/internal.h"

#define STUCK_TELL_MS 60000

void qn_worker_ring(struct quern_worker *worker)
{
    int saved = errno;
    const uint64_t one = 1;
    ssize_t written = write(worker->bell, &one, sizeof one);
    (void)written; /* a full counter is a rung bell */
    errno = saved;
}

void quern_worker_stop(quern_worker *worker)
{
    atomic_fetch_add(&worker->stops, 1);
    qn_worker_ring(worker);
}

void quern_worker_quiet(quern_worker *worker)
{
    atomic_store(&worker->quiet, true);
    qn_worker_ring(worker);
}

void quern_worker_resume(quern_worker *worker)
{
    atomic_store(&worker->quiet, false);
    qn_worker_ring(worker);
}

void quern_worker_log_runs(quern_worker *worker)
{
    atomic_store(&worker->log_runs, true);
    qn_worker_ring(worker);
}

/* --- What runs --------------------------------------------------------------------------- */

static const char *phase_name(const struct quern_run *run)
{
    switch (run->phase) {
    case QN_RUN_WAITING:
        return "waiting";
    case QN_RUN_RUNNING:
        return "running";
    case QN_RUN_FINISHED:
        return "ended";
    case QN_RUN_FENCED:
        return "given up";
    }
    return NULL;
}

/* A run for the log: its phase and moment are copied under the mutex. */
struct noted_run {
    struct quern_run *run; /* with a reference */
    const char *phase;
    int64_t since_mono_ns;
};

static void log_each(struct quern_worker *worker, const struct noted_run *noted, size_t count)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    for (size_t i = 0; i < count; i++) {
        const struct qn_task *task = &noted[i].run->leased->task;
        const char *cancelled = quern_run_cancel_reason(noted[i].run);
        QN_LOG(&worker->log, QUERN_LOG_INFO, "run", QN_LOG_TEXT("phase", noted[i].phase),
               QN_LOG_NUMBER("for_ms", (now_mono_ns - noted[i].since_mono_ns) / QN_NS_PER_MS),
               QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
               QN_LOG_TEXT("id", task->id),
               QN_LOG_TEXT("cancelled", cancelled[0] == '\0' ? NULL : cancelled));
    }
    (void)pthread_mutex_lock(&worker->mutex);
    for (size_t i = 0; i < count; i++) {
        qn_run_release(noted[i].run);
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Out of memory only the figures are logged. */
static void log_runs(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_books *books = &worker->books;
    struct qn_pool_counts threads = {0};
    qn_pool_count(worker->pool, &threads);
    size_t held_count = books->held_count;
    size_t waiting_count = books->waiting_count;
    size_t running_count = books->running_count;
    bool asleep = worker->pump_asleep;
    struct noted_run *noted =
        held_count == 0 ? NULL : qn_alloc_zero(held_count, sizeof(struct noted_run));
    size_t count = 0;
    for (struct qn_list *node = books->held.next; noted != NULL && node != &books->held;
         node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        run->references++;
        noted[count++] = (struct noted_run){.run = run,
                                            .phase = phase_name(run),
                                            .since_mono_ns = run->started_at_mono_ns != 0
                                                                 ? run->started_at_mono_ns
                                                                 : run->leased_at_mono_ns};
    }
    (void)pthread_mutex_unlock(&worker->mutex);
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker state", QN_LOG_TEXT("worker", worker->id),
           QN_LOG_NUMBER("slots", worker->options.concurrency),
           QN_LOG_NUMBER("running", running_count), QN_LOG_NUMBER("waiting", waiting_count),
           QN_LOG_NUMBER("held", held_count), QN_LOG_NUMBER("hang", qn_worker_hung(worker)),
           QN_LOG_NUMBER("threads", threads.alive), QN_LOG_NUMBER("idle_threads", threads.sleeping),
           QN_LOG_TEXT("fetching", asleep ? "sleeps" : "works"),
           QN_LOG_TEXT("quiet", atomic_load(&worker->quiet) ? "yes" : "no"));
    log_each(worker, noted, count);
    qn_free(noted);
}

void qn_steer_log_runs(struct quern_worker *worker)
{
    if (atomic_exchange(&worker->log_runs, false)) {
        log_runs(worker);
    }
}

/* --- Quiet ------------------------------------------------------------------------------- */

/* Acts on a change of worker->quiet; *was: its value at the call before. */
static void follow_quiet(struct quern_worker *worker, bool *was)
{
    bool quiet = atomic_load(&worker->quiet);
    if (quiet == *was) {
        return;
    }
    *was = quiet;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->announce_due = true;
    worker->look = worker->look || !quiet;
    qn_keeper_poke(worker);
    qn_pump_poke(worker);
    size_t running_count = worker->books.running_count;
    (void)pthread_mutex_unlock(&worker->mutex);
    QN_LOG(&worker->log, QUERN_LOG_INFO,
           quiet ? "worker is quiet, it takes no more tasks" : "worker takes tasks again",
           QN_LOG_TEXT("worker", worker->id), QN_LOG_NUMBER("running", running_count));
}

/* --- Stuck ------------------------------------------------------------------------------- */

size_t qn_worker_hung(struct quern_worker *worker)
{
    (void)pthread_mutex_lock(&worker->mutex);
    size_t hung = worker->books.stuck_count;
    hung += worker->pool != NULL ? qn_pool_quarantined(worker->pool) : 0;
    (void)pthread_mutex_unlock(&worker->mutex);
    return hung;
}

bool qn_worker_is_stuck(const struct quern_worker *worker)
{
    return worker->books.stuck_count >= worker->options.concurrency && !QN_BUG(STUCK_UNNOTICED);
}

struct stuck {
    int64_t since_mono_ns; /* 0: it is not */
    int64_t tell_at_mono_ns;
};

static void tell_stuck(struct quern_worker *worker, const struct stuck *stuck, int64_t now_mono_ns)
{
    QN_LOG(&worker->log, QUERN_LOG_ERROR, "worker is stuck, its handlers hang and no slot is left",
           QN_LOG_TEXT("worker", worker->id), QN_LOG_NUMBER("slots", worker->options.concurrency),
           QN_LOG_NUMBER("hang", qn_worker_hung(worker)),
           QN_LOG_NUMBER("for_s", (now_mono_ns - stuck->since_mono_ns) / QN_NS_PER_MS / 1000));
}

static void change_stuck(struct quern_worker *worker, struct stuck *stuck, bool is_stuck,
                         int64_t now_mono_ns)
{
    stuck->since_mono_ns = is_stuck ? now_mono_ns : 0;
    stuck->tell_at_mono_ns = now_mono_ns;
    (void)pthread_mutex_lock(&worker->mutex);
    worker->announce_due = true;
    qn_keeper_poke(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (!is_stuck) {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "worker is no longer stuck",
               QN_LOG_TEXT("worker", worker->id));
    }
}

/* Returns how long the bell may be waited for, in ms; -1: for ever; 0: the grace is over. */
static int64_t watch_stuck(struct quern_worker *worker, struct stuck *stuck)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t grace_ms = worker->options.stuck_timeout_ms;
    (void)pthread_mutex_lock(&worker->mutex);
    bool is_stuck = qn_worker_is_stuck(worker);
    (void)pthread_mutex_unlock(&worker->mutex);
    if (is_stuck != (stuck->since_mono_ns != 0)) {
        change_stuck(worker, stuck, is_stuck, now_mono_ns);
    }
    if (!is_stuck) {
        return -1;
    }
    if (now_mono_ns >= stuck->tell_at_mono_ns) {
        stuck->tell_at_mono_ns = now_mono_ns + STUCK_TELL_MS * QN_NS_PER_MS;
        tell_stuck(worker, stuck, now_mono_ns);
    }
    int64_t until_mono_ns = stuck->tell_at_mono_ns;
    if (grace_ms >= 0) {
        int64_t end_mono_ns = stuck->since_mono_ns + grace_ms * QN_NS_PER_MS;
        if (now_mono_ns >= end_mono_ns) {
            return 0;
        }
        until_mono_ns = qn_earlier(until_mono_ns, end_mono_ns);
    }
    return (until_mono_ns - now_mono_ns) / QN_NS_PER_MS + 1;
}

quern_status qn_steer_until_stopped(struct quern_worker *worker, quern_error *err)
{
    struct stuck stuck = {.since_mono_ns = 0};
    bool quiet = false;
    while (atomic_load(&worker->stops) == 0) {
        follow_quiet(worker, &quiet);
        qn_steer_log_runs(worker);
        int64_t pause_ms = qn_shortage_watch(worker);
        int64_t wait_ms = watch_stuck(worker, &stuck);
        if (wait_ms == 0) {
            return qn_error_set(err, QUERN_E_STATE,
                                "stuck: all %u slots were held by handlers that ignore their "
                                "cancellation (%zu hang); restart the process",
                                worker->options.concurrency, qn_worker_hung(worker));
        }
        qn_worker_wait_bell(worker, wait_ms < 0 || (pause_ms >= 0 && pause_ms < wait_ms) ? pause_ms
                                                                                         : wait_ms);
    }
    return QUERN_OK;
}
