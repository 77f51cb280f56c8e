/* SPDX-License-Identifier: MIT */
/* ack_early.c - writes the outcome before the run, for handlers with QUERN_ACK_EARLY.
 *
 * One exchange with the single outcome done, sent by the pool thread itself. Only a confirmed done
 * lets the handler start: then the broker holds nothing of the run, and a crash or a failure loses
 * it. A stale answer means that the task belongs to another run. While the broker does not answer,
 * the same request is sent again; after half a lease the run is given back instead, which changes
 * nothing if done was applied after all. */
#include "worker/run/ack_early.h"

#include <poll.h>

#include "base/bug.h"
#include "worker/internal.h"

enum ack { ACK_CONFIRMED, ACK_STALE, ACK_UNKNOWN };

static void set_acked(struct quern_worker *worker, struct quern_run *run, bool acked, bool lost)
{
    (void)pthread_mutex_lock(&worker->mutex);
    run->acked = acked;
    run->lost = run->lost || lost;
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* Waits out a backoff; ends early when the run is cancelled. */
static bool wait_again(struct quern_run *run, const struct qn_backoff *backoff)
{
    struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    int64_t left_ms = (backoff->retry_at_mono_ns - qn_clock_mono_ns()) / QN_NS_PER_MS + 1;
    (void)poll(&cancel, 1, left_ms > 0 ? (int)left_ms : 0);
    return !quern_run_cancelled(run);
}

/* With early_acks.mutex held. */
static enum ack confirm(struct quern_worker *worker, struct quern_run *run)
{
    const struct qn_outcome outcome = {.run = run->leased, .kind = QN_DONE, .started = true};
    enum qn_applied applied = QN_STALE;
    struct qn_exchange exchange = {
        .stamp = worker->early_acks.stamp,
        .outcomes = &outcome,
        .outcome_count = 1,
        .is_leaving = true, /* it has not even begun: no brake is released */
        .worker_id = worker->id,
        .lease_ms = worker->options.lease_ms,
    };
    struct qn_exchange_reply reply = {.applied = &applied};
    struct qn_backoff backoff;
    qn_backoff_init(&backoff, &worker->backoffs);
    int64_t give_up_mono_ns = qn_clock_mono_ns() + worker->options.lease_ms / 2 * QN_NS_PER_MS;
    quern_error error = {0};
    quern_status status = qn_broker_exchange(worker->broker, &exchange, &reply, &error);
    bool goes_on = true;
    while (status != QUERN_OK && goes_on) {
        qn_backoff_fail(&backoff, &error);
        goes_on = qn_clock_mono_ns() < give_up_mono_ns && wait_again(run, &backoff);
        if (goes_on) {
            status = qn_broker_exchange(worker->broker, &exchange, &reply, &error);
        }
    }
    if (status == QUERN_OK) {
        qn_backoff_end(&backoff);
    }
    qn_backoff_finish(&backoff);
    return status != QUERN_OK ? ACK_UNKNOWN : applied == QN_STALE ? ACK_STALE : ACK_CONFIRMED;
}

bool qn_ack_early_confirm(struct quern_worker *worker, struct quern_run *run)
{
    (void)pthread_mutex_lock(&worker->early_acks.mutex);
    /* From here on its lease is not extended, and not missed when it is gone. Not before the mutex
     * is held: a thread that waits for it, behind others without an answer, may wait longer than a
     * lease. */
    set_acked(worker, run, true, false);
    worker->early_acks.stamp.sequence++;
    enum ack ack = confirm(worker, run);
    (void)pthread_mutex_unlock(&worker->early_acks.mutex);
    if (QN_BUG(UNACKED_RUNS)) {
        return true;
    }
    if (ack != ACK_CONFIRMED) {
        set_acked(worker, run, false, ack == ACK_STALE);
    }
    return ack == ACK_CONFIRMED;
}
