/* SPDX-License-Identifier: MIT */
/* pool.c - a pool of threads: items in, one FIFO, at most `size` threads, which may change.
 *
 * Threads are made when items wait and no thread sleeps, and live until the pool stops. At most one
 * wake-up is pending at a time (`waking`): the woken thread clears the mark, takes an item and
 * wakes the next sleeper if more items wait. So items that take no time are all run by the one or
 * two threads that are awake already, while items that block still get a thread each, one wake-up
 * after the other.
 *
 * A thread whose item does not end can be quarantined: it is no longer counted, another one may be
 * started in its place, and it ends when its item does. Threads are never killed.
 *
 * When the system refuses a thread the pool continues with the threads it has; qn_pool_new starts
 * the first one itself. Its owner calls qn_pool_fill from time to time. */
#include "pool/pool.h"

#include <pthread.h>

#include "base/assert.h"
#include "base/cond.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/thread.h"

struct thread {
    struct qn_list node; /* in pool->threads, or in pool->ended */
    struct qn_pool *pool;
    pthread_t id;
    struct qn_pool_item *item; /* the item it executes; NULL: none */
    uint64_t item_number; /* grows with each item taken: distinguishes a new item from an old one
                                * at the same address */
    bool quarantined;
};

struct qn_pool {
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t work;   /* sleepers wait here */
    pthread_cond_t gone;   /* qn_pool_stop waits here for threads to end */
    struct qn_list items;
    struct qn_list threads; /* alive, quarantined ones included */
    struct qn_list ended;   /* to be joined */
    size_t size;
    size_t counted; /* alive and not quarantined */
    size_t sleeping;
    size_t quarantined;
    uint64_t items_taken;
    bool waking; /* a thread was woken or made and has not looked yet */
    bool stopping;
};

static void *thread_main(void *argument);

/* With mutex held. Frees the resources of threads that have ended. */
static void join_ended(struct qn_pool *pool)
{
    struct qn_list *node = qn_list_shift(&pool->ended);
    while (node != NULL) {
        struct thread *thread = QN_CONTAINER_OF(node, struct thread, node);
        (void)pthread_join(thread->id, NULL); /* its last act was to unlock the mutex */
        qn_free(thread);
        node = qn_list_shift(&pool->ended);
    }
}

/* With mutex held. */
static quern_status start_thread(struct qn_pool *pool, quern_error *err)
{
    struct thread *thread = qn_alloc_zero(1, sizeof *thread);
    if (thread == NULL) {
        return qn_error_nomem(err);
    }
    thread->pool = pool;
    quern_status status = qn_thread_start(&thread->id, "quern-pool", thread_main, thread, err);
    if (status != QUERN_OK) {
        qn_free(thread);
        return status;
    }
    qn_list_append(&pool->threads, &thread->node);
    pool->counted++;
    return QUERN_OK;
}

/* With mutex held. Makes sure that a thread will take the items: one may be on the way already,
 * and busy ones look when they have finished. True: a sleeper has to be signalled, best without the
 * mutex, because it would wake up while the signal is sent, and wait for the mutex. */
static bool plan_wake(struct qn_pool *pool)
{
    if (pool->waking || qn_list_empty(&pool->items)) {
        return false;
    }
    if (pool->sleeping > 0) {
        pool->waking = true;
        return true;
    }
    if (pool->counted < pool->size && !pool->stopping) {
        /* Without a new thread the busy ones do the work, only later. */
        pool->waking = start_thread(pool, NULL) == QUERN_OK;
    }
    return false;
}

/* With mutex held, which is let go while the item is executed. */
static void run_item(struct thread *thread, struct qn_list *node)
{
    struct qn_pool *pool = thread->pool;
    struct qn_pool_item *item = QN_CONTAINER_OF(node, struct qn_pool_item, node);
    thread->item = item;
    thread->item_number = ++pool->items_taken;
    bool wake = plan_wake(pool);
    (void)pthread_mutex_unlock(&pool->mutex);
    if (wake) {
        qn_pool_wake(pool);
    }
    item->execute(item); /* it may be freed in there */
    (void)pthread_mutex_lock(&pool->mutex);
    thread->item = NULL;
}

static void *thread_main(void *argument)
{
    struct thread *thread = argument;
    struct qn_pool *pool = thread->pool;
    (void)pthread_mutex_lock(&pool->mutex);
    pool->waking = false;
    while (!thread->quarantined && pool->counted <= pool->size) {
        struct qn_list *node = qn_list_shift(&pool->items);
        if (node != NULL) {
            run_item(thread, node);
        } else if (pool->stopping) {
            break;
        } else {
            pool->sleeping++;
            (void)pthread_cond_wait(&pool->work, &pool->mutex);
            pool->sleeping--;
            pool->waking = false;
        }
    }
    if (thread->quarantined) {
        pool->quarantined--;
    } else {
        pool->counted--;
        if (plan_wake(pool)) {
            qn_pool_wake(pool); /* it was too many, and the wake-up of another one */
        }
    }
    qn_list_remove(&thread->node);
    qn_list_append(&pool->ended, &thread->node);
    (void)pthread_cond_broadcast(&pool->gone);
    (void)pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static void free_pool(struct qn_pool *pool)
{
    (void)pthread_cond_destroy(&pool->gone);
    (void)pthread_cond_destroy(&pool->work);
    (void)pthread_mutex_destroy(&pool->mutex);
    qn_free(pool);
}

quern_status qn_pool_new(size_t size, struct qn_pool **ret_pool, quern_error *err)
{
    QN_ASSERT(size > 0);
    struct qn_pool *pool = qn_alloc_zero(1, sizeof *pool);
    if (pool == NULL) {
        return qn_error_nomem(err);
    }
    pool->size = size;
    qn_list_init(&pool->items);
    qn_list_init(&pool->threads);
    qn_list_init(&pool->ended);
    (void)pthread_mutex_init(&pool->mutex, NULL); /* cannot fail on Linux */
    (void)pthread_cond_init(&pool->work, NULL);
    qn_cond_init(&pool->gone);
    (void)pthread_mutex_lock(&pool->mutex);
    quern_status status = start_thread(pool, err);
    (void)pthread_mutex_unlock(&pool->mutex);
    if (status != QUERN_OK) {
        free_pool(pool);
        return status;
    }
    *ret_pool = pool;
    return QUERN_OK;
}

bool qn_pool_submit(struct qn_pool *pool, struct qn_list *take_items)
{
    (void)pthread_mutex_lock(&pool->mutex);
    QN_ASSERT(!pool->stopping);
    struct qn_list *node = qn_list_shift(take_items);
    while (node != NULL) {
        qn_list_append(&pool->items, node);
        node = qn_list_shift(take_items);
    }
    bool wake = plan_wake(pool);
    (void)pthread_mutex_unlock(&pool->mutex);
    return wake;
}

quern_status qn_pool_fill(struct qn_pool *pool, quern_error *err)
{
    quern_status status = QUERN_OK;
    (void)pthread_mutex_lock(&pool->mutex);
    bool is_needed = !qn_list_empty(&pool->items) && !pool->waking && pool->sleeping == 0;
    if (is_needed && pool->counted < pool->size && !pool->stopping) {
        status = start_thread(pool, err);
        pool->waking = status == QUERN_OK;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return status;
}

void qn_pool_resize(struct qn_pool *pool, size_t size)
{
    QN_ASSERT(size > 0);
    (void)pthread_mutex_lock(&pool->mutex);
    join_ended(pool);
    pool->size = size;
    bool wake = plan_wake(pool);
    if (pool->counted > size) {
        (void)pthread_cond_broadcast(&pool->work);
    } else if (wake) {
        qn_pool_wake(pool);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
}

void qn_pool_wake(struct qn_pool *pool)
{
    (void)pthread_cond_signal(&pool->work);
}

bool qn_pool_take_back(struct qn_pool *pool, struct qn_pool_item *item)
{
    (void)pthread_mutex_lock(&pool->mutex);
    /* A node that was shifted points at itself. */
    bool waits = !qn_list_empty(&item->node);
    if (waits) {
        qn_list_remove(&item->node);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return waits;
}

/* With mutex held. The latest thread that took an item of this address; NULL: none. */
static struct thread *find_thread(struct qn_pool *pool, const struct qn_pool_item *item)
{
    struct thread *found = NULL;
    for (struct qn_list *node = pool->threads.next; node != &pool->threads; node = node->next) {
        struct thread *thread = QN_CONTAINER_OF(node, struct thread, node);
        if (thread->item == item && !thread->quarantined &&
            (found == NULL || thread->item_number > found->item_number)) {
            found = thread;
        }
    }
    return found;
}

bool qn_pool_quarantine(struct qn_pool *pool, struct qn_pool_item *item, size_t limit)
{
    (void)pthread_mutex_lock(&pool->mutex);
    join_ended(pool);
    struct thread *thread = find_thread(pool, item);
    bool replaced = false;
    bool wake = false;
    if (thread != NULL && pool->quarantined < limit) {
        thread->quarantined = true;
        pool->quarantined++;
        pool->counted--;
        replaced = true;
        wake = plan_wake(pool);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    if (wake) {
        qn_pool_wake(pool);
    }
    return replaced;
}

size_t qn_pool_quarantined(struct qn_pool *pool)
{
    (void)pthread_mutex_lock(&pool->mutex);
    size_t quarantined = pool->quarantined;
    (void)pthread_mutex_unlock(&pool->mutex);
    return quarantined;
}

void qn_pool_count(struct qn_pool *pool, struct qn_pool_counts *ret_counts)
{
    struct qn_pool_counts counts = {0};
    if (pool != NULL) {
        (void)pthread_mutex_lock(&pool->mutex);
        counts = (struct qn_pool_counts){.alive = pool->counted + pool->quarantined,
                                         .sleeping = pool->sleeping,
                                         .quarantined = pool->quarantined};
        (void)pthread_mutex_unlock(&pool->mutex);
    }
    *ret_counts = counts;
}

/* With mutex held. Whether something is or will be executed. A thread without an item only needs a
 * CPU to end, however late it is. */
static bool is_busy(struct qn_pool *pool)
{
    for (struct qn_list *node = pool->threads.next; node != &pool->threads; node = node->next) {
        if (QN_CONTAINER_OF(node, struct thread, node)->item != NULL) {
            return true;
        }
    }
    return !qn_list_empty(&pool->items);
}

bool qn_pool_stop(struct qn_pool *pool, int64_t deadline_mono_ns)
{
    (void)pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    (void)pthread_cond_broadcast(&pool->work);
    bool late = false;
    while (!qn_list_empty(&pool->threads) && !(late && is_busy(pool))) {
        if (late) {
            (void)pthread_cond_wait(&pool->gone, &pool->mutex);
        } else {
            late = !qn_cond_wait_until(&pool->gone, &pool->mutex, deadline_mono_ns);
        }
    }
    bool stopped = qn_list_empty(&pool->threads);
    join_ended(pool);
    (void)pthread_mutex_unlock(&pool->mutex);
    if (stopped) {
        free_pool(pool);
    }
    return stopped;
}
