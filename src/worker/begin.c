/* SPDX-License-Identifier: MIT */
/* begin.c - from a URL to a worker whose record is in the broker, however long that takes.
 *
 * Opening fails at once for what will stay wrong: a URL, a password, a file that is not ours. For
 * what may be right a moment later (a server that is down or loading, a database that somebody has
 * locked, a full disk) quern_worker_run waits, as a running worker would, until somebody calls
 * quern_worker_stop; with no_wait it is an error. Damaged data stop neither a running worker nor
 * one that starts: the keeper announces again at once, and logs the failure. */
#include "base/error.h"
#include "base/memory/secret.h"
#include "worker/internal.h"

/* Short, since somebody may stop the worker meanwhile. */
enum { HURRY_MS = 1000 };

void qn_worker_hurry(struct quern_worker *worker, bool hurry)
{
    int64_t usual_ms = worker->options.lease_ms / 3;
    atomic_store(&worker->broker->command_timeout_ms,
                 hurry ? qn_earlier(usual_ms, HURRY_MS) : usual_ms);
    atomic_store(&worker->broker->hurries, hurry);
}

static quern_status open_broker(struct quern_worker *worker, const char *url, quern_error *err)
{
    const struct qn_broker_options options = {
        .clock = worker->options.clock,
        .command_timeout_ms = worker->options.lease_ms / 3,
        .create = true,
    };
    quern_status status = qn_broker_open(url, &options, &worker->broker, err);
    if (status == QUERN_OK) {
        status = qn_worker_check_queues(worker, err);
    }
    return status;
}

void qn_worker_forget_url(struct quern_worker *worker)
{
    qn_secret_free(worker->url);
    worker->url = NULL;
}

quern_status qn_worker_open(struct quern_worker *worker, const char *url, quern_error *err)
{
    quern_status status = open_broker(worker, url, err);
    if (status == QUERN_OK || worker->options.no_wait != 0 || !qn_broker_may_come(url, status)) {
        return status;
    }
    qn_broker_close(worker->broker); /* the queues could not be listed */
    worker->broker = NULL;
    worker->url = qn_secret_strdup(url); /* it may hold a password */
    return worker->url != NULL ? QUERN_OK : qn_error_nomem(err);
}

/* One attempt. *ret_waits: it failed, and may succeed a moment later. */
static quern_status try(struct quern_worker *worker, bool *ret_waits, quern_error *err)
{
    quern_status status = QUERN_OK;
    *ret_waits = false;
    if (worker->url != NULL) {
        status = open_broker(worker, worker->url, err);
        *ret_waits = qn_broker_may_come(worker->url, status);
        if (status != QUERN_OK) {
            qn_broker_close(worker->broker);
            worker->broker = NULL;
            return status;
        }
        qn_worker_forget_url(worker);
    }
    qn_worker_hurry(worker, true);
    status = qn_keeper_heartbeat(worker, err);
    if (status == QUERN_E_CORRUPT) {
        (void)pthread_mutex_lock(&worker->mutex);
        worker->announce_due = true;
        (void)pthread_mutex_unlock(&worker->mutex);
        return QUERN_OK;
    }
    *ret_waits = status == QUERN_E_UNKNOWN || status == QUERN_E_FULL || status == QUERN_E_TIMEOUT ||
                 qn_broker_may_recover(worker->broker, status);
    return status;
}

quern_status qn_worker_begin(struct quern_worker *worker, bool *ret_stopped, quern_error *err)
{
    struct qn_outage outage;
    quern_error error = {0};
    bool waits = false;
    qn_outage_init(&outage, &worker->outages);
    quern_status status = try(worker, &waits, &error);
    *ret_stopped = false;
    if (waits && worker->options.no_wait != 0) {
        waits = false;
        /* QUERN_E_TIMEOUT would mean that handlers still run. */
        bool is_there = status == QUERN_E_FULL || status == QUERN_E_BUSY;
        status = is_there ? status : QUERN_E_CONNECT;
        error.code = status;
    }
    while (status != QUERN_OK && waits && !*ret_stopped) {
        qn_outage_fail(&outage, &error);
        int64_t left_ns = atomic_load(&outage.retry_at_mono_ns) - qn_clock_mono_ns();
        while (left_ns > 0 && atomic_load(&worker->stops) == 0) {
            qn_worker_wait_bell(worker, left_ns / QN_NS_PER_MS + 1);
            left_ns = atomic_load(&outage.retry_at_mono_ns) - qn_clock_mono_ns();
        }
        *ret_stopped = atomic_load(&worker->stops) > 0;
        status = *ret_stopped ? QUERN_OK : try(worker, &waits, &error);
    }
    if (status == QUERN_OK && !*ret_stopped) {
        qn_worker_hurry(worker, false);
        qn_outage_end(&outage);
    }
    qn_outage_finish(&outage);
    if (status != QUERN_OK && err != NULL) {
        *err = error;
    }
    return status;
}
