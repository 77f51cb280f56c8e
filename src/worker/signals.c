/* SPDX-License-Identifier: MIT */
/* signals.c - wakes the threads of a worker; see signals.h.
 *
 * A thread that is awake checks everything before it sleeps, so only sleeping threads are
 * signalled, and each only once. The public functions below may be called from a signal handler:
 * all they do is to set an atomic and to write to wake_fd. control.c acts on it. */
#include "worker/signals.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cond.h"
#include "base/error.h"
#include "worker/internal.h"

void qn_signals_init(struct qn_signals *signals)
{
    *signals = (struct qn_signals){.wake_fd = -1, .keeper_until_mono_ns = INT64_MAX};
    qn_cond_init(&signals->pump_cond);
    qn_cond_init(&signals->second_cond);
    qn_cond_init(&signals->keeper_cond);
    qn_cond_init(&signals->leases_cond);
    qn_cond_init(&signals->listener_cond);
}

quern_status qn_signals_open(struct qn_signals *signals, quern_error *err)
{
    signals->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return signals->wake_fd >= 0
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_FULL, "no descriptor: %s", strerror(errno));
}

void qn_signals_finish(struct qn_signals *signals)
{
    if (signals->wake_fd >= 0) {
        (void)close(signals->wake_fd);
    }
    (void)pthread_cond_destroy(&signals->listener_cond);
    (void)pthread_cond_destroy(&signals->leases_cond);
    (void)pthread_cond_destroy(&signals->keeper_cond);
    (void)pthread_cond_destroy(&signals->second_cond);
    (void)pthread_cond_destroy(&signals->pump_cond);
}

void qn_signals_wake_main(struct quern_worker *worker)
{
    int saved = errno;
    const uint64_t one = 1;
    ssize_t written = write(worker->signals.wake_fd, &one, sizeof one);
    (void)written; /* fails only when the counter is full: then it is readable already */
    errno = saved;
}

void qn_signals_wait_main(struct quern_worker *worker, int64_t timeout_ms)
{
    struct pollfd wake = {.fd = worker->signals.wake_fd, .events = POLLIN};
    int timeout = timeout_ms < 0 ? -1 : timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms;
    if (poll(&wake, 1, timeout) > 0) {
        uint64_t count;
        ssize_t got = read(worker->signals.wake_fd, &count, sizeof count);
        (void)got; /* non-blocking: at worst another call took it */
    }
}

void qn_signals_wake_pump(struct quern_worker *worker)
{
    struct qn_signals *signals = &worker->signals;
    if (signals->pump_asleep && !signals->pump_signalled) {
        signals->pump_signalled = true;
        (void)pthread_cond_signal(&signals->pump_cond);
    }
}

void qn_signals_wake_second(struct quern_worker *worker)
{
    struct qn_signals *signals = &worker->signals;
    if (signals->second_asleep && !signals->second_signalled) {
        signals->second_signalled = true;
        (void)pthread_cond_signal(&signals->second_cond);
    }
}

void qn_signals_wake_keeper(struct quern_worker *worker)
{
    struct qn_signals *signals = &worker->signals;
    if (!signals->keeper_signalled) {
        signals->keeper_signalled = true;
        (void)pthread_cond_signal(&signals->keeper_cond);
    }
}

void qn_signals_wake_all(struct quern_worker *worker)
{
    struct qn_signals *signals = &worker->signals;
    qn_signals_wake_pump(worker);
    qn_signals_wake_keeper(worker);
    signals->leases_signalled = true;
    (void)pthread_cond_broadcast(&signals->leases_cond);
    /* Without a mark: these two check the worker's state and their backoff when they wake. */
    (void)pthread_cond_broadcast(&signals->second_cond);
    (void)pthread_cond_broadcast(&signals->listener_cond);
}

void qn_signals_run_finished(struct quern_worker *worker)
{
    bool many = worker->run_table.finished_count >= QN_BATCH_WORTH;
    if (many && worker->pump.first.in_flight) {
        qn_signals_wake_second(worker);
    }
    if (many || !worker->signals.pump_awaits) {
        qn_signals_wake_pump(worker);
    }
}

void qn_signals_run_settled(struct quern_worker *worker)
{
    if (worker->state == QN_WORKER_DRAINING && worker->run_table.running_count == 0) {
        qn_signals_wake_main(worker);
    }
}

void quern_worker_stop(quern_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    atomic_fetch_add(&worker->stops, 1);
    qn_signals_wake_main(worker);
}

void quern_worker_quiet(quern_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    atomic_store(&worker->quiet, true);
    qn_signals_wake_main(worker);
}

void quern_worker_resume(quern_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    atomic_store(&worker->quiet, false);
    qn_signals_wake_main(worker);
}

void quern_worker_log_runs(quern_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    atomic_store(&worker->log_runs, true);
    qn_signals_wake_main(worker);
}
