/* SPDX-License-Identifier: MIT */
/* generations.c - reads what zygotes report, and replaces one by the next.
 *
 * The children of an old zygote get no more items: those that are idle end at once, the others with
 * the item that they run. A new child is started for each that has ended, so there are never more
 * than the pool's size. An old zygote ends with its last child.
 *
 * A zygote that dies takes its children with it, and so does one that reports what cannot be. If
 * new children would come from it, the pool is gone: it gives back all items, now and later. An
 * older one costs the items of its children. */
#include "pool/prefork/inside/generations.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "pool/prefork/inside/children.h"
#include "pool/prefork/inside/ending.h"
#include "pool/prefork/inside/receive.h"
#include "pool/prefork/inside/window.h"
#include "quern/log.h"

enum { EVENTS_MAX = 64 }; /* of a zygote at a time: others have their turn */
static const char broken[] = "broke the rules of its connection and was ended";

static struct qn_prefork_child *child_of(struct qn_list *node)
{
    return QN_CONTAINER_OF(node, struct qn_prefork_child, node);
}

struct qn_generation *qn_generations_newest(struct qn_prefork *prefork)
{
    return QN_CONTAINER_OF(prefork->generations.next, struct qn_generation, node);
}

static quern_status new_generation(struct qn_prefork *prefork, struct qn_zygote *zygote,
                                   struct qn_generation **ret_generation, quern_error *err)
{
    struct qn_generation *generation = qn_alloc_zero(1, sizeof *generation);
    if (generation == NULL) {
        return qn_error_nomem(err);
    }
    generation->zygote = zygote;
    generation->source = (struct qn_source){QN_SOURCE_ZYGOTE, generation};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &generation->source};
    if (epoll_ctl(prefork->epoll_fd, EPOLL_CTL_ADD, qn_zygote_fd(zygote), &event) != 0) {
        quern_status status =
            qn_error_set(err, QUERN_E_FULL, "cannot watch the zygote: %s", strerror(errno));
        qn_free(generation);
        return status;
    }
    *ret_generation = generation;
    return QUERN_OK;
}

quern_status qn_generations_add(struct qn_prefork *prefork, struct qn_zygote *zygote,
                                quern_error *err)
{
    struct qn_generation *generation = NULL;
    quern_status status = new_generation(prefork, zygote, &generation, err);
    if (status == QUERN_OK) {
        qn_list_prepend(&prefork->generations, &generation->node);
    }
    return status;
}

quern_status qn_generations_add_old(struct qn_prefork *prefork, struct qn_zygote *take_zygote,
                                    struct qn_generation **ret_generation, quern_error *err)
{
    quern_status status = new_generation(prefork, take_zygote, ret_generation, err);
    if (status == QUERN_OK) {
        qn_list_append(&prefork->generations, &(*ret_generation)->node);
    } else {
        qn_zygote_free(take_zygote);
    }
    return status;
}

/* A fork of ours may still have a copy of the descriptor: closed alone, it would stay in the
 * epoll. */
static void leave(struct qn_prefork *prefork, struct qn_generation *generation)
{
    (void)epoll_ctl(prefork->epoll_fd, EPOLL_CTL_DEL, qn_zygote_fd(generation->zygote), NULL);
    qn_list_remove(&generation->node);
}

void qn_generations_forget(struct qn_prefork *prefork, struct qn_generation *generation)
{
    leave(prefork, generation);
    qn_zygote_forget(generation->zygote);
    qn_free(generation);
}

void qn_generations_free(struct qn_prefork *prefork, struct qn_generation *generation)
{
    leave(prefork, generation);
    qn_zygote_free(generation->zygote);
    qn_free(generation);
}

static struct qn_prefork_child *find_child(struct qn_prefork *prefork,
                                           const struct qn_generation *generation, uint64_t number)
{
    for (struct qn_list *node = prefork->children.next; node != &prefork->children;
         node = node->next) {
        struct qn_prefork_child *child = child_of(node);
        if (child->number == number && child->generation == generation) {
            return child;
        }
    }
    return NULL;
}

/* The children of a zygote that is gone die with it. */
static void lose_children(struct qn_prefork *prefork, const struct qn_generation *generation)
{
    struct qn_list *node = prefork->children.next;
    while (node != &prefork->children) {
        struct qn_prefork_child *child = child_of(node);
        if (child->generation != generation) {
            node = node->next;
            continue;
        }
        qn_children_kill(child, NULL);
        child->with_zygote = true;
        qn_receive_rest(child);
        child->status = SIGKILL;
        qn_ending_finish(child);
        node = prefork->children.next; /* others may have changed the list meanwhile */
    }
}

static void lose_generation(struct qn_prefork *prefork, struct qn_generation *generation,
                            const char *how)
{
    if (generation->gone) {
        return;
    }
    generation->gone = true;
    (void)epoll_ctl(prefork->epoll_fd, EPOLL_CTL_DEL, qn_zygote_fd(generation->zygote), NULL);
    bool is_newest = generation == qn_generations_newest(prefork) || QN_BUG(OLD_ZYGOTE_ENDS_POOL);
    if (is_newest) {
        prefork->is_gone = true;
        (void)snprintf(prefork->gone_why, sizeof prefork->gone_why, "the zygote (process %d) %s",
                       (int)qn_zygote_pid(generation->zygote), how);
    } else if (generation->child_count > 0) {
        qn_ending_log(prefork, QUERN_LOG_WARN, "an older zygote ended, with its children",
                      qn_zygote_pid(generation->zygote), "");
    }
    lose_children(prefork, generation);
    if (is_newest) {
        qn_ending_give_up(prefork, &prefork->waiting);
        (void)pthread_mutex_unlock(&prefork->mutex);
        prefork->ops.gone(prefork->gone_why, prefork->user);
        (void)pthread_mutex_lock(&prefork->mutex);
    }
}

static void on_started(struct qn_prefork_child *child, const struct qn_zygote_event *event)
{
    struct qn_prefork *prefork = child->prefork;
    child->pid = event->pid;
    child->pid_fd = event->pid_fd;
    qn_ending_log(prefork, QUERN_LOG_DEBUG, "a child started", event->pid, "");
    if (child->by_us || event->pid_fd < 0) {
        qn_children_kill(child, NULL); /* it was to be killed before, or could not be signalled */
        qn_children_close_socket(child);
    }
    qn_receive_ready(child);
}

static void on_ended(struct qn_prefork_child *child, const struct qn_zygote_event *event)
{
    child->status = event->status;
    child->usage = event->usage;
    child->is_ended = true;
    qn_receive_rest(child);
    qn_ending_finish(child);
}

static void on_refused(struct qn_prefork_child *child, const struct qn_zygote_event *event)
{
    struct qn_prefork *prefork = child->prefork;
    qn_children_back_off(prefork);
    qn_children_note_closing(child);
    qn_children_remove(child);
    qn_ending_failed(prefork, 0, strerrordesc_np(event->error_number));
}

/* A child is started or refused, once, and ends after it has started. One that is not there was
 * given up meanwhile. */
static bool can_be_true(const struct qn_prefork *prefork, const struct qn_prefork_child *child,
                        const struct qn_zygote_event *event)
{
    if (child == NULL) {
        return event->number <= prefork->last_number;
    }
    return child->pid == (event->kind == QN_ZYGOTE_ENDED ? event->pid : 0);
}

static void take_event(struct qn_prefork *prefork, struct qn_generation *generation,
                       const struct qn_zygote_event *event)
{
    struct qn_prefork_child *child = find_child(prefork, generation, event->number);
    if (event->kind == QN_ZYGOTE_GONE) {
        lose_generation(prefork, generation, event->error_number != 0 ? broken : "has ended");
        return;
    }
    bool is_true = can_be_true(prefork, child, event);
    if (event->pid_fd >= 0 && (child == NULL || !is_true)) {
        (void)close(event->pid_fd);
    }
    if (!is_true) {
        qn_zygote_refuse(generation->zygote);
        lose_generation(prefork, generation, broken);
    } else if (child == NULL) {
        return;
    } else if (event->kind == QN_ZYGOTE_STARTED) {
        on_started(child, event);
    } else if (event->kind == QN_ZYGOTE_ENDED) {
        on_ended(child, event);
    } else {
        on_refused(child, event);
    }
}

void qn_generations_read(struct qn_prefork *prefork, struct qn_generation *generation)
{
    struct qn_zygote_event event = {.pid_fd = -1};
    for (int i = 0;
         i < EVENTS_MAX && !generation->gone && qn_zygote_next_event(generation->zygote, &event);
         i++) {
        take_event(prefork, generation, &event);
        event = (struct qn_zygote_event){.pid_fd = -1};
    }
}

static void retire_old(struct qn_prefork *prefork)
{
    for (struct qn_list *node = prefork->children.next; node != &prefork->children;
         node = node->next) {
        struct qn_prefork_child *child = child_of(node);
        if (child->generation != qn_generations_newest(prefork) && !child->retiring) {
            qn_window_take_all(child);
            qn_children_retire(child);
        }
    }
}

void qn_generations_take_next(struct qn_prefork *prefork)
{
    struct qn_zygote *zygote = prefork->next_zygote;
    if (zygote != NULL) {
        prefork->next_zygote = NULL;
        if (qn_generations_add(prefork, zygote, NULL) == QUERN_OK) {
            prefork->start_at_ms = 0;
            prefork->fail_count = 0;
            retire_old(prefork);
        } else {
            qn_zygote_free(zygote); /* the old one goes on */
        }
    }
    struct qn_list *node = prefork->generations.next->next;
    while (node != &prefork->generations) {
        struct qn_generation *old = QN_CONTAINER_OF(node, struct qn_generation, node);
        node = node->next;
        if (old->child_count == 0) {
            qn_generations_free(prefork, old);
        }
    }
}
