/* SPDX-License-Identifier: MIT */
/* writer_lock.c - a mutex with two classes of waiters and a limit on the waiting time.
 *
 * Urgent waiters go before all others; among equals the first one is woken. A thread that comes
 * while the lock is free may take it before the woken one runs: that saves a switch of threads for
 * each transaction. But once a waiter has waited for long, the release hands the lock over to it,
 * so that no thread starves where many share a lock, as with "memory:". */
#include "broker/sqlite/store/writer_lock.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cond.h"

#define LONG_WAIT_NS INT64_C(20000000) /* some hundred transactions */

struct waiter {
    struct qn_list node;
    pthread_cond_t woken;
    int64_t since_mono_ns;
    bool has_lock; /* it was handed over */
};

void qn_writer_lock_init(struct qn_writer_lock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
    qn_list_init(&lock->urgent);
    qn_list_init(&lock->others);
    lock->taken = false;
}

void qn_writer_lock_finish(struct qn_writer_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static bool is_free(const struct qn_writer_lock *lock, bool urgent)
{
    return !lock->taken && (urgent || qn_list_empty(&lock->urgent));
}

static struct waiter *next_waiter(struct qn_writer_lock *lock)
{
    struct qn_list *list = qn_list_empty(&lock->urgent) ? &lock->others : &lock->urgent;
    return qn_list_empty(list) ? NULL : QN_CONTAINER_OF(list->next, struct waiter, node);
}

static void wake_next(struct qn_writer_lock *lock)
{
    struct waiter *next = next_waiter(lock);
    if (next != NULL) {
        pthread_cond_signal(&next->woken);
    }
}

/* With the mutex held, which is released meanwhile. */
static bool wait_for_turn(struct qn_writer_lock *lock, bool urgent, int64_t timeout_ms)
{
    struct waiter self = {.since_mono_ns = qn_clock_mono_ns()};
    int64_t until_mono_ns = self.since_mono_ns + timeout_ms * QN_NS_PER_MS;
    bool in_time = true;
    qn_cond_init(&self.woken);
    qn_list_append(urgent ? &lock->urgent : &lock->others, &self.node);
    while (!self.has_lock && !is_free(lock, urgent) && in_time) {
        in_time = qn_cond_wait_until(&self.woken, &lock->mutex, until_mono_ns);
    }
    bool is_ours = self.has_lock || is_free(lock, urgent);
    qn_list_remove(&self.node);
    pthread_cond_destroy(&self.woken);
    if (!is_ours && !lock->taken) {
        wake_next(lock); /* the wake-up may have been for us */
    }
    return is_ours;
}

bool qn_writer_lock_take(struct qn_writer_lock *lock, bool urgent, int64_t timeout_ms)
{
    pthread_mutex_lock(&lock->mutex);
    bool is_ours = is_free(lock, urgent) || wait_for_turn(lock, urgent, timeout_ms);
    lock->taken = lock->taken || is_ours;
    pthread_mutex_unlock(&lock->mutex);
    return is_ours;
}

void qn_writer_lock_release(struct qn_writer_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    QN_ASSERT(lock->taken);
    struct waiter *next = next_waiter(lock);
    bool hands_over = next != NULL && qn_clock_mono_ns() - next->since_mono_ns > LONG_WAIT_NS;
    lock->taken = hands_over;
    if (hands_over) {
        next->has_lock = true;
    }
    wake_next(lock);
    pthread_mutex_unlock(&lock->mutex);
}
