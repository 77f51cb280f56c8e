/* SPDX-License-Identifier: MIT */
/* pool.h - how work is executed: the interface between a worker and its threads.
 *
 * A pool knows no tasks: it takes items and calls execute() for each on one of its threads, in the
 * order in which they came. The worker's run embeds the item. */
#ifndef QN_POOL_POOL_H
#define QN_POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/list.h"
#include "quern/status.h"

struct qn_pool;

struct qn_pool_item {
    struct qn_list node;                        /* the pool's, while it waits */
    void (*execute)(struct qn_pool_item *item); /* on a pool thread, without any lock */
};

/* Starts `size` threads with all signals blocked (lazily: a thread is made when an item needs it).
 */
QUERN_NODISCARD quern_status qn_pool_new(size_t size, struct qn_pool **ret_pool, quern_error *err);
/* Appends items (a list of qn_pool_item.node) and empties the list. True: then call qn_pool_wake,
 * as soon as no lock is held that an item needs. Only sleepers are woken, one at a time: a thread
 * that takes an item wakes the next one if more wait. */
QUERN_NODISCARD bool qn_pool_submit(struct qn_pool *pool, struct qn_list *take_items);
void qn_pool_wake(struct qn_pool *pool);
/* Starts a thread if an item waits, all threads are busy and there may be one more. Else nothing
 * would try that again before the next item, where the system had refused it. QUERN_E_NOMEM: it
 * does so again. */
QUERN_NODISCARD quern_status qn_pool_fill(struct qn_pool *pool, quern_error *err);
/* Takes an item back that no thread has started; false when it is too late. */
bool qn_pool_take_back(struct qn_pool *pool, struct qn_pool_item *item);
/* The thread that runs `item` has been given up: it is not counted any more and ends when its
 * execute returns; another is started in its place unless `limit` such threads exist already
 * (then false). */
bool qn_pool_quarantine(struct qn_pool *pool, struct qn_pool_item *item, size_t limit);
/* From now on there are at most `size` threads, at least one: those that are too many end when they
 * have nothing to execute or have executed what they have. Any thread. */
void qn_pool_resize(struct qn_pool *pool, size_t size);
size_t qn_pool_quarantined(struct qn_pool *pool);
struct qn_pool_counts {
    size_t alive; /* threads, quarantined ones included */
    size_t sleeping;
    size_t quarantined;
};
/* pool: NULL counts nothing. */
void qn_pool_count(struct qn_pool *pool, struct qn_pool_counts *ret_counts);
/* Waits until all threads have ended, or until deadline (CLOCK_MONOTONIC ns); true when they have,
 * and the pool is freed then. False: threads still run; the pool stays, and leaks on purpose. */
bool qn_pool_stop(struct qn_pool *pool, int64_t deadline_mono_ns);

#endif
