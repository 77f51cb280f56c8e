/* SPDX-License-Identifier: MIT */
/* writer_lock.h - lets one thread at a time to the writing connection, urgent ones before all
 * others. */
#ifndef QN_BROKER_SQLITE_STORE_WRITER_LOCK_H
#define QN_BROKER_SQLITE_STORE_WRITER_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/list.h"
#include "quern/status.h"

struct qn_writer_lock {
    pthread_mutex_t mutex;
    struct qn_list urgent; /* those that wait, in order; guarded by mutex, as the next two */
    struct qn_list others;
    bool taken;
};

void qn_writer_lock_init(struct qn_writer_lock *lock);
void qn_writer_lock_finish(struct qn_writer_lock *lock);
/* False: it was not free within that time. Urgent callers go before all others. */
QUERN_NODISCARD bool qn_writer_lock_take(struct qn_writer_lock *lock, bool urgent,
                                         int64_t timeout_ms);
void qn_writer_lock_release(struct qn_writer_lock *lock);

#endif
