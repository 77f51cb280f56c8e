/* SPDX-License-Identifier: MIT */
/* dispatch.c - one thread at a time, the leader, awaits notices in the broker, and wakes those
 * threads whose tasks are named. The leader ends its own wait like any other; then it wakes one of
 * the sleeping threads, which leads from then on. So an ended task wakes one thread, or two. */
#include "client/dispatch.h"

#include <poll.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/cond.h"

#define PAUSE_MS 50 /* after a failure: all read then, and find out whether the broker is there */

void qn_dispatch_init(struct qn_dispatch *dispatch)
{
    pthread_mutex_init(&dispatch->mutex, NULL);
    dispatch->led = false;
    qn_list_init(&dispatch->sleeping);
    for (size_t i = 0; i < QN_DISPATCH_BUCKETS; i++) {
        qn_list_init(&dispatch->buckets[i]);
    }
}

void qn_dispatch_finish(struct qn_dispatch *dispatch)
{
    pthread_mutex_destroy(&dispatch->mutex);
}

static struct qn_list *bucket_of(struct qn_dispatch *dispatch, uint64_t task)
{
    return &dispatch->buckets[task % QN_DISPATCH_BUCKETS];
}

void qn_dispatch_join(struct qn_dispatch *dispatch, struct qn_waiting *waiting, uint64_t task)
{
    *waiting = (struct qn_waiting){.task = task};
    qn_cond_init(&waiting->woken);
    pthread_mutex_lock(&dispatch->mutex);
    qn_list_append(bucket_of(dispatch, task), &waiting->in_bucket);
    pthread_mutex_unlock(&dispatch->mutex);
}

void qn_dispatch_leave(struct qn_dispatch *dispatch, struct qn_waiting *waiting)
{
    pthread_mutex_lock(&dispatch->mutex);
    qn_list_remove(&waiting->in_bucket);
    pthread_mutex_unlock(&dispatch->mutex);
    pthread_cond_destroy(&waiting->woken);
}

void qn_dispatch_reset(struct qn_dispatch *dispatch, struct qn_waiting *waiting)
{
    pthread_mutex_lock(&dispatch->mutex);
    waiting->noticed = false;
    pthread_mutex_unlock(&dispatch->mutex);
}

/* Wakes the threads of one bucket that wait for this task; all of them, with task NULL. */
static void wake_bucket(struct qn_list *bucket, const uint64_t *task)
{
    for (struct qn_list *at = bucket->next; at != bucket; at = at->next) {
        struct qn_waiting *waiting = QN_CONTAINER_OF(at, struct qn_waiting, in_bucket);
        if (!waiting->noticed && (task == NULL || *task == waiting->task)) {
            waiting->noticed = true;
            pthread_cond_signal(&waiting->woken);
        }
    }
}

static void deliver(struct qn_dispatch *dispatch, const struct qn_notices *notices)
{
    bool all = notices->all || (notices->count > 0 && QN_BUG(NOTICE_FOR_ALL));
    for (size_t i = 0; all && i < QN_DISPATCH_BUCKETS; i++) {
        wake_bucket(&dispatch->buckets[i], NULL);
    }
    for (size_t i = 0; !all && i < notices->count; i++) {
        wake_bucket(bucket_of(dispatch, notices->tasks[i]), &notices->tasks[i]);
    }
}

/* With the mutex held, but not while the broker waits. */
static void lead(struct qn_dispatch *dispatch, struct qn_broker *broker, int64_t left_ms)
{
    struct qn_notices notices;
    dispatch->led = true;
    pthread_mutex_unlock(&dispatch->mutex);
    if (qn_broker_await(broker, left_ms, &notices, NULL) != QUERN_OK) {
        notices.all = true;
        (void)poll(NULL, 0, left_ms < PAUSE_MS ? (int)left_ms : PAUSE_MS);
    }
    pthread_mutex_lock(&dispatch->mutex);
    dispatch->led = false;
    deliver(dispatch, &notices);
}

/* With the mutex held: one of those that sleep leads next. */
static void hand_over(struct qn_dispatch *dispatch)
{
    if (!dispatch->led && !qn_list_empty(&dispatch->sleeping)) {
        struct qn_waiting *next =
            QN_CONTAINER_OF(dispatch->sleeping.next, struct qn_waiting, in_sleeping);
        pthread_cond_signal(&next->woken);
    }
}

bool qn_dispatch_await(struct qn_dispatch *dispatch, struct qn_waiting *waiting,
                       struct qn_broker *broker, int64_t until_mono_ns)
{
    pthread_mutex_lock(&dispatch->mutex);
    int64_t left_ns = until_mono_ns - qn_clock_mono_ns();
    while (!waiting->noticed && left_ns > 0) {
        if (dispatch->led) {
            qn_list_append(&dispatch->sleeping, &waiting->in_sleeping);
            (void)qn_cond_wait_until(&waiting->woken, &dispatch->mutex, until_mono_ns);
            qn_list_remove(&waiting->in_sleeping);
        } else {
            lead(dispatch, broker, (left_ns + QN_NS_PER_MS - 1) / QN_NS_PER_MS);
        }
        left_ns = until_mono_ns - qn_clock_mono_ns();
    }
    bool noticed = waiting->noticed;
    hand_over(dispatch);
    pthread_mutex_unlock(&dispatch->mutex);
    return noticed;
}
