/* SPDX-License-Identifier: MIT */
/* prefork.c - the thread of a pool of children, and what other threads ask of it.
 *
 * The thread waits in one epoll for all sockets, pipes and zygotes, for the wake-up of other
 * threads, and for its earliest timer. In each round it handles what has come, looks at the timers
 * if one is due, starts missing children, and gives waiting items to children with room.
 *
 * A child that dies: its socket ends, so a new one is started at once; the zygote reports how it
 * ended, then its items are given back with the facts. Should no report come, the child is killed
 * after a second, and given up after another.
 *
 * The pool's own files: generations.c (zygotes), children.c (processes), surplus.c (too many of
 * them), window.c (which child gets which item), receive.c (what it answers), ending.c (who is
 * charged when it dies), pass_on.c (what the next program of the worker gets). */
#include "pool/prefork/prefork.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/thread.h"
#include "pool/prefork/inside/children.h"
#include "pool/prefork/inside/cpu_watch.h"
#include "pool/prefork/inside/ending.h"
#include "pool/prefork/inside/generations.h"
#include "pool/prefork/inside/pass_on.h"
#include "pool/prefork/inside/receive.h"
#include "pool/prefork/inside/state.h"
#include "pool/prefork/inside/surplus.h"
#include "pool/prefork/inside/window.h"
#include "quern/log.h"

enum { EVENTS_MAX = 64, END_MS = 1000 };

static struct qn_prefork_child *child_of(struct qn_list *node)
{
    return QN_CONTAINER_OF(node, struct qn_prefork_child, node);
}

/* The first time it is killed, the second time it is given up. True: it is no more. */
static bool check_end(struct qn_prefork_child *child, int64_t now_ms)
{
    if (now_ms < child->end_until_ms) {
        return false;
    }
    if (!child->was_late) {
        child->was_late = true;
        child->end_until_ms = now_ms + END_MS;
        qn_children_kill(child, child->by_us ? NULL : "it has left its socket and did not end");
        return false;
    }
    qn_receive_rest(child);
    child->status = SIGKILL;
    qn_ending_finish(child);
    return true;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Its earliest timer; QN_NEVER_MS also if it is no more. */
static int64_t check_child(struct qn_prefork_child *child, int64_t now_ms)
{
    if (check_end(child, now_ms)) {
        return QN_NEVER_MS;
    }
    if (now_ms >= child->ready_until_ms) {
        child->ready_until_ms = QN_NEVER_MS;
        qn_children_kill(child, "it was not ready in time");
    }
    if (now_ms >= child->kill_at_ms) {
        qn_children_kill(child, NULL);
    }
    if (now_ms >= child->stderr_at_ms) {
        qn_receive_stderr(child);
    }
    if (qn_cpu_watch_is_over(child, now_ms)) {
        child->over_cpu = true;
        qn_window_take_all(child);
        qn_children_kill(child, NULL);
    }
    int64_t first_ms = earlier(child->end_until_ms, child->ready_until_ms);
    int64_t second_ms = earlier(child->kill_at_ms, child->stderr_at_ms);
    return earlier(earlier(first_ms, second_ms), child->cpu_look_at_ms);
}

static void check_timers(struct qn_prefork *prefork)
{
    int64_t now_ms = qn_children_now_ms();
    if (now_ms < prefork->timer_ms) {
        return;
    }
    prefork->timer_ms = now_ms < prefork->start_at_ms ? prefork->start_at_ms : QN_NEVER_MS;
    struct qn_list *node = prefork->children.next;
    while (node != &prefork->children) {
        struct qn_list *next = node->next; /* only this thread takes children out */
        int64_t at_ms = check_child(child_of(node), now_ms);
        prefork->timer_ms = earlier(prefork->timer_ms, at_ms);
        node = next;
    }
}

static void handle(struct qn_prefork *prefork, const struct epoll_event *event)
{
    const struct qn_source *source = event->data.ptr;
    struct qn_prefork_child *child = source->owner;
    uint64_t count;
    switch (source->kind) {
    case QN_SOURCE_WAKE:
        (void)!read(prefork->wake_fd, &count, sizeof count);
        break;
    case QN_SOURCE_ZYGOTE:
        qn_generations_read(prefork, source->owner);
        break;
    case QN_SOURCE_SOCKET:
        if ((event->events & EPOLLOUT) != 0) {
            qn_children_flush(child);
        }
        qn_receive_some(child);
        break;
    case QN_SOURCE_STDERR:
        if (child->page != NULL) { /* it was not removed in this round */
            qn_receive_stderr(child);
        }
        break;
    }
}

static int timeout_of(const struct qn_prefork *prefork)
{
    if (prefork->timer_ms == QN_NEVER_MS) {
        return -1;
    }
    int64_t left_ms = prefork->timer_ms - qn_children_now_ms() + 1;
    return left_ms < 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

static void wait_and_handle(struct qn_prefork *prefork)
{
    struct epoll_event events[EVENTS_MAX];
    int timeout_ms = prefork->woken ? 0 : timeout_of(prefork);
    prefork->sleeping = true;
    (void)pthread_mutex_unlock(&prefork->mutex);
    int count = epoll_wait(prefork->epoll_fd, events, EVENTS_MAX, timeout_ms);
    (void)pthread_mutex_lock(&prefork->mutex);
    prefork->sleeping = false;
    for (int i = 0; i < count; i++) {
        handle(prefork, &events[i]);
    }
    qn_children_free_removed(prefork);
}

static void end_all(struct qn_prefork *prefork)
{
    while (!qn_list_empty(&prefork->children)) {
        struct qn_prefork_child *child = child_of(prefork->children.next);
        qn_children_kill(child, NULL);
        qn_receive_rest(child);
        child->status = SIGKILL;
        qn_ending_finish(child);
    }
    qn_ending_give_up(prefork, &prefork->refused);
    qn_ending_give_up(prefork, &prefork->waiting);
    qn_children_free_removed(prefork);
}

static void tell_ready(struct qn_prefork *prefork)
{
    uint32_t count = prefork->ready;
    if (prefork->ops.ready != NULL && count != prefork->told_ready) {
        prefork->told_ready = count;
        (void)pthread_mutex_unlock(&prefork->mutex);
        prefork->ops.ready(count, prefork->user);
        (void)pthread_mutex_lock(&prefork->mutex);
    }
}

static void *thread_main(void *argument)
{
    struct qn_prefork *prefork = argument;
    (void)pthread_mutex_lock(&prefork->mutex);
    while (!prefork->stopping && !prefork->frozen) {
        prefork->woken = false;
        qn_generations_take_next(prefork);
        check_timers(prefork);
        qn_surplus_retire(prefork);
        int error_number = qn_children_start(prefork);
        if (error_number != 0) {
            qn_ending_failed(prefork, 0, strerrordesc_np(error_number));
        }
        qn_ending_give_up(prefork, &prefork->refused);
        if (prefork->is_gone) {
            qn_ending_give_up(prefork, &prefork->waiting);
        }
        tell_ready(prefork);
        qn_window_fill(prefork);
        if (!prefork->stopping && !prefork->frozen) {
            wait_and_handle(prefork);
        }
    }
    if (prefork->stopping) {
        end_all(prefork);
    }
    (void)pthread_mutex_unlock(&prefork->mutex);
    return NULL;
}

static quern_status open_fds(struct qn_prefork *prefork, quern_error *err)
{
    prefork->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    prefork->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    prefork->wake_source = (struct qn_source){QN_SOURCE_WAKE, prefork};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &prefork->wake_source};
    if (prefork->epoll_fd < 0 || prefork->wake_fd < 0 ||
        epoll_ctl(prefork->epoll_fd, EPOLL_CTL_ADD, prefork->wake_fd, &event) != 0) {
        return qn_error_set(err, QUERN_E_FULL, "no descriptors for a pool: %s", strerror(errno));
    }
    return QUERN_OK;
}

static void free_pool(struct qn_prefork *prefork)
{
    if (prefork->epoll_fd >= 0) {
        (void)close(prefork->epoll_fd);
    }
    if (prefork->wake_fd >= 0) {
        (void)close(prefork->wake_fd);
    }
    qn_buf_finish(&prefork->encoded);
    (void)pthread_mutex_destroy(&prefork->mutex);
    qn_free(prefork);
}

static void init_lists(struct qn_prefork *prefork)
{
    struct qn_list *const lists[] = {&prefork->waiting,    &prefork->refused, &prefork->children,
                                     &prefork->freed,      &prefork->idle,    &prefork->partial,
                                     &prefork->generations};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        qn_list_init(lists[i]);
    }
}

static void tell_made(const struct qn_prefork *prefork, struct qn_prefork *made)
{
    if (prefork->ops.made != NULL) {
        prefork->ops.made(made, prefork->user);
    }
}

static quern_status start_thread(struct qn_prefork *prefork, quern_error *err)
{
    tell_made(prefork, prefork);
    quern_status status =
        qn_thread_start(&prefork->thread, "quern-prefork", thread_main, prefork, err);
    if (status != QUERN_OK) {
        tell_made(prefork, NULL);
    }
    return status;
}

/* Of a pool that has no thread yet; its own zygote stays the caller's. */
static void drop_generations(struct qn_prefork *prefork)
{
    struct qn_generation *newest = qn_generations_newest(prefork);
    qn_list_remove(&newest->node);
    qn_free(newest);
    while (!qn_list_empty(&prefork->generations)) {
        qn_generations_free(prefork, qn_generations_newest(prefork));
    }
}

quern_status qn_prefork_new(struct qn_zygote *zygote, const struct qn_prefork_options *options,
                            const struct qn_prefork_ops *ops, struct qn_prefork **ret_prefork,
                            quern_error *err)
{
    QN_ASSERT(options->size > 0);
    QN_ASSERT(options->window >= 1 && options->window <= QN_PAGE_SLOTS);
    struct qn_prefork *prefork = qn_alloc_zero(1, sizeof *prefork);
    if (prefork == NULL) {
        return qn_error_nomem(err);
    }
    prefork->options = *options;
    prefork->ops = *ops;
    prefork->user = options->user;
    prefork->timer_ms = QN_NEVER_MS;
    init_lists(prefork);
    qn_buf_init(&prefork->encoded, UINT32_MAX);
    (void)pthread_mutex_init(&prefork->mutex, NULL); /* cannot fail on Linux */
    quern_status status = open_fds(prefork, err);
    if (status == QUERN_OK) {
        status = qn_generations_add(prefork, zygote, err);
    }
    if (status != QUERN_OK) {
        goto fail;
    }
    if (options->passed_on != NULL) {
        status = qn_pass_on_read(prefork, options->passed_on, err);
    }
    if (status == QUERN_OK) {
        status = start_thread(prefork, err);
    }
    if (status != QUERN_OK) {
        qn_pass_on_forget(prefork);
        drop_generations(prefork);
        goto fail;
    }
    *ret_prefork = prefork;
    return QUERN_OK;

fail:
    free_pool(prefork);
    return status;
}

void qn_prefork_submit(struct qn_prefork *prefork, struct qn_list *take_items)
{
    (void)pthread_mutex_lock(&prefork->mutex);
    struct qn_list *node = qn_list_shift(take_items);
    while (node != NULL) {
        struct qn_prefork_item *item = QN_CONTAINER_OF(node, struct qn_prefork_item, node);
        item->child = NULL;
        item->is_killed = false;
        qn_list_append(&prefork->waiting, node);
        node = qn_list_shift(take_items);
    }
    qn_children_wake(prefork);
    (void)pthread_mutex_unlock(&prefork->mutex);
}

/* With the mutex held. Out of the waiting ones, or out of a window. */
static bool take(struct qn_prefork_item *item)
{
    if (item->child != NULL) {
        return qn_window_take(item);
    }
    bool waits = !qn_list_empty(&item->node); /* a node that was shifted points at itself */
    qn_list_remove(&item->node);
    return waits;
}

bool qn_prefork_take_back(struct qn_prefork *prefork, struct qn_prefork_item *item)
{
    (void)pthread_mutex_lock(&prefork->mutex);
    bool taken = take(item);
    (void)pthread_mutex_unlock(&prefork->mutex);
    return taken;
}

void qn_prefork_send(struct qn_prefork *prefork, struct qn_prefork_item *item, uint16_t kind,
                     struct qn_bytes body)
{
    (void)pthread_mutex_lock(&prefork->mutex);
    struct qn_prefork_child *child = item->child;
    if (child != NULL && child->socket_fd >= 0) {
        const struct qn_frame_header header = {
            .kind = kind, .slot = (uint16_t)item->slot, .sequence = item->sequence};
        if (qn_send_frame(&child->out, &header, body)) {
            qn_children_flush(child);
        } else {
            qn_children_kill(child, NULL); /* it would wait for ever */
        }
    }
    (void)pthread_mutex_unlock(&prefork->mutex);
}

void qn_prefork_cancel(struct qn_prefork *prefork, struct qn_prefork_item *item, uint32_t reason)
{
    QN_ASSERT(reason != 0);
    (void)pthread_mutex_lock(&prefork->mutex);
    struct qn_prefork_child *child = item->child;
    if (child != NULL) {
        qn_page_cancel(child->page, item->slot, item->sequence, reason);
        if (child->pid_fd >= 0 && !child->is_ended) {
            (void)pidfd_send_signal(child->pid_fd, SIGUSR1, NULL, 0); /* not what it started */
        }
    }
    (void)pthread_mutex_unlock(&prefork->mutex);
}

/* With the mutex held. */
static void kill_child(struct qn_prefork_child *child, int64_t kill_after_ms)
{
    struct qn_prefork *prefork = child->prefork;
    child->by_us = true;
    child->retiring = true;
    qn_list_remove(&child->room_node);
    qn_window_take_all(child);
    if (kill_after_ms <= 0) {
        qn_children_kill(child, NULL);
    } else {
        qn_children_signal(child, SIGTERM);
        child->kill_at_ms = earlier(child->kill_at_ms, qn_children_now_ms() + kill_after_ms);
        qn_children_set_timer(prefork, child->kill_at_ms);
    }
    qn_children_wake(prefork);
}

void qn_prefork_kill(struct qn_prefork *prefork, struct qn_prefork_item *item,
                     int64_t kill_after_ms)
{
    (void)pthread_mutex_lock(&prefork->mutex);
    struct qn_prefork_child *child = item->child;
    if (take(item)) {
        qn_list_append(&prefork->refused, &item->node);
        qn_children_wake(prefork);
    } else if (child != NULL && (child->window[0] == item ||
                                 qn_page_is_started(child->page, item->slot, item->sequence))) {
        kill_child(child, kill_after_ms);
    } else if (child != NULL) {
        item->is_killed = true;
    }
    (void)pthread_mutex_unlock(&prefork->mutex);
}

void qn_prefork_reload(struct qn_prefork *prefork, struct qn_zygote *take_zygote)
{
    (void)pthread_mutex_lock(&prefork->mutex);
    struct qn_zygote *unused = prefork->next_zygote;
    prefork->next_zygote = take_zygote;
    qn_children_wake(prefork);
    (void)pthread_mutex_unlock(&prefork->mutex);
    qn_zygote_free(unused);
}

void qn_prefork_freeze(struct qn_prefork *prefork)
{
    (void)pthread_mutex_lock(&prefork->mutex);
    prefork->frozen = true;
    qn_children_wake(prefork);
    (void)pthread_mutex_unlock(&prefork->mutex);
    (void)pthread_join(prefork->thread, NULL);
}

quern_status qn_prefork_thaw(struct qn_prefork *prefork, quern_error *err)
{
    prefork->frozen = false;
    quern_status status = start_thread(prefork, err);
    prefork->frozen = status != QUERN_OK;
    return status;
}

bool qn_prefork_describe(struct qn_prefork *prefork, struct qn_buf *out, struct qn_buf *fds,
                         uint64_t (*key)(const struct qn_prefork_item *item))
{
    QN_ASSERT(prefork->frozen);
    return qn_pass_on_write(prefork, out, fds, key);
}

void qn_prefork_pass_on(struct qn_prefork *prefork)
{
    qn_pass_on_forget(prefork);
    while (!qn_list_empty(&prefork->generations)) {
        qn_generations_forget(prefork, qn_generations_newest(prefork));
    }
    qn_zygote_free(prefork->next_zygote);
    free_pool(prefork);
}

void qn_prefork_free(struct qn_prefork *prefork)
{
    (void)pthread_mutex_lock(&prefork->mutex);
    prefork->stopping = true;
    bool has_thread = !prefork->frozen;
    qn_children_wake(prefork);
    (void)pthread_mutex_unlock(&prefork->mutex);
    if (has_thread) {
        (void)pthread_join(prefork->thread, NULL);
    } else {
        (void)thread_main(prefork);
    }
    while (!qn_list_empty(&prefork->generations)) {
        qn_generations_free(prefork, qn_generations_newest(prefork));
    }
    qn_zygote_free(prefork->next_zygote);
    free_pool(prefork);
}
