/* SPDX-License-Identifier: MIT */
/* writer_lock.c - a mutex with two classes of waiters and a limit on the waiting time.
 *
 * Urgent waiters go before all others; among equals the kernel chooses. A waiter that gives up
 * wakes the others, since they may have waited for it to go first. */
#include "broker/sqlite/store/writer_lock.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cond.h"

void qn_writer_lock_init(struct qn_writer_lock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
    qn_cond_init(&lock->freed);
}

void qn_writer_lock_finish(struct qn_writer_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
    pthread_cond_destroy(&lock->freed);
}

bool qn_writer_lock_take(struct qn_writer_lock *lock, bool urgent, int64_t timeout_ms)
{
    pthread_mutex_lock(&lock->mutex);
    if (lock->taken || (!urgent && lock->urgent_waiting > 0)) {
        int64_t until_ns = qn_clock_mono_ns() + timeout_ms * INT64_C(1000000);
        bool in_time = true;
        lock->urgent_waiting += urgent ? 1 : 0;
        while ((lock->taken || (!urgent && lock->urgent_waiting > 0)) && in_time) {
            in_time = qn_cond_wait_until(&lock->freed, &lock->mutex, until_ns);
        }
        lock->urgent_waiting -= urgent ? 1 : 0;
    }
    bool is_ours = !lock->taken && (urgent || lock->urgent_waiting == 0);
    if (is_ours) {
        lock->taken = true;
    } else {
        pthread_cond_broadcast(&lock->freed);
    }
    pthread_mutex_unlock(&lock->mutex);
    return is_ours;
}

void qn_writer_lock_release(struct qn_writer_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    QN_ASSERT(lock->taken);
    lock->taken = false;
    pthread_cond_broadcast(&lock->freed);
    pthread_mutex_unlock(&lock->mutex);
}
