/* SPDX-License-Identifier: MIT */
/* listener.c - waits for notifications from the broker: work, and runs to be cancelled.
 *
 * When work is reported, this thread itself does a step of the pump (qn_pump_help). A lost message
 * costs little: the broker polls each second, and cancellations come with the next extension of
 * leases, too. When waiting itself fails, this thread backs off and tries again; meanwhile it makes
 * the pump poll at intervals, because the broker may well answer that.
 *
 * Notices may be spurious: tasks that another worker takes, delayed tasks of the far future. When
 * many of them come one soon after the other, a poll for each would cost the broker more than it is
 * worth. So this thread rests between the looks; a task that comes meanwhile starts that much
 * later. */
#include "worker/fetch/listener.h"

#include <string.h>

#include "base/cond.h"
#include "worker/internal.h"
#include "worker/run/give_back.h"

enum {
    WAIT_MS = 10000, /* qn_broker_interrupt ends it earlier */
    SPURIOUS_MAX = 16,
    SPURIOUS_GAP_MS = 20, /* fruitless polls that are further apart do not count */
    SPURIOUS_REST_MS = 5,
    LOOK_ALONE_MS = 100
};

/* Fruitless polls, one soon after the other. */
struct spurious {
    uint32_t looks;
    int64_t last_mono_ns;
};

/* Looks for work. Returns until when to rest; 0: not. */
static int64_t look_for_work(struct quern_worker *worker, struct spurious *spurious)
{
    qn_beats_step(worker, QN_BEAT_LISTENER);
    bool in_vain = !qn_pump_help(worker);
    int64_t now_mono_ns = qn_clock_mono_ns();
    bool soon = now_mono_ns - spurious->last_mono_ns < SPURIOUS_GAP_MS * QN_NS_PER_MS;
    spurious->looks = in_vain ? (soon ? spurious->looks : 0) + 1 : 0;
    spurious->last_mono_ns = now_mono_ns;
    return spurious->looks >= SPURIOUS_MAX ? now_mono_ns + SPURIOUS_REST_MS * QN_NS_PER_MS : 0;
}

static void cancel_run(struct quern_worker *worker, const struct qn_wakeup *wakeup)
{
    enum qn_cancel_reason reason =
        wakeup->cancel == QN_CANCEL_ARCHIVE ? QN_REASON_OPERATOR_ARCHIVE : QN_REASON_OPERATOR_RETRY;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->run_table.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        /* A run that has ended may still be here, beside the next run of its task. */
        bool goes_on = run->phase == QN_RUN_WAITING || run->phase == QN_RUN_RUNNING;
        if (goes_on && !run->acked && strcmp(run->leased->task.id, wakeup->id) == 0 &&
            strcmp(run->leased->task.queue, wakeup->queue) == 0) {
            qn_give_back_cancelled(worker, run, reason);
            break;
        }
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* True when the worker has stopped. */
static bool sleep_until(struct quern_worker *worker, int64_t until_mono_ns)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool in_time = true;
    while (worker->state != QN_WORKER_STOPPED && in_time) {
        in_time = qn_cond_wait_until(&worker->signals.listener_cond, &worker->mutex, until_mono_ns);
    }
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

/* No notice arrives until the backoff has ended. True when the worker has stopped. */
static bool look_without_news(struct quern_worker *worker, const struct qn_backoff *backoff)
{
    bool stopped = false;
    int64_t now_mono_ns = qn_clock_mono_ns();
    while (!stopped && now_mono_ns < atomic_load(&backoff->retry_at_mono_ns)) {
        qn_beats_step(worker, QN_BEAT_LISTENER);
        (void)qn_pump_help(worker);
        now_mono_ns = qn_clock_mono_ns();
        int64_t until_mono_ns = qn_earlier(atomic_load(&backoff->retry_at_mono_ns),
                                           now_mono_ns + LOOK_ALONE_MS * QN_NS_PER_MS);
        stopped = sleep_until(worker, until_mono_ns);
    }
    return stopped;
}

void *qn_listener_main(void *argument)
{
    struct quern_worker *worker = argument;
    struct qn_backoff backoff;
    qn_backoff_init(&backoff, &worker->backoffs);
    struct spurious spurious = {0};
    bool stopped = false;
    while (!stopped) {
        struct qn_wakeup wakeup = {0};
        quern_error error = {0};
        /* After a failure it does not wait: so it knows at once whether it can listen again. */
        int64_t wait_ms = atomic_load(&backoff.since_mono_ns) != 0 ? 0 : WAIT_MS;
        qn_beats_sleep(worker, QN_BEAT_LISTENER, qn_clock_mono_ns() + wait_ms * QN_NS_PER_MS);
        if (qn_broker_wait(worker->broker, wait_ms, &wakeup, &error) != QUERN_OK) {
            qn_backoff_fail(&backoff, &error);
            stopped = look_without_news(worker, &backoff);
            continue;
        }
        qn_backoff_end(&backoff);
        if (wakeup.cancel != QN_CANCEL_NONE) {
            cancel_run(worker, &wakeup);
        }
        if (wakeup.command[0] != '\0') {
            qn_steer_take(worker, wakeup.command);
        }
        int64_t rest_until_mono_ns = 0;
        if (wakeup.work) {
            rest_until_mono_ns = look_for_work(worker, &spurious);
        }
        stopped = sleep_until(worker, rest_until_mono_ns);
    }
    qn_backoff_finish(&backoff);
    qn_beats_end(worker, QN_BEAT_LISTENER);
    return NULL;
}
