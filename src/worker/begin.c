/* SPDX-License-Identifier: MIT */
/* begin.c - from a URL to a worker whose record is in the broker, however long that takes.
 *
 * Opening fails at once for a lasting mistake: a wrong URL, a wrong password, a file that is not
 * ours. For a cause that may pass (a server that is down or loading, a locked database, a full
 * disk) quern_worker_run waits, as a running worker would, until quern_worker_stop is called; with
 * no_wait, or after max_retries, it is an error. Damaged data stops neither a running worker nor
 * one that starts: the keeper sends the heartbeat again at once, and logs the failure. */
#include "worker/begin.h"

#include "base/error.h"
#include "base/memory/secret.h"
#include "redis/failover/failover.h"
#include "worker/internal.h"
#include "worker/keeper/upkeep.h"
#include "worker/queue_check.h"

/* Short, because the worker may be stopped meanwhile. */
enum { HURRY_MS = 1000 };

void qn_begin_hurry(struct quern_worker *worker, bool hurry)
{
    int64_t usual_ms = worker->options.lease_ms / 3;
    qn_broker_set_patience(worker->broker, hurry ? qn_earlier(usual_ms, HURRY_MS) : usual_ms,
                           hurry);
}

/* Failures are logged by who backs off (backoff.h): one line an outage. */
static void log_switch(const struct qn_link_event *event, void *user)
{
    struct quern_worker *worker = user;
    if (event->kind == QN_LINK_SWITCHED) {
        QN_LOG(&worker->log, QUERN_LOG_WARN, "broker is another server now",
               QN_LOG_TEXT("address", event->address));
    }
}

static quern_status open_broker(struct quern_worker *worker, const char *url, quern_error *err)
{
    const struct qn_failover_rules rules = {.choose = worker->options.choose_server,
                                            .on_failure = worker->options.on_link_failure,
                                            .user = worker->options.user,
                                            .on_event = log_switch,
                                            .event_user = worker};
    const struct qn_broker_options options = {
        .failover = &rules,
        .clock = worker->options.clock,
        .command_timeout_ms = worker->options.lease_ms / 3,
        .create = true,
    };
    quern_status status = qn_broker_open(url, &options, &worker->broker, err);
    if (status == QUERN_OK && qn_broker_asks_apart(worker->broker)) {
        qn_choice_ask_apart(&worker->pump.choice);
    }
    if (status == QUERN_OK) {
        status = qn_queue_check_names(worker, err);
    }
    return status;
}

void qn_begin_forget_url(struct quern_worker *worker)
{
    qn_secret_free(worker->url);
    worker->url = NULL;
}

quern_status qn_begin_open(struct quern_worker *worker, const char *url, quern_error *err)
{
    quern_status status = open_broker(worker, url, err);
    if (status == QUERN_OK || worker->options.no_wait || !qn_broker_may_come(url, status)) {
        return status;
    }
    qn_broker_close(worker->broker); /* the queues could not be listed */
    worker->broker = NULL;
    worker->url = qn_secret_strdup(url); /* it may hold a password */
    return worker->url != NULL ? QUERN_OK : qn_error_nomem(err);
}

/* One attempt. *ret_waits: it failed, and may succeed a moment later. */
static quern_status attempt(struct quern_worker *worker, bool *ret_waits, quern_error *err)
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
        qn_begin_forget_url(worker);
    }
    qn_begin_hurry(worker, true);
    status = qn_upkeep_heartbeat(worker, err);
    if (status == QUERN_E_CORRUPT) {
        (void)pthread_mutex_lock(&worker->mutex);
        worker->heartbeat_due = true;
        (void)pthread_mutex_unlock(&worker->mutex);
        return QUERN_OK;
    }
    *ret_waits = status == QUERN_E_UNKNOWN || status == QUERN_E_FULL || status == QUERN_E_TIMEOUT ||
                 qn_broker_may_recover(worker->broker, status);
    return status;
}

/* Whether that was the last attempt. QUERN_E_TIMEOUT would mean that handlers still run. */
static bool gives_up(const struct quern_worker *worker, uint32_t failures, quern_error *error)
{
    bool is_there = error->code == QUERN_E_FULL || error->code == QUERN_E_BUSY;
    bool ends = worker->options.no_wait || qn_pace_ends(&worker->backoffs.pace, failures);
    if (ends && !is_there) {
        error->code = QUERN_E_CONNECT;
    }
    return ends;
}

quern_status qn_begin_wait(struct quern_worker *worker, bool *ret_stopped, quern_error *err)
{
    struct qn_backoff backoff;
    quern_error error = {0};
    bool waits = false;
    uint32_t failures = worker->url != NULL ? 1 : 0; /* opening it failed */
    qn_backoff_init(&backoff, &worker->backoffs);
    quern_status status = attempt(worker, &waits, &error);
    *ret_stopped = false;
    while (status != QUERN_OK && waits && !*ret_stopped) {
        error.code = status;
        if (gives_up(worker, ++failures, &error)) {
            status = error.code;
            break;
        }
        qn_backoff_fail(&backoff, &error);
        int64_t left_ns = atomic_load(&backoff.retry_at_mono_ns) - qn_clock_mono_ns();
        while (left_ns > 0 && atomic_load(&worker->stops) == 0) {
            qn_signals_wait_main(worker, left_ns / QN_NS_PER_MS + 1);
            left_ns = atomic_load(&backoff.retry_at_mono_ns) - qn_clock_mono_ns();
        }
        *ret_stopped = atomic_load(&worker->stops) > 0;
        status = *ret_stopped ? QUERN_OK : attempt(worker, &waits, &error);
    }
    if (status == QUERN_OK && !*ret_stopped) {
        qn_begin_hurry(worker, false);
        qn_backoff_end(&backoff);
    }
    qn_backoff_finish(&backoff);
    if (status != QUERN_OK && err != NULL) {
        *err = error;
    }
    return status;
}
