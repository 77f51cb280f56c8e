/* SPDX-License-Identifier: MIT */
/* listener.c - waits for news of the broker: work, and runs to be cancelled.
 *
 * News of work become a step of the pump on this very thread (qn_pump_help). A lost message costs
 * little: the broker looks each second by itself, and cancellations come with the next extension,
 * too. When waiting itself fails, this thread backs off and tries again; meanwhile it makes the
 * pump look at intervals, since the broker may well answer to that.
 *
 * News may be for others: tasks that another worker takes, delayed tasks of the far future. When
 * they come in a storm, looking each time would cost the broker more than it is worth, so this
 * thread rests between the looks; a task that comes meanwhile starts that much later. */
#include <string.h>

#include "worker/internal.h"

enum {
    WAIT_MS = 10000, /* qn_broker_interrupt ends it earlier */
    STORM_LOOKS = 16,
    STORM_GAP_MS = 20, /* looks in vain that are further apart are no storm */
    STORM_REST_MS = 5,
    LOOK_DEAF_MS = 100
};

/* Looks in vain, one soon after the other. */
struct storm {
    uint32_t looks;
    int64_t last_mono_ns;
};

/* Looks for work. Returns until when to rest; 0: not. */
static int64_t look(struct quern_worker *worker, struct storm *storm)
{
    bool in_vain = !qn_pump_help(worker);
    int64_t now_mono_ns = qn_clock_mono_ns();
    bool soon = now_mono_ns - storm->last_mono_ns < STORM_GAP_MS * QN_NS_PER_MS;
    storm->looks = in_vain ? (soon ? storm->looks : 0) + 1 : 0;
    storm->last_mono_ns = now_mono_ns;
    return storm->looks >= STORM_LOOKS ? now_mono_ns + STORM_REST_MS * QN_NS_PER_MS : 0;
}

static void cancel(struct quern_worker *worker, const struct qn_wakeup *wakeup)
{
    enum qn_cancel_reason reason =
        wakeup->cancel == QN_CANCEL_ARCHIVE ? QN_REASON_OPERATOR_ARCHIVE : QN_REASON_OPERATOR_RETRY;
    (void)pthread_mutex_lock(&worker->mutex);
    struct qn_list *held = &worker->books.held;
    for (struct qn_list *node = held->next; node != held; node = node->next) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, node);
        /* One that has ended may be here still, beside the next run of its task. */
        bool goes_on = run->phase == QN_RUN_WAITING || run->phase == QN_RUN_RUNNING;
        if (goes_on && !run->acked && strcmp(run->leased->task.id, wakeup->id) == 0 &&
            strcmp(run->leased->task.queue, wakeup->queue) == 0) {
            qn_worker_cancel_run(worker, run, reason);
            break;
        }
    }
    (void)pthread_mutex_unlock(&worker->mutex);
}

/* True when the worker has stopped. */
static bool back_off(struct quern_worker *worker, int64_t until_mono_ns)
{
    (void)pthread_mutex_lock(&worker->mutex);
    bool in_time = true;
    while (worker->state != QN_WORKER_STOPPED && in_time) {
        in_time = qn_cond_wait_until(&worker->listener_cond, &worker->mutex, until_mono_ns);
    }
    bool stopped = worker->state == QN_WORKER_STOPPED;
    (void)pthread_mutex_unlock(&worker->mutex);
    return stopped;
}

/* Nothing is heard until the backoff is over. True when the worker has stopped. */
static bool look_while_deaf(struct quern_worker *worker, const struct qn_outage *outage)
{
    bool stopped = false;
    int64_t now_mono_ns = qn_clock_mono_ns();
    while (!stopped && now_mono_ns < atomic_load(&outage->retry_at_mono_ns)) {
        (void)qn_pump_help(worker);
        now_mono_ns = qn_clock_mono_ns();
        int64_t until_mono_ns = qn_earlier(atomic_load(&outage->retry_at_mono_ns),
                                           now_mono_ns + LOOK_DEAF_MS * QN_NS_PER_MS);
        stopped = back_off(worker, until_mono_ns);
    }
    return stopped;
}

void *qn_listener_main(void *argument)
{
    struct quern_worker *worker = argument;
    struct qn_outage outage;
    qn_outage_init(&outage, &worker->outages);
    struct storm storm = {0};
    bool stopped = false;
    while (!stopped) {
        struct qn_wakeup wakeup = {0};
        quern_error error = {0};
        /* After a failure: whether it can listen again is known before it has waited. */
        int64_t wait_ms = atomic_load(&outage.since_mono_ns) != 0 ? 0 : WAIT_MS;
        if (qn_broker_wait(worker->broker, wait_ms, &wakeup, &error) != QUERN_OK) {
            qn_outage_fail(&outage, &error);
            stopped = look_while_deaf(worker, &outage);
            continue;
        }
        qn_outage_end(&outage);
        if (wakeup.cancel != QN_CANCEL_NONE) {
            cancel(worker, &wakeup);
        }
        int64_t rest_until_mono_ns = 0;
        if (wakeup.work) {
            rest_until_mono_ns = look(worker, &storm);
        }
        stopped = back_off(worker, rest_until_mono_ns);
    }
    qn_outage_finish(&outage);
    return NULL;
}
